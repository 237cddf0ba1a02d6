// Times as the user wants them: how long ago, which goes on by itself, or date and time of day in the browser's zone.
import { age } from "../common/units.js";

const EVERY_MS = 10_000;
const DAY = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" };
// Sweden writes dates as ISO 8601 does.
const brief = new Intl.DateTimeFormat("sv-SE", DAY);
const full = new Intl.DateTimeFormat("sv-SE", { ...DAY, second: "2-digit", timeZoneName: "short" });
const shown = new Set();

/**
 * A <time> in a tree of its own, since pages compare and replace what the server sent. What has the attribute `exact`
 * is written to the second whatever the user chose.
 */
class LocalTime extends HTMLElement {
  connectedCallback() {
    this.time ??= this.#own();
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

  #own() {
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
// Timers stand still in the background and while the machine sleeps.
document.addEventListener("visibilitychange", showAll);
for (const event of ["focus", "pageshow"]) addEventListener(event, showAll);
document.addEventListener("timeschange", showAll);
