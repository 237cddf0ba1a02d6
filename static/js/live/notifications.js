// Reports the progress of one run or compilation: in the tab, to screen readers, and by a notification when it ends unseen.
import { announce } from "../site/announce.js";
import { isOngoing } from "../common/status.js";
import { showProgress } from "../site/tab.js";

const button = document.querySelector("[data-role=notify]");
let before = null;

/**
 * To be called with each state: `title` names the run or compilation, `share` is its progress (0 to 1, or null),
 * `outcome` a sentence about its end.
 */
export function report({ title, status, share, outcome }) {
  showProgress(title, status, share);
  if (button) button.hidden = !isOngoing(status);
  if (before !== null && before !== status) announce(`${title}: ${status}`);
  if (isOngoing(before) && !isOngoing(status)) notify(`${title}: ${status}`, outcome);
  before = status;
}

// --- the button

const KEPT = "notify";
const STATES = {
  off: ["Notify me", "When it ends while this tab is in the background"],
  on: ["Will notify", "When it ends while this tab is in the background; press to turn this off"],
  denied: ["Notifications blocked", "Allow notifications from this site in the browser’s settings first"],
  unsupported: ["No notifications", "Browsers allow notifications only over HTTPS and on localhost, and not at all on Android"],
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
  // Browsers on Android define Notification, but allow only service workers to use it.
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
  // Not `disabled`, so that keyboard and screen reader users can reach it and learn why it doesn't work.
  button.setAttribute("aria-disabled", String(["denied", "unsupported"].includes(now)));
}

async function press() {
  if (state() === "on") want(false);
  else if (state() === "off") {
    want(true);
    await Notification.requestPermission();
  }
  show();
  announce(`${STATES[state()][0]}. ${STATES[state()][1]}`);
}

function notify(title, body) {
  if (!button || state() !== "on" || (!document.hidden && document.hasFocus())) return;
  // The tag makes two tabs of the same page show one notification.
  const shown = new Notification(title, { body, tag: location.pathname, icon: document.querySelector(".brand img").src });
  shown.addEventListener("click", () => { window.focus(); shown.close(); });
}

if (button) {
  button.addEventListener("click", press);
  // Permission or choice may have changed in the settings or in another tab.
  addEventListener("focus", () => { wanted = stored(); show(); });
  show();
}
