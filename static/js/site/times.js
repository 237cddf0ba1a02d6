// Times in the user's format: how long ago, kept up to date, or date and time in the browser's zone.
import { age } from "../common/units.js";

const EVERY_MS = 10_000;
const DAY = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" };
// Swedish dates are written as in ISO 8601.
const brief = new Intl.DateTimeFormat("sv-SE", DAY);
const full = new Intl.DateTimeFormat("sv-SE", { ...DAY, second: "2-digit", timeZoneName: "short" });
const shown = new Set();

/**
 * Shows a <time> in a shadow tree, so that the server's markup stays as it was sent: refreshed parts are compared with it.
 * With the attribute `exact` it shows the time to the second in either format.
 */
class LocalTime extends HTMLElement {
  connectedCallback() {
    this.time ??= this.#shadowTime();
    shown.add(this);
    this.show();
  }

  disconnectedCallback() {
    shown.delete(this);
  }

  show() {
    const at = new Date(this.time.dateTime);
    const ago = age((Date.now() - at) / 1000);
    const exact = this.hasAttribute("exact");
    const absolute = exact || document.documentElement.dataset.times === "absolute";
    const words = absolute ? (exact ? full : brief).format(at) : ago;
    if (this.time.textContent !== words) this.time.textContent = words;
    this.time.title = absolute ? `${exact ? "" : `${full.format(at)}, `}${ago}` : full.format(at);
  }

  #shadowTime() {
    const time = document.createElement("time");
    time.setAttribute("part", "time");
    time.dateTime = this.querySelector("time").dateTime;
    this.attachShadow({ mode: "open" }).append(time);
    return time;
  }
}
customElements.define("local-time", LocalTime);

const showAll = () => { for (const one of shown) one.show(); };
setInterval(() => document.hidden || showAll(), EVERY_MS);
// Timers are throttled in background tabs and while the machine sleeps.
document.addEventListener("visibilitychange", showAll);
for (const event of ["focus", "pageshow"]) addEventListener(event, showAll);
document.addEventListener("timeschange", showAll);
