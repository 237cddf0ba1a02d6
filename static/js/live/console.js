// A console log that grows at its end, and stays there unless it is scrolled up.

const EVERY_MS = 2000;
const LIMIT = 300000;

/** Have the page's log follow `url`, which gives {text, end} `?after=` a byte, while `isLive` says so and once more after that; `heard` is told of more. */
export function follow(url, isLive, heard = () => {}) {
  const log = document.querySelector("[data-role=console]");
  const state = document.querySelector("[data-role=console-state]");
  const said = state.textContent;
  let following = true;
  let wasLive = true;

  const toEnd = () => { if (following) log.scrollTop = log.scrollHeight; };
  log.addEventListener("scroll", () => {
    following = log.scrollHeight - log.scrollTop - log.clientHeight < 24;
    state.textContent = following ? said : "scrolled up: not following";
  });

  async function read() {
    const response = await fetch(`${url}?after=${log.dataset.end}`).catch(() => null);
    if (!response?.ok) return;
    const piece = await response.json();
    if (!piece.text) return;
    const whole = log.textContent + piece.text;
    log.textContent = whole.length > LIMIT ? whole.slice(whole.indexOf("\n", whole.length - LIMIT) + 1) : whole;
    log.dataset.end = piece.end;
    toEnd();
    heard();
  }

  setInterval(() => {
    if (document.hidden) return;
    const live = isLive();
    // Once more after the end, for what was said last.
    if (live || wasLive) read();
    wasLive = live;
  }, EVERY_MS);
  toEnd();
}
