// A console log that follows its end unless it is scrolled up.
import { getJson } from "../common/json.js";

const EVERY_MS = 2000;
const LIMIT = 300000;

/**
 * Appends to the page's log what `url` returns as {text, end} for `?after=` a byte offset, as long as isLive() and once
 * after that. Calls `onText` when there was something new.
 */
export function follow(url, isLive, onText = () => {}) {
  const log = document.querySelector("[data-role=console]");
  const state = document.querySelector("[data-role=console-state]");
  const description = state.textContent;
  let following = true;
  let wasLive = true;

  const toEnd = () => { if (following) log.scrollTop = log.scrollHeight; };
  log.addEventListener("scroll", () => {
    following = log.scrollHeight - log.scrollTop - log.clientHeight < 24;
    state.textContent = following ? description : "scrolled up: not following";
  });

  async function read() {
    const piece = await getJson(`${url}?after=${log.dataset.end}`);
    if (!piece?.text) return;
    const whole = log.textContent + piece.text;
    log.textContent = whole.length > LIMIT ? whole.slice(whole.indexOf("\n", whole.length - LIMIT) + 1) : whole;
    log.dataset.end = piece.end;
    toEnd();
    onText();
  }

  setInterval(() => {
    if (document.hidden) return;
    const live = isLive();
    // Once more after the end, for the last lines.
    if (live || wasLive) read();
    wasLive = live;
  }, EVERY_MS);
  toEnd();
}
