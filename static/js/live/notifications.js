// Follows one thing until it ends: for the tab, for screen readers, and by a notification for who isn't looking.
import { say } from "../site/announce.js";
import { goesOn } from "../common/status.js";
import { tell } from "../site/tab.js";

const button = document.querySelector("[data-role=notify]");
let before = null;

/**
 * Hears each state of it: `title` names it, `status` is one of a run's or a compilation's, `share` is how far it is
 * (0 to 1, or null), `outcome` a sentence for its end.
 */
export function heard({ title, status, share, outcome }) {
  tell(title, status, share);
  if (button) button.hidden = !goesOn(status);
  if (before !== null && before !== status) say(`${title}: ${status}`);
  if (goesOn(before) && !goesOn(status)) notify(`${title}: ${status}`, outcome);
  before = status;
}

// --- the button

const KEPT = "notify";
const STATES = {
  off: ["Notify me", "When it ends while this tab is in the background"],
  on: ["Will notify", "When it ends while this tab is in the background; press to turn it off"],
  denied: ["Notifications blocked", "Allow notifications of this site in the browser’s settings first"],
  unsupported: ["No notifications", "Browsers give them to sites with HTTPS and on localhost only, and Android’s to none like this"],
};
let wanted = stored();

function stored() {
  try { return localStorage.getItem(KEPT) === "on"; } catch { return false; }
}

function want(now) {
  wanted = now;
  try { localStorage.setItem(KEPT, now ? "on" : "off"); } catch { /* private mode: for this page only */ }
}

function state() {
  // Android's browsers have the name, but let only service workers notify.
  if (!("Notification" in window) || !window.isSecureContext || navigator.userAgent.includes("Android")) return "unsupported";
  if (Notification.permission === "denied") return "denied";
  return wanted && Notification.permission === "granted" ? "on" : "off";
}

function show() {
  const now = state();
  const [label, title] = STATES[now];
  button.dataset.state = now;
  button.title = title;
  button.querySelector("span").textContent = label;
  button.setAttribute("aria-pressed", String(now === "on"));
  // Not `disabled`: who can't press it shall still reach it, and hear why.
  button.setAttribute("aria-disabled", String(["denied", "unsupported"].includes(now)));
}

async function press() {
  if (state() === "on") want(false);
  else if (state() === "off") {
    want(true);
    await Notification.requestPermission();
  }
  show();
  say(`${STATES[state()][0]}. ${STATES[state()][1]}`);
}

function notify(title, body) {
  if (!button || state() !== "on" || (!document.hidden && document.hasFocus())) return;
  // With a tag, two tabs of the same page give one notification.
  const shown = new Notification(title, { body, tag: location.pathname, icon: document.querySelector(".brand img").src });
  shown.addEventListener("click", () => { window.focus(); shown.close(); });
}

if (button) {
  button.addEventListener("click", press);
  // Allowed or blocked in the settings, or turned off in another tab meanwhile.
  addEventListener("focus", () => { wanted = stored(); show(); });
  show();
}
