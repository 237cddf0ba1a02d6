// The page of a run's trials: a scatter that shows more detail when zoomed in, and links that refresh table and detail in place.
import { Chart, gather } from "../charts/chart.js";
import { chooseScale } from "../charts/scale.js";
import { failedHeight, noise } from "../common/constants.js";
import { LiveRun } from "../live/sockets.js";
import { role, text } from "../common/dom.js";
import { isOngoing } from "../common/status.js";
import { reload } from "../site/ended.js";
import { Refresher } from "../site/refresh.js";
import * as units from "../common/units.js";

const WAIT_MS = 150;
const DRAW_EVERY_MS = 250;
const MOST_NEW = 2000;
const MOST_TIMES = 8192;
/** Conditions of the page's filter that a trial meets or not; null is either. */
const kinds = ["failed", "improved", "noisy"];
const article = role("trials");
const state = new URLSearchParams(location.search);

// --- the scatter: the API's sample of the visible window, and the trials that have arrived since

let figureText = "";
let figure, foremost, wanted, traceOf;

/** Reads the empty figure that the server put into the page; returns whether it has changed. */
function readFigure() {
  const text = document.getElementById("figure").textContent;
  if (text === figureText) return false;
  figureText = text;
  ({ figure, foremost, wanted } = JSON.parse(text));
  traceOf = new Map(figure.data.map(({ meta }, index) => [meta.task ?? meta.role, index]));
  return true;
}
readFigure();

const PICKED = -1;
const chart = new Chart(role("chart-scatter"), role("empty-scatter"), {
  file: `${article.dataset.file}_trials`,
  key: role("legend"),
  on: { zoom: () => { remember(); refine(); }, legend: () => refine(), click: (number) => open(number) },
});
role("chart-scatter").dataset.about = `run ${article.dataset.run} · ${article.dataset.name}`;

/** Columns `number` and `at_s` of every `step`-th trial of the run, to find trials by time. */
let times = { number: [], at_s: [], step: 1 };
let shown = { total: 0, exact: true, shown: 0, step: 1, first: 1, last: Infinity, least: 0, most: Infinity, tasks: null, zoomed: false };
let drawnTrial;
let waiting = new Map();
let fresh = 0;
let end = [0, 0];
let drawing = false;
let timer = null;
let asked = null;

/** The range of trial numbers for a range of the horizontal axis. */
function numbersOf([low, high]) {
  if (chart.axis === "number") return [Math.max(1, Math.ceil(low)), Math.max(1, Math.floor(high))];
  const before = times.at_s.findLastIndex((at) => at < low);
  const after = times.at_s.findIndex((at) => at > high);
  return [before < 0 ? 1 : times.number[before], after < 0 ? null : times.number[after]];
}

/** The task that was asked for, or those not hidden in the legend; null for all. */
function visibleTasks() {
  if (wanted.task !== null) return [wanted.task];
  const all = figure.data.filter(({ meta }) => meta.task !== undefined).map(({ meta }) => meta.task);
  const data = role("chart-scatter").data ?? [];
  const visible = all.filter((task) => data[traceOf.get(task)]?.visible !== "legendonly");
  return visible.length && visible.length < all.length ? visible : null;
}

function look() {
  const { x, y } = chart.drawn ? chart.zoom : { x: null, y: null };
  const [first, last] = x ? numbersOf(x) : [1, null];
  const most = Math.min(y ? y[1] : Infinity, wanted.max ?? Infinity);
  // A view beside the filter's range is empty, not upside down.
  const least = Math.min(Math.max(y ? y[0] : 0, wanted.min ?? 0), most);
  return { first, last: last ?? Infinity, least, most, tasks: visibleTasks(), zoomed: Boolean(x || y) };
}

function queryOf({ first, last, least, most, tasks }) {
  const query = new URLSearchParams();
  if (first > 1) query.set("from", first);
  if (last !== Infinity) query.set("to", last);
  if (least > 0) query.set("min", least);
  if (most !== Infinity) query.set("max", most);
  for (const task of tasks ?? []) query.append("task", task);
  for (const kind of kinds) if (wanted[kind] !== null) query.set(kind, wanted[kind]);
  if (wanted.machine) query.set("machine", wanted.machine);
  return query;
}

/** Whether the filter of the page selects a trial, by all of its conditions but ranges and tasks. */
function selects(columns, row) {
  const is = { failed: columns.latency_s[row] === null, improved: columns.improved[row], noisy: columns.noisy[row] };
  if (wanted.machine && wanted.machine !== columns.machine[row]) return false;
  return kinds.every((kind) => wanted[kind] === null || wanted[kind] === is[kind]);
}

const isFiltered = () => kinds.some((kind) => wanted[kind] !== null) || Boolean(wanted.machine);

/** Fetches the visible window once the user has paused, and aborts an older request. */
function refine() {
  clearTimeout(timer);
  asked?.abort();
  timer = setTimeout(() => live.inOrder(load), WAIT_MS);
}

async function load() {
  const view = look();
  role("scatter-reset").hidden = !view.zoomed;
  asked = new AbortController();
  const columns = await ask(view, asked.signal);
  if (columns) await show(view, columns);
}

/** The window's columns; null if the request was aborted or failed. */
async function ask(view, signal) {
  try {
    const response = await fetch(`${article.dataset.api}/scatter?${queryOf(view)}`, { headers: { Accept: "application/json" }, signal });
    if (response.status === 401 || response.status === 403) reload();
    if (!response.ok) throw new Error(`${response.status} for the scatter`);
    return await response.json();
  } catch (error) {
    if (error.name !== "AbortError") text("scatter-shown", `The trials couldn’t be loaded: ${error.message}`);
    return null;
  }
}

async function show(view, columns) {
  const { last, total, exact, step } = columns;
  shown = { ...view, total, exact, step, shown: columns.shown };
  live.last = last;
  if (!view.zoomed) times = { number: columns.number, at_s: columns.at_s, step };
  [waiting, fresh] = [new Map(), 0];
  end = [last, Math.max(end[1], columns.at_s.at(-1) ?? 0)];
  // A trace without a point would disappear from the legend.
  const data = figure.data.map((trace) => ({ ...trace, x: [null], y: [null], customdata: [null], text: [""] }));
  for (const [index, points] of sorted(columns)) Object.assign(data[index], { x: points.number, y: points.y, customdata: points.at_s, text: points.text });
  Object.assign(data.at(PICKED), picked());
  drawnTrial = pickedTrial();
  await chart.draw({ data, layout: figure.layout });
  explain();
}

/** The points of the wanted rows, by trace. */
function sorted(columns, wanted = () => true, into = new Map()) {
  columns.number.forEach((number, row) => {
    const latency = columns.latency_s[row];
    const index = traceOf.get(latency === null ? "failed" : columns.task[row]);
    if (index === undefined || !wanted(row)) return;
    gather(into, index, number, columns.at_s[row], latency ?? failedHeight, told(columns, row));
    if (columns.noisy[row]) gather(into, traceOf.get("noisy"), number, columns.at_s[row], latency);
  });
  return into;
}

/** What else the hover of a trial says. */
function told(columns, row) {
  const measurer = "several" in article.dataset ? `<br>by ${columns.machine[row] ?? "a machine that isn’t recorded"}` : "";
  return columns.noisy[row] ? `${measurer}${noise}` : measurer;
}

/** Collects new trials of a live run: those in the window, thinned like the others. */
function collect(columns) {
  const inside = (row) => {
    const [number, latency] = [columns.number[row], columns.latency_s[row]];
    if (!selects(columns, row)) return false;
    if (number < shown.first || number > shown.last || (shown.tasks && !shown.tasks.includes(columns.task[row]))) return false;
    return latency === null || (latency >= shown.least && latency <= shown.most);
  };
  const kept = (row) => columns.number[row] % shown.step === 0 || columns.improved[row] || columns.latency_s[row] === null;
  columns.number.forEach((number, row) => {
    end = [number, columns.at_s[row]];
    keepTime(number, columns.at_s[row]);
    if (!inside(row)) return;
    shown.total += 1;
    if (kept(row)) [shown.shown, fresh] = [shown.shown + 1, fresh + 1];
  });
  sorted(columns, (row) => inside(row) && kept(row), waiting);
  // Fetched again, thinned, so that the page doesn't grow with the run.
  if (fresh > MOST_NEW) {
    fresh = 0;
    refine();
  } else grow();
}

function keepTime(number, at) {
  if (number % times.step) return;
  times.number.push(number);
  times.at_s.push(at);
  if (times.number.length <= MOST_TIMES) return;
  const half = (column) => column.filter((_, place) => place % 2);
  times = { number: half(times.number), at_s: half(times.at_s), step: times.step * 2 };
}

async function grow() {
  if (drawing || document.hidden) return;
  drawing = true;
  const started = performance.now();
  const more = waiting;
  waiting = new Map();
  await chart.extend(more, end);
  explain();
  // Large charts take long to draw, and the page must stay responsive.
  setTimeout(() => { drawing = false; if (waiting.size) grow(); }, Math.max(DRAW_EVERY_MS, 3 * (performance.now() - started)));
}
document.addEventListener("visibilitychange", () => { if (waiting.size) grow(); });

function explain() {
  const { total, exact } = shown;
  const which = shown.zoomed || shown.tasks ? " in view" : "";
  text("scatter-shown", `${units.count(shown.shown)} of ${exact ? "" : "about "}${units.count(total)} ${isFiltered() ? "matching " : ""}trials${which} shown${shown.shown < total ? ": zoom in for more" : ""}`);
  chart.explain(shown.zoomed ? "No trial here." : end[0] ? "No trial matches." : "No trial yet.");
}

// --- the page's state is in its address

function remember() {
  const { x, y } = chart.zoom;
  const shortly = (range) => (range ? range.map((value) => Number(value.toPrecision(8))) : ["", ""]);
  put("zoom", x || y ? [...shortly(x), ...shortly(y)].join() : "");
}

function put(name, value) {
  if (value) state.set(name, value); else state.delete(name);
  history.replaceState(null, "", withView(location.href));
}

/** An address of this page with the current view of the scatter. */
function withView(href) {
  const url = new URL(href, location.href);
  for (const name of ["x", "zoom"]) {
    if (state.has(name)) url.searchParams.set(name, state.get(name));
    else url.searchParams.delete(name);
  }
  return url.href;
}

function zoomOfAddress() {
  const parts = (state.get("zoom") ?? "").split(",");
  const range = (low, high) => (low && high && Number(low) < Number(high) ? [Number(low), Number(high)] : null);
  return parts.length === 4 ? { x: range(parts[0], parts[1]), y: range(parts[2], parts[3]) } : { x: null, y: null };
}

function showAxis(axis) {
  for (const button of document.querySelectorAll("[data-axis]")) button.setAttribute("aria-pressed", String(button.dataset.axis === axis));
  return chart.against(axis);
}
for (const button of document.querySelectorAll("[data-axis]")) {
  button.addEventListener("click", async () => {
    await showAxis(button.dataset.axis);
    put("x", button.dataset.axis === "time" ? "time" : "");
    remember();
    refine();
  });
}
chooseScale(role("scale"), async (scale) => {
  await chart.scaled(scale);
  remember();
});
role("scatter-reset").addEventListener("click", () => chart.look({}));
document.addEventListener("themechange", () => chart.restyle());
document.querySelector(".trial-filters").addEventListener("formdata", ({ formData }) => {
  for (const name of ["x", "zoom"]) if (state.has(name)) formData.set(name, state.get(name));
});

// --- table and detail, in place

const pickedTrial = () => role("trial")?.dataset.trial;

/** The selected trial as a point: {x, y, customdata, yaxis} */
function picked() {
  const one = role("trial")?.dataset;
  // Not empty: Plotly can't place an axis that has no trace.
  if (!one) return { x: [null], y: [null], customdata: [null], yaxis: "y" };
  const failed = one.latency === "";
  return { x: [Number(one.trial)], customdata: [Number(one.at)], y: [failed ? failedHeight : Number(one.latency)], yaxis: failed ? "y2" : "y" };
}

function open(number) {
  const url = new URL(location.href);
  url.searchParams.set("trial", number);
  url.hash = "trial";
  htmx.ajax("GET", url.href, { source: "#trial-table", push: "true" }).catch(() => {});
}

// Links, back and forward change the table and the trial, and keep the view of the scatter.
article.addEventListener("htmx:configRequest", ({ target, detail }) => { if (target !== article) detail.path = withView(detail.path); });
addEventListener("popstate", () => history.replaceState(history.state, "", withView(location.href)), { capture: true });
const refresher = new Refresher(article);
refresher.restoreOnBack();

// htmx would scroll the trial to the top of the window.
article.addEventListener("htmx:beforeSwap", ({ detail }) => { detail.pathInfo.anchor = null; });
article.addEventListener("htmx:afterOnLoad", async ({ detail }) => {
  if (detail.requestConfig.elt !== article) focus();
  if (readFigure()) {
    await chart.emphasize(foremost);
    return refine();
  }
  // Drawing the scatter again is most of the work of turning a page.
  if (pickedTrial() === drawnTrial) return null;
  drawnTrial = pickedTrial();
  const { x, y, customdata, yaxis } = picked();
  return chart.put(PICKED, { number: x, at_s: customdata, y }, yaxis);
});

/** Focuses the trial that was asked for, or the table if the link that had the focus is gone. */
function focus() {
  const trial = location.hash === "#trial" ? role("trial") : null;
  trial?.scrollIntoView({ block: "nearest" });
  if (trial) trial.focus({ preventScroll: true });
  else if (document.activeElement === document.body) document.getElementById("trial-table").focus();
}

// --- live

const live = new LiveRun({
  socket: article.dataset.socket,
  api: article.dataset.api,
  last: 0,
  on: {
    trials: collect,
    run: (run) => {
      const status = role("status");
      status.dataset.status = run.status;
      text("status", run.status);
      text("trials-done", units.count(run.trials_done));
      text("trials-failed", units.count(run.trials_failed));
      // The figure needs a trace for each task. A run's tasks arrive all at once.
      const rows = run.tasks_total + run.tasks_spare;
      if (rows !== Number(article.dataset.tasks) && isOngoing(run.status)) {
        article.dataset.tasks = rows;
        refresher.ask();
      }
    },
    reload: async () => { await load(); return live.last; },
    connection: (up) => { role("connection").hidden = up; },
  },
});

await showAxis(state.get("x") === "time" ? "time" : "number");
await chart.emphasize(foremost);
await load();
if (chart.drawn) {
  const zoom = zoomOfAddress();
  if (zoom.x || zoom.y) await chart.look(zoom);
}
live.start();
