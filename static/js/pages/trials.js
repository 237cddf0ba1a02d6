// The page of a run's trials: a scatter that shows more of what one looks closer at, and links that change the page in place.
import { Chart, gather } from "../charts/chart.js";
import { LiveRun } from "../live/sockets.js";
import { pageOf, reread, role, text } from "../common/dom.js";
import { goesOn } from "../common/status.js";
import * as units from "../common/units.js";

const WAIT_MS = 150;
const DRAW_EVERY_MS = 250;
const FAILED_HEIGHT = 0.02;
const MOST_NEW = 2000;
const MOST_TIMES = 8192;
const article = role("trials");
const state = new URLSearchParams(location.search);

// --- the scatter: what the API gives of the window that is looked at, and what has come since

let { figure, foremost } = JSON.parse(document.getElementById("figure").textContent);
let traceOf = new Map(figure.data.map(({ meta }, index) => [meta.task ?? meta.role, index]));
const PICKED = -1;
const chart = new Chart(role("chart-scatter"), role("empty-scatter"), {
  file: `${article.dataset.file}_trials`,
  on: { zoom: () => { remember(); refine(); }, legend: () => refine(), click: (number) => open(number) },
});
role("chart-scatter").dataset.about = `run ${article.dataset.run} · ${article.dataset.name}`;

/** Columns `number` and `at_s` of all of the run, to tell trials by their time; one in `step`. */
let times = { number: [], at_s: [], step: 1 };
let shown = { total: 0, exact: true, shown: 0, step: 1, first: 1, last: Infinity, least: 0, most: Infinity, tasks: null, zoomed: false };
let waiting = new Map();
let fresh = 0;
let end = [0, 0];
let drawing = false;
let timer = null;
let asked = null;

/** Of which trials the plot shows an axis: by their numbers, or the trials whose times enclose what is seen. */
function numbersOf([low, high]) {
  if (chart.axis === "number") return [Math.max(1, Math.ceil(low)), Math.max(1, Math.floor(high))];
  const before = times.at_s.findLastIndex((at) => at < low);
  const after = times.at_s.findIndex((at) => at > high);
  return [before < 0 ? 1 : times.number[before], after < 0 ? null : times.number[after]];
}

/** The tasks that the legend leaves visible; null when that is all of them. */
function visibleTasks() {
  const all = figure.data.filter(({ meta }) => meta.task !== undefined).map(({ meta }) => meta.task);
  const data = role("chart-scatter").data ?? [];
  const visible = all.filter((task) => data[traceOf.get(task)]?.visible !== "legendonly");
  if (visible.length && visible.length < all.length) return visible;
  return article.dataset.task === "" ? null : all;
}

function look() {
  const { x, y } = chart.drawn ? chart.zoom : { x: null, y: null };
  const [first, last] = x ? numbersOf(x) : [1, null];
  const [least, most] = y ? [Math.max(0, y[0]), y[1]] : [0, null];
  return { first, last: last ?? Infinity, least, most: most ?? Infinity, tasks: visibleTasks(), zoomed: Boolean(x || y) };
}

function queryOf({ first, last, least, most, tasks }) {
  const query = new URLSearchParams();
  if (first > 1) query.set("from", first);
  if (last !== Infinity) query.set("to", last);
  if (least > 0) query.set("min", least);
  if (most !== Infinity) query.set("max", most);
  for (const task of tasks ?? []) query.append("task", task);
  return query;
}

/** Ask for what is looked at now, once the user has paused; the answer to an older question is of no use. */
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

/** The window's columns; null when something else is asked for meanwhile, or there is no answer. */
async function ask(view, signal) {
  try {
    const response = await fetch(`${article.dataset.api}/scatter?${queryOf(view)}`, { headers: { Accept: "application/json" }, signal });
    if (response.status === 401 || response.status === 403) location.reload();
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
  // A trace without a point would leave the legend, and couldn't be shown again.
  const data = figure.data.map((trace) => ({ ...trace, x: [null], y: [null], customdata: [null] }));
  for (const [index, points] of sorted(columns)) Object.assign(data[index], { x: points.number, y: points.y, customdata: points.at_s });
  Object.assign(data.at(PICKED), picked());
  await chart.draw({ data, layout: figure.layout });
  explain();
}

/** By trace, the points of columns for which `wanted` says so. */
function sorted(columns, wanted = () => true, into = new Map()) {
  columns.number.forEach((number, row) => {
    const latency = columns.latency_s[row];
    const index = traceOf.get(latency === null ? "failed" : columns.task[row]);
    if (index === undefined || !wanted(row)) return;
    gather(into, index, number, columns.at_s[row], latency ?? FAILED_HEIGHT);
  });
  return into;
}

/** What has come of a live run: those in the window, thinned as the others are, without what is rare. */
function collect(columns) {
  const inside = (row) => {
    const [number, latency] = [columns.number[row], columns.latency_s[row]];
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
  // Thinned anew, so that the page doesn't grow with the run.
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
  // Large charts take long to draw: the page must stay quick.
  setTimeout(() => { drawing = false; if (waiting.size) grow(); }, Math.max(DRAW_EVERY_MS, 3 * (performance.now() - started)));
}
document.addEventListener("visibilitychange", () => { if (waiting.size) grow(); });

function explain() {
  const { total, exact } = shown;
  const which = shown.zoomed || shown.tasks ? " in view" : "";
  text("scatter-shown", `${units.count(shown.shown)} of ${exact ? "" : "about "}${units.count(total)} trials${which} shown${shown.shown < total ? ": zoom in for more" : ""}`);
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

/** An address of this page with the view of the scatter as it is now. */
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
role("scale").addEventListener("click", async ({ currentTarget: button }) => {
  const log = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(log));
  await chart.scaled(log ? "log" : "linear");
  remember();
});
role("scatter-reset").addEventListener("click", () => chart.look({}));
document.addEventListener("themechange", () => chart.restyle());
document.querySelector(".trial-filters").addEventListener("formdata", ({ formData }) => {
  for (const name of ["x", "zoom"]) if (state.has(name)) formData.set(name, state.get(name));
});

// --- table and detail, in place

/** The trial in the detail as a point: {x, y, customdata, yaxis} */
function picked() {
  const one = role("trial")?.dataset;
  // Not empty: of axes without any trace Plotly doesn't know where they lie.
  if (!one) return { x: [null], y: [null], customdata: [null], yaxis: "y" };
  const failed = one.latency === "";
  return { x: [Number(one.trial)], customdata: [Number(one.at)], y: [failed ? FAILED_HEIGHT : Number(one.latency)], yaxis: failed ? "y2" : "y" };
}

function open(number) {
  const url = new URL(location.href);
  url.searchParams.set("trial", number);
  url.hash = "trial";
  follow(url.href);
}

/** Go there without leaving the page; as a browser would when that can't be. */
function follow(href) {
  history.pushState(null, "", withView(href));
  return visit().catch(() => location.reload());
}

async function visit() {
  const address = location.href;
  const response = await fetch(address);
  if (response.redirected || !response.ok) return location.reload();
  const page = await pageOf(response);
  if (address !== location.href) return null;
  const focused = document.activeElement?.id;
  for (const part of page.querySelectorAll("[data-part]")) document.querySelector(`[data-part=${part.dataset.part}]`).replaceWith(part);
  focus(focused);
  const { x, y, customdata, yaxis } = picked();
  return chart.put(PICKED, { number: x, at_s: customdata, y }, yaxis);
}

/** On what was asked for; else where the focus was, or on the rows that came. */
function focus(id) {
  const trial = location.hash === "#trial" ? role("trial") : null;
  const place = trial ?? (id && document.getElementById(id)) ?? null;
  if (trial) trial.scrollIntoView({ block: "nearest" });
  (place || document.querySelector("[data-part=table]")).focus({ preventScroll: Boolean(trial) });
}

article.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-view]");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  follow(link.href);
});
addEventListener("popstate", () => {
  history.replaceState(null, "", withView(location.href));
  visit().catch(() => location.reload());
});

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
      // The figure has a trace for each task: they come all at once.
      if (run.tasks_total !== Number(article.dataset.tasks) && goesOn(run.status)) renew(run.tasks_total);
    },
    reload: async () => { await load(); return live.last; },
    connection: (up) => { role("connection").hidden = up; },
  },
});

async function renew(tasks) {
  article.dataset.tasks = tasks;
  const page = await reread(location.href);
  if (!page) return;
  ({ figure, foremost } = JSON.parse(page.getElementById("figure").textContent));
  traceOf = new Map(figure.data.map(({ meta }, index) => [meta.task ?? meta.role, index]));
  await chart.emphasise(foremost);
  refine();
}

await showAxis(state.get("x") === "time" ? "time" : "number");
await chart.emphasise(foremost);
await load();
if (chart.drawn) {
  const zoom = zoomOfAddress();
  if (zoom.x || zoom.y) await chart.look(zoom);
}
live.start();
