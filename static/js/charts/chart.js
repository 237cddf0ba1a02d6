// Draws the figures of dashboard/presentation/charts.py with Plotly and extends them. Colors come from app.css, so that
// charts and tables agree in both themes.
import { colors } from "../common/constants.js";
import { duration, latency } from "../common/units.js";
import { Tip, isStepped } from "./tip.js";

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
const TICKS = 7;
const DOUBLE_CLICK_MS = 320;
const LEGEND_ROW_PX = 19;
/** So many curves, at most, each have a band of noise. More would hide one another. */
const BANDED = 3;

/** Adds a point of a trace to `more`, the argument of `Chart.extend`. */
export function gather(more, trace, number, at, y, text = "") {
  if (!more.has(trace)) more.set(trace, { number: [], at_s: [], y: [], text: [] });
  const points = more.get(trace);
  points.text.push(text);
  points.number.push(number);
  points.at_s.push(at);
  points.y.push(y);
}

export class Chart {
  /**
   * `element` holds the plot, `empty` the text shown without points; `file` is the name of downloads.
   * Callbacks in `on`: zoom(), legend(), click(number of the trial). `key` is a button that shows the legend where it would take
   * much of a narrow chart.
   */
  constructor(element, empty, { file, legend = true, key = null, on = {} }) {
    Object.assign(this, { element, empty, file, legend, key, on, axis: "number", scale: null, figure: null, foremost: null, noise: null, words: description(element) });
    Object.assign(this, { zooms: new Map(), seen: null, held: null });
    this.tip = new Tip(this);
    new ResizeObserver(() => this.#fit()).observe(element.parentElement);
    key?.addEventListener("click", () => this.#unfold());
    element.addEventListener("pointerdown", () => this.#hold(), true);
  }

  get drawn() { return this.figure !== null; }
  get blank() { return !this.drawn || this.points === 0; }
  get points() { return this.figure.data.reduce((sum, { y }) => sum + y.length - (y[0] === null), 0); }

  /** The zoomed range of each axis, in values; null if it isn't zoomed. */
  get zoom() {
    this.#remember();
    return { x: this.zooms.get(this.seen.x) ?? null, y: this.zooms.get(this.seen.y) ?? null };
  }

  /** Zooms to these ranges of values; null shows the whole axis. */
  async look({ x = null, y = null }) {
    const axis = (name, range) => (range ? { [`${name}.range`]: range } : { [`${name}.autorange`]: true });
    await Plotly.relayout(this.element, { ...axis("xaxis", x), ...axis("yaxis", onAxis(y, this.element.layout.yaxis.type)) });
  }

  /** Draws a whole figure; keeps the zoom and the traces hidden in the legend. */
  async draw(figure) {
    await this.held;
    if (this.axis === "time") figure.data.forEach(swap);
    // By these ids Plotly recognizes traces that are hidden in the legend.
    figure.data.forEach((trace, index) => { trace.uid = `trace${index}`; });
    this.figure = figure;
    await this.#react();
  }

  /** Replaces the points of one trace, {number, at_s, y}, and its vertical axis. */
  async put(index, { number, at_s, y }, yaxis = "y") {
    if (!this.drawn) return;
    const [x, customdata] = this.axis === "time" ? [at_s, number] : [number, at_s];
    Object.assign(this.figure.data.at(index), { x, customdata, y, yaxis });
    await this.#react();
  }

  /** Gives each of these tasks a color and a place in the legend; at most as many as there are colors. Null means all tasks. */
  async emphasize(foremost) {
    if (String(foremost) === String(this.foremost)) return;
    this.foremost = foremost;
    if (this.drawn) await this.#react();
  }

  /** The text shown while the chart has no points. */
  explain(text) {
    this.empty.textContent = text;
    this.empty.hidden = !this.blank;
    this.element.classList.toggle("blank", !this.empty.hidden);
  }

  /** Plots against the trials' `number` or `time`. */
  async against(axis) {
    if (axis === this.axis) return;
    this.axis = axis;
    if (!this.drawn) return;
    this.figure.data.forEach(swap);
    await this.#react();
  }

  async scaled(type) {
    this.scale = type;
    if (this.drawn) await this.#react();
  }

  async restyle() {
    if (this.drawn) await this.#react();
  }

  /**
   * Appends points, and extends the last value of step lines up to `end`.
   * `more` maps a trace's index to {number, at_s, y, text}, of which charts without texts ignore the last; `end` is [number, at_s].
   */
  async extend(more, end) {
    const { figure } = this;
    await this.held;
    // A figure drawn meanwhile has these points already.
    if (!this.drawn || figure !== this.figure) return;
    const update = { x: [], y: [], customdata: [] };
    if (this.figure.data.some(({ text }) => text)) update.text = [];
    const indices = [];
    this.figure.data.forEach((trace, index) => {
      const points = this.#after(trace, more.get(index), end);
      if (!points.y.length) return;
      indices.push(index);
      const [x, customdata] = this.axis === "time" ? [points.at_s, points.number] : [points.number, points.at_s];
      update.x.push(x);
      update.y.push(points.y);
      update.customdata.push(customdata);
      update.text?.push(points.text);
    });
    if (!indices.length) return;
    this.#ticks(this.element.layout, end[1]);
    this.element.layout.shapes = this.#shapes(figure.layout);
    await Plotly.extendTraces(this.element, update, indices);
    await this.#dotted(indices);
    this.#describe();
  }

  /** Makes all curves but one task's faint; null resets them. */
  async highlight(task) {
    if (!this.drawn) return;
    this.task = task;
    paint(this.figure.data, this);
    const of = (look) => this.figure.data.map(look);
    const looks = { opacity: of((trace) => trace.opacity), "line.color": of((trace) => trace.line.color), "line.width": of((trace) => trace.line.width) };
    await Plotly.update(this.element, looks, this.noise ? { shapes: this.#shapes(this.figure.layout) } : {});
  }

  #after(trace, points = { number: [], at_s: [], y: [], text: [] }, end) {
    const more = { number: [...points.number], at_s: [...points.at_s], y: [...points.y], text: points.text };
    if (!trace.meta.steps) return more;
    if (trace.meta.held) for (const column of [trace.x, trace.y, trace.customdata]) column.pop();
    const value = more.y.length ? more.y.at(-1) : trace.y.at(-1);
    const reached = more.number.length ? more.number.at(-1) : (this.axis === "time" ? trace.customdata : trace.x).at(-1);
    trace.meta.held = value !== undefined && reached < end[0];
    if (trace.meta.held) {
      more.number.push(end[0]);
      more.at_s.push(end[1]);
      more.y.push(value);
    }
    return more;
  }

  /** Brings the dots of curves of one point up to date. */
  async #dotted(indices) {
    const { data } = this.element;
    const changed = indices.filter((index) => isStepped(data[index]) && data[index].mode !== modeOf(data[index]));
    if (changed.length) await Plotly.restyle(this.element, { mode: changed.map((index) => modeOf(data[index])) }, changed);
  }

  /** Pauses drawing while a zoom box is dragged: Plotly measures it against the axes as they were at its start. */
  #hold() {
    this.held ??= new Promise((done) => {
      const release = () => setTimeout(() => { this.held = null; done(); });
      for (const end of ["pointerup", "pointercancel"]) addEventListener(end, release, { once: true });
    });
  }

  /** Stores the current zoom under the axes shown, so that each axis gets its own zoom back. */
  #remember() {
    if (!this.seen || !this.element.layout) return;
    const { xaxis, yaxis } = this.element.layout;
    const chosen = ({ autorange, range }) => (autorange === true || !range ? null : [...range]);
    this.zooms.set(this.seen.x, chosen(xaxis));
    this.zooms.set(this.seen.y, inValues(chosen(yaxis), yaxis.type));
  }

  async #react() {
    this.#remember();
    const { data } = this.figure;
    paint(data, this);
    const layout = this.#layout();
    dress(layout);
    this.#ticks(layout, this.#lastTime());
    // With a new config object Plotly would start over and forget which traces the legend hides.
    this.config ??= this.#config();
    await Plotly.react(this.element, data, layout, this.config);
    this.#describe();
    if (!this.listening) this.#listen();
  }

  #listen() {
    this.listening = true;
    this.tip.listen();
    this.element.on("plotly_relayout", (change) => this.#zoomed(Object.keys(change)));
    this.element.on("plotly_restyle", ([change]) => { if ("visible" in change) this.#filtered(); });
    let clicked = null;
    this.element.on("plotly_click", ({ points: [point] }) => {
      clearTimeout(clicked);
      clicked = setTimeout(() => this.on.click?.(this.axis === "time" ? point.customdata : point.x), DOUBLE_CLICK_MS);
    });
    // A double click also counts as clicks on the nearest point.
    this.element.on("plotly_doubleclick", () => setTimeout(() => clearTimeout(clicked)));
  }

  /** Describes the chart and the last value of each curve for screen readers. */
  #describe() {
    const { layout, data } = this.figure;
    const written = layout.yaxis.ticksuffix === "s" ? latency : (value) => `${Number(value.toPrecision(4))}${layout.yaxis.ticksuffix ?? ""}`;
    const curves = data.filter((trace) => trace.type === "scatter" && trace.mode !== "markers" && !trace.yaxis && trace.showlegend !== false && Number.isFinite(trace.y.at(-1)));
    const ends = curves.slice(0, colors).map((trace) => `${trace.name} ${written(trace.y.at(-1))}`);
    const what = `${layout.meta.title}: ${layout.yaxis.title.text} against ${this.element.layout.xaxis.title.text}.`;
    const told = layout.meta.told ?? (ends.length ? `At the end: ${ends.join("; ")}.` : "");
    this.words.textContent = `${what} ${told}`.trimEnd();
    for (const drawing of this.element.querySelectorAll("svg.main-svg")) drawing.setAttribute("aria-hidden", "true");
  }

  #layout() {
    const { layout } = this.figure;
    const wide = this.element.clientWidth >= 620;
    // Logarithms can't be stacked.
    const type = (layout.meta.stacked ? null : this.scale) ?? layout.yaxis.type;
    if (this.key) this.key.hidden = wide;
    const folded = this.key && !wide && this.key.getAttribute("aria-pressed") !== "true";
    // To find room for labels, Plotly draws them twice, which takes as long as all the rest. Numbers always fit; names may not.
    const named = this.figure.data.some((trace) => trace.type !== "scatter");
    const labels = { automargin: named, ...(named ? {} : { ticklabeloverflow: "allow" }) };
    this.seen = { x: `${this.axis} ${layout.xaxis.title.text}`, y: layout.yaxis.title.text };
    const ranged = (range) => (range ? { range: [...range], autorange: false } : { autorange: true });
    const [x, y] = [ranged(this.zooms.get(this.seen.x)), ranged(onAxis(this.zooms.get(this.seen.y), type))];
    return {
      ...layout,
      shapes: this.#shapes(layout),
      autosize: true,
      uirevision: "kept",
      margin: { l: 74, r: 16, t: 8, b: 44 },
      hovermode: "closest",
      dragmode: "zoom",
      showlegend: !folded && (layout.showlegend ?? (this.legend && wide && this.figure.data.length > 1)),
      // Right of the plot, below the buttons; above the plot on narrow screens.
      legend: { ...(wide ? { x: 1.01, y: 0.95 } : { orientation: "h", x: 0, y: 1, yanchor: "bottom" }), font: { size: 11 }, itemwidth: 30, tracegroupgap: 0, uirevision: "kept" },
      // We keep the ranges ourselves: Plotly forgets them when an axis changes.
      xaxis: { ...layout.xaxis, ...x, uirevision: this.seen.x, title: { text: this.axis === "time" ? "Time since the start" : layout.xaxis.title.text, standoff: 8 }, ...labels },
      yaxis: { ...layout.yaxis, ...y, type, uirevision: `${type} ${this.seen.y}`, ...labels, title: { ...layout.yaxis.title, standoff: 8 } },
    };
  }

  /** How far measurements of one thing lie apart, as a share; null if nobody knows. */
  async tellNoise(noise) {
    if (noise === this.noise) return;
    const before = this.#banded().length;
    this.noise = noise;
    // Large charts take long to draw, and mostly show no band.
    if (before || this.#banded().length) await this.restyle();
  }

  /** What is as good as the end of this trace, within noise: [low, high]; null if nobody knows, or if a band shows it. */
  within(trace) {
    return this.noise && !this.#banded().some((index) => this.figure.data[index] === trace) ? around(trace, this.noise) : null;
  }

  #shapes(layout) {
    return [...this.#bands(), ...this.#sessions(layout)];
  }

  /** For each banded curve, what is as good as its end, within noise. */
  #bands() {
    const { data, layout } = this.figure;
    const noise = layout.meta.band?.noise ?? this.noise;
    const curves = this.#banded().map((index) => data[index]).filter(Boolean);
    const bands = curves.map((curve) => [curve, around(curve, noise)]).filter(([, band]) => band);
    return bands.map(([{ line }, [y0, y1]]) => ({ type: "rect", name: "noise", xref: "paper", x0: 0, x1: 1, y0, y1, layer: "below", line: { width: 0 }, fillcolor: line.color, opacity: 0.13 }));
  }

  /**
   * Indices of the traces with a band: the one that a comparison's figure names, a run's own estimate, the curve of the task that is pointed
   * at, or all curves that are shown if they are few.
   */
  #banded() {
    const { data, layout } = this.figure ?? { data: [], layout: { meta: {} } };
    if (layout.meta.band) return [layout.meta.band.trace];
    if (!this.noise) return [];
    const curves = data.map((trace, index) => ({ ...trace.meta, index, trace })).filter(({ trace }) => isStepped(trace) && trace.visible !== "legendonly");
    const shown = curves.filter(({ role: own, task }) => own === "estimate" || task !== undefined);
    const pointed = shown.filter(({ task }) => task !== undefined && task === this.task);
    const banded = pointed.length ? pointed : shown.length <= BANDED ? shown : [];
    return banded.map(({ index }) => index);
  }

  /** The legend shows other curves now. */
  #filtered() {
    if (this.noise) Plotly.relayout(this.element, { shapes: this.#shapes(this.figure.layout) });
    this.on.legend?.();
  }

  /** A line where each later session of somebody else's tuner begins. */
  #sessions({ meta }) {
    const places = (meta?.sessions ?? []).map(({ number, at_s }) => (this.axis === "time" ? at_s : number)).filter((place) => place !== null);
    const line = { color: color("--text-2"), width: 1, dash: "dot" };
    const label = { text: "session", font: { size: 10 }, textposition: "end", textangle: -90, xanchor: "right", yanchor: "top" };
    return places.map((x) => ({ type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", layer: "below", line, label }));
  }

  #config() {
    return {
      displaylogo: false,
      responsive: false,
      // A slip of the mouse must not send measurements to Plotly's cloud.
      modeBarButtonsToRemove: ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d", "toImage"],
      modeBarButtonsToAdd: [
        { name: "png", title: "Download as PNG", icon: Plotly.Icons.camera, click: () => this.download("png") },
        { name: "html", title: "Download as HTML", icon: Plotly.Icons.disk, click: () => this.download("html") },
      ],
    };
  }

  /** Saves the chart as it is shown, with its title: as PNG, or as HTML that opens offline. */
  download(kind) {
    const { layout } = this.element;
    // A saved page has no tips.
    const data = this.element.data.map((trace) => (isStepped(trace) ? { ...trace, hoverinfo: undefined, hovertemplate: trace.meta.hover } : trace));
    const title = { text: layout.meta.title, x: 0.02, xanchor: "left", font: { size: 17 } };
    const about = { text: this.element.dataset.about ?? "", xref: "paper", yref: "paper", x: 1, y: 1.02, xanchor: "right", yanchor: "bottom", showarrow: false };
    const whole = { ...layout, title, annotations: [about], margin: { ...layout.margin, t: 56, l: 80, r: 32 }, width: undefined, height: undefined };
    if (kind === "html") return saveAsHtml({ data, layout: whole }, this.file);
    return Plotly.downloadImage({ data, layout: whole, config: {} }, { format: "png", width: 1200, height: 675, scale: 2, filename: this.file });
  }

  #lastTime() {
    return Math.max(0, ...this.figure.data.map((trace) => (this.axis === "time" ? trace.x : trace.customdata).at(-1) ?? 0));
  }

  #ticks(layout, lastTime) {
    const { xaxis } = layout;
    if (this.axis !== "time") return Object.assign(xaxis, { tickmode: "auto", tickvals: undefined, ticktext: undefined });
    return Object.assign(xaxis, timeTicks(...(xaxis.autorange === false ? xaxis.range : [0, lastTime])));
  }

  #zoomed(changed) {
    const of = (axis) => changed.some((key) => key.startsWith(`${axis}.range`) || key === `${axis}.autorange`);
    if (of("xaxis") || of("yaxis")) this.on.zoom?.();
    if (this.axis !== "time" || !of("xaxis")) return;
    const { autorange, range } = this.element.layout.xaxis;
    const { tickmode, tickvals, ticktext } = timeTicks(...(autorange === false ? range : [0, this.#lastTime()]));
    Plotly.relayout(this.element, { "xaxis.tickmode": tickmode, "xaxis.tickvals": tickvals, "xaxis.ticktext": ticktext });
  }

  /** Shows or hides the legend of a narrow chart, which grows by as much. */
  #unfold() {
    const shown = this.key.getAttribute("aria-pressed") !== "true";
    this.key.setAttribute("aria-pressed", String(shown));
    const entries = this.drawn ? this.figure.data.filter((trace) => trace.showlegend !== false).length : 0;
    const { style } = this.element.parentElement;
    style.minHeight = "";
    if (shown) style.minHeight = `${this.element.parentElement.clientHeight + entries * LEGEND_ROW_PX}px`;
    return this.restyle();
  }

  #fit() {
    if (!this.drawn) return;
    cancelAnimationFrame(this.fitting);
    this.fitting = requestAnimationFrame(() => this.#react().then(() => Plotly.Plots.resize(this.element)));
  }
}

/** What is as good as the end of a curve, within noise: [low, high]; null if it has no end. */
function around({ y }, noise) {
  const end = y.at(-1);
  return Number.isFinite(end) ? [end * Math.max(0, 1 - noise), end * (1 + noise)] : null;
}

/** The element for the chart's description. */
function description(element) {
  const words = Object.assign(document.createElement("p"), { className: "sr" });
  element.after(words);
  return words;
}

/** A range of values in Plotly's terms: logarithms on a logarithmic axis; null if there are none. */
function onAxis(range, type) {
  if (!range || type !== "log") return range ?? null;
  return range[0] > 0 && range[1] > 0 ? range.map(Math.log10) : null;
}

function inValues(range, type) {
  return range && type === "log" ? range.map((power) => 10 ** power) : range;
}

function swap(trace) {
  [trace.x, trace.customdata] = [trace.customdata, trace.x];
  trace.hovertemplate = swapped(trace.hovertemplate);
  if (trace.meta.hover) trace.meta.hover = swapped(trace.meta.hover);
}

function swapped(template) {
  const [byTrial, byTime] = ["trial %{x} · %{customdata:.1f} s", "trial %{customdata} · %{x:.1f} s"];
  return template.includes(byTime) ? template.replace(byTime, byTrial) : template.replace(byTrial, byTime);
}

/** Saves the figure and Plotly's script, which the browser has cached, as one file. */
async function saveAsHtml(figure, file) {
  const plotly = await fetch(document.querySelector("script[src*='plotly']").src);
  if (!plotly.ok) throw new Error(`${plotly.status} for Plotly`);
  const title = document.createElement("title");
  title.textContent = `${figure.layout.title.text}, ${figure.layout.annotations[0].text}`;
  const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["sendChartToCloud"] };
  const [data, layout, options] = [figure.data, figure.layout, config].map((part) => JSON.stringify(part).replaceAll("<", "\\u003c"));
  const page = `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">${title.outerHTML}
<style>html, body, #chart { height: 100%; margin: 0; background: ${figure.layout.paper_bgcolor}; }</style>
<div id="chart"></div>
<script>${await plotly.text()}</script>
<script>Plotly.newPlot("chart", ${data}, ${layout}, ${options});</script>
</html>
`;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([page], { type: "text/html" }));
  link.download = `${file}.html`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/** Ticks at whole seconds, minutes and hours. */
function timeTicks(low, high) {
  const step = STEPS.find((one) => (high - low) / one <= TICKS) ?? Math.ceil((high - low) / TICKS / 86400) * 86400;
  const first = Math.ceil(Math.max(low, 0) / step) * step;
  const tickvals = [];
  for (let value = first; value <= high; value += step) tickvals.push(value);
  return { tickmode: "array", tickvals, ticktext: tickvals.map((value) => (value ? clock(value) : "0")) };
}

function clock(seconds) {
  if (seconds < 60) return `${seconds} s`;
  return duration(seconds).replace(/ 0+.(min|s|h)$/u, "");
}

/** Colors the traces; among many tasks the foremost stand out, and most of all the one that is pointed at. */
function paint(data, { foremost, task: pointed = null }) {
  for (const trace of data) {
    const { task, role, dash } = trace.meta;
    const place = task === undefined ? 0 : foremost?.indexOf(task) ?? task;
    const grey = place < 0 && task !== pointed;
    const own = color(task === undefined ? `--chart-${role}` : grey ? "--chart-other" : `--series-${(place < 0 ? task : place) % colors}`);
    trace.opacity = pointed === null || task === pointed ? 1 : 0.12;
    trace.showlegend = !(place < 0) && role !== "picked" && (role !== "noisy" || Number.isFinite(trace.y.at(-1)));
    trace.zorder = place < 0 ? 0 : 1;
    if (isStepped(trace)) {
      // Its tip says more. Plotly skips only traces without a template.
      trace.meta.hover ??= trace.hovertemplate;
      Object.assign(trace, { mode: modeOf(trace), hoverinfo: "skip", hovertemplate: "" });
    }
    if (trace.line) Object.assign(trace.line, { color: own, dash: foremost ? "solid" : dash, width: trace.stackgroup ? 0 : grey ? 1 : 2 });
    if (trace.stackgroup) trace.fillcolor = own;
    if (trace.meta.filled) trace.fill = "tozeroy";
    if (trace.error_y) trace.error_y = { ...trace.error_y, color: color("--text-2") };
    if (trace.marker) trace.marker = { ...trace.marker, color: own, line: { color: own, width: /open|thin/u.test(trace.marker.symbol) ? 1.5 : 0 } };
  }
}

/** A line of one point is a dot, or it couldn't be seen. */
function modeOf({ x }) {
  return x.length === 1 ? "lines+markers" : "lines";
}

function dress(layout) {
  const ink = { text: color("--text-2"), grid: color("--grid"), line: color("--line-2"), panel: color("--panel") };
  const axis = { gridcolor: ink.grid, linecolor: ink.line, zeroline: false, tickcolor: ink.line, showline: true, ticks: "outside", ticklen: 4 };
  Object.assign(layout, { paper_bgcolor: ink.panel, plot_bgcolor: ink.panel, font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink.text } });
  Object.assign(layout, { hoverlabel: { bgcolor: color("--raised"), bordercolor: ink.line, font: { color: color("--text"), size: 12 }, namelength: -1 }, modebar: { bgcolor: "rgba(0,0,0,0)", color: ink.text, activecolor: color("--accent") } });
  for (const [name, one] of Object.entries(layout)) if (/^[xy]axis/u.test(name) && one.visible !== false) Object.assign(one, axis);
}

const probe = document.createElement("i");
probe.hidden = true;

/** The value of a CSS variable in the current theme, as rgb(…). */
function color(variable) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(${variable})`;
  return getComputedStyle(probe).color;
}
