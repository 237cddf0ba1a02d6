// What a step line has where the pointer is. Plotly only knows a line's points, which are far apart where nothing improved, so it would
// name another curve's.
import { count, duration, latency } from "../common/units.js";

const NEAR_PX = 24;
const GAP_PX = 12;
/** How the values in a hover template are written, by their format. */
const written = { ".4s": latency, ".3f": (value) => value.toFixed(3), ".3g": (value) => Number(value.toPrecision(3)), "": count };

export class Tip {
  /** `chart` is the `Chart` of the lines; its element holds the plot. */
  constructor(chart) {
    this.chart = chart;
    this.box = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
    this.dot = Object.assign(document.createElement("i"), { className: "tip-dot", hidden: true });
    this.band = Object.assign(document.createElement("i"), { className: "tip-band", hidden: true });
    this.parts = [this.box, this.dot, this.band];
    for (const part of this.parts) part.setAttribute("aria-hidden", "true");
    chart.element.after(...this.parts);
    chart.element.addEventListener("mousemove", (event) => this.#follow(event));
    chart.element.addEventListener("mouseleave", () => this.#hide());
  }

  /** Call once Plotly has drawn: where it shows a point of its own, there is no tip. */
  listen() {
    this.chart.element.on("plotly_hover", () => { this.isPointed = true; this.#hide(); });
    this.chart.element.on("plotly_unhover", () => { this.isPointed = false; });
  }

  #follow(event) {
    const found = this.isPointed || event.buttons ? null : this.#nearest(event);
    if (found) this.#show(found);
    else this.#hide();
  }

  /** The line nearest to the pointer with its value there; null if none is near. */
  #nearest({ clientX, clientY }) {
    const area = this.chart.element.querySelector(".nsewdrag")?.getBoundingClientRect();
    if (!this.chart.drawn || !area) return null;
    const at = { x: clientX - area.left, y: clientY - area.top };
    if (at.x < 0 || at.y < 0 || at.x > area.width || at.y > area.height) return null;
    const axes = this.chart.element._fullLayout;
    const lines = this.chart.element.data.filter((trace) => isStepped(trace) && trace.visible !== "legendonly");
    const told = lines.map((trace) => valueAt(trace, at, axes)).filter(Boolean);
    const nearest = told.reduce((best, one) => (best && best.away <= one.away ? best : one), null);
    return nearest && nearest.away <= NEAR_PX ? { ...nearest, area } : null;
  }

  #show({ trace, index, x, value, place, area }) {
    const [head, ...rest] = [trace.name, this.#sentence(trace, value), this.#where(trace, index, x)].map((text) => Object.assign(document.createElement("span"), { textContent: text }));
    head.style.color = trace.line.color;
    this.box.replaceChildren(head, ...rest);
    this.box.hidden = this.dot.hidden = false;
    const outer = this.chart.element.getBoundingClientRect();
    const [left, top] = [area.left - outer.left + place.x, area.top - outer.top + place.y];
    const isRight = left + GAP_PX + this.box.offsetWidth > outer.width;
    const beside = isRight ? left - GAP_PX - this.box.offsetWidth : left + GAP_PX;
    this.box.style.translate = `${Math.max(0, beside)}px ${Math.max(0, Math.min(top - this.box.offsetHeight / 2, outer.height - this.box.offsetHeight))}px`;
    this.dot.style.translate = `${left}px ${top}px`;
    this.dot.style.background = trace.line.color;
    this.#showBand(trace, { left: area.left - outer.left, top: area.top - outer.top, width: area.width, height: area.height });
  }

  /** What is as good as the line's end, within noise. Plotly isn't asked to draw it, since that would take long in large charts. */
  #showBand(trace, { left, top, width, height }) {
    const within = this.chart.within(trace);
    this.band.hidden = !within;
    if (!within) return;
    const { yaxis } = this.chart.element._fullLayout;
    const [low, high] = within.map((value) => Math.min(Math.max(yaxis.d2p(value), 0), height));
    Object.assign(this.band.style, { translate: `${left}px ${top + high}px`, width: `${width}px`, height: `${low - high}px`, background: trace.line.color });
  }

  #hide() {
    for (const part of this.parts) part.hidden = true;
  }

  /** The first line of the trace's template with this value. */
  #sentence(trace, value) {
    const [first] = trace.meta.hover.split("<br>");
    return first.replace(/%\{y(?::([^}]*))?\}s?/u, (_, format = "") => written[format](value));
  }

  /** The place on the horizontal axis, and since which trial the value holds. */
  #where(trace, index, x) {
    const byTime = this.chart.axis === "time";
    const place = byTime ? `after ${duration(x)}` : `trial ${count(Math.round(x))}`;
    const since = trace.line.shape === "hv" && trace.meta.hover.includes("trial %{") ? (byTime ? trace.customdata : trace.x)[index] : undefined;
    return since === undefined || since === Math.round(x) ? place : `${place}, since trial ${count(since)}`;
  }
}

/** Whether each of the trace's values holds up to the next point, or from the point before. */
export function isStepped({ line, mode, stackgroup }) {
  return Boolean(line) && !stackgroup && mode !== "markers" && ["hv", "vh"].includes(line.shape);
}

/** What a stepped line has at the pointer, and how far away in pixels it is; null where the line has no value. */
function valueAt(trace, at, { xaxis, yaxis }) {
  const { x: xs, y: ys } = trace;
  const last = xs.length - 1;
  if (last < 0) return null;
  const [begin, end] = [xaxis.d2p(xs[0]), xaxis.d2p(xs[last])];
  if (at.x < begin - NEAR_PX || at.x > end + NEAR_PX) return null;
  const x = Math.min(Math.max(xaxis.p2d(at.x), xs[0]), xs[last]);
  const before = lastUpTo(xs, x);
  const index = trace.line.shape === "hv" || before === last || xs[before] === x ? before : before + 1;
  const value = ys[index];
  if (!Number.isFinite(value)) return null;
  const place = { x: xaxis.d2p(x), y: yaxis.d2p(value) };
  // Also beside a step, the line is near.
  const steps = [before, before + 1].filter((one) => one > 0 && one <= last).map((one) => toUpright(at, xaxis.d2p(xs[one]), yaxis.d2p(ys[one - 1]), yaxis.d2p(ys[one])));
  return { trace, index, x, value, place, away: Math.min(Math.hypot(place.x - at.x, place.y - at.y), ...steps) };
}

/** The distance to an upright line. */
function toUpright(at, x, y0, y1) {
  const y = Math.min(Math.max(at.y, Math.min(y0, y1)), Math.max(y0, y1));
  return Math.hypot(x - at.x, y - at.y);
}

/** The index of the last of these sorted numbers that isn't greater. */
function lastUpTo(numbers, most) {
  let [low, high] = [0, numbers.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (numbers[middle] <= most) low = middle;
    else high = middle - 1;
  }
  return low;
}
