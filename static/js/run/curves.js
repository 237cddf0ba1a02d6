// The three charts of a run's page. They grow with new trials, one step at a time.
import { Chart, gather } from "../charts/chart.js";
import { chooseScale } from "../charts/scale.js";
import { recentTrials } from "../common/constants.js";
import { role } from "../common/dom.js";
import { isLive } from "../common/status.js";
import * as parts from "./parts.js";
import { color } from "./tasks.js";
import * as units from "../common/units.js";
import { getJson } from "../common/json.js";

const FRAME_MS = 16;
const UNNOTICED_MS = 100;
const HOLD_MS = 1000;
const THIN_AFTER = 5000;
const HIDDEN_MS = 100;
const article = role("run");

export const charts = {};
for (const name of ["latency", "estimate", "allocation"]) {
  charts[name] = new Chart(role(`chart-${name}`), role(`empty-${name}`), { file: `${article.dataset.file}_${name}`, legend: name === "latency" });
  role(`chart-${name}`).dataset.about = `run ${article.dataset.run} · ${article.dataset.name}`;
}
const all = Object.entries(charts);
const ofTasks = [charts.latency, charts.allocation];
const scales = role("scale", role("chart-estimate").closest("figure"));

// --- drawing

/** Times of the latest trials in seconds; weight and best latency by task; the point at which the curves end. */
let recent = [];
let weights = [];
let best = [];
/** Until there is an estimate: its empty figure, and the improvements of each task, from which its chart shows what is known. */
let unknown = null;
let improvements = [];
let lastPoint = [Number(article.dataset.last), 0];
let foremost = null;
let waiting = emptyUpdates();
/** Trials drawn since the figures were loaded; whether some were left out. */
let grown = 0;
let isBehind = false;

/** Draws the server's figures; returns the number of their last trial. */
export async function load() {
  const figures = await getJson(article.dataset.figures);
  if (!figures) throw new Error("no figures");
  await inTurn(() => show(figures));
  return figures.last;
}

/** Number of tasks with a curve. */
export const count = () => weights.length;

/** Whether the task counts for more or less than when the figures were loaded. */
export const isReweighted = (task) => task.index < weights.length && (task.chosen ? task.weight : 0) !== weights[task.index];

async function show(figures) {
  recent = figures.recent_at_s;
  weights = figures.weights;
  best = figures.latency.data.map((trace) => trace.y.at(-1));
  lastPoint = [figures.last, recent.at(-1) ?? 0];
  waiting = emptyUpdates();
  [grown, isBehind] = [0, false];
  foremost = figures.foremost;
  unknown = figures.estimate.data[0].y.length || isUnweighted() ? null : figures.estimate;
  improvements = unknown ? figures.latency.data.map(({ x, customdata, y, name, meta }) => ({ number: [...x], at_s: [...customdata], y: [...y], name, look: meta })) : [];
  emphasize();
  for (const [name, chart] of all) {
    await (name === "estimate" && unknown ? sketch() : chart.draw(figures[name]));
    await painted();
    markFirst();
  }
  explain();
  dispatchDrawn(figures.last);
}

/** Draws what is known of the estimate. */
function sketch() {
  const known = parts.figure(improvements, weights, lastPoint, unknown);
  scales.hidden = known !== null;
  return charts.estimate.draw(known ?? structuredClone(unknown));
}

/** Draws the estimate's curve from its first points on. */
async function begin(points, end) {
  const { estimate } = charts;
  scales.hidden = false;
  await estimate.draw(unknown);
  [unknown, improvements] = [null, []];
  await estimate.extend(points, end);
}

let busy = Promise.resolve();

/** Runs one change of the charts after another. */
function inTurn(step) {
  return (busy = busy.catch(() => {}).then(step));
}

/** Resolves after the next paint, or soon if nothing is painted, as in a background tab. */
function painted() {
  return new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, HIDDEN_MS);
  });
}

/** Marks the browser's timeline, which `manage.py bench_web` reads. */
function markFirst() {
  if (!performance.getEntriesByName("first-chart").length) performance.mark("first-chart");
}

/** For benchmarks: the next frame shows all trials up to this one. */
function dispatchDrawn(last) {
  document.dispatchEvent(new CustomEvent("drawn", { detail: { last } }));
}

/** Says why a chart is empty. */
export function explain() {
  const total = weights.filter((weight) => weight !== 0).length;
  const measured = best.filter((value) => value !== undefined).length;
  const first = isLive(role("status").dataset.status) ? "Waiting for the first trial." : "No trial yet.";
  charts.latency.explain(lastPoint[0] ? "No valid trial yet." : first);
  charts.allocation.explain(first);
  if (isUnweighted()) return charts.estimate.explain("Not known: the weights of its tasks aren’t recorded.");
  charts.estimate.explain(total ? `Known once every task has a valid trial: ${measured} of ${total} measured.` : "Known once every task has a valid trial.");
}

/** With many tasks, highlights those that contribute most to the estimate, in the charts and by their swatch in the table. */
async function emphasize() {
  if (foremost === null) return;
  const contribution = (task) => (weights[task] ?? 1) * (best[task] ?? 0);
  const chosen = weights.map((_, task) => task).sort((a, b) => contribution(b) - contribution(a)).slice(0, foremost).sort((a, b) => a - b);
  color(chosen);
  for (const chart of unknown ? [...ofTasks, charts.estimate] : ofTasks) await chart.emphasize(chosen);
}

// --- new trials

function emptyUpdates() {
  return { latency: new Map(), allocation: new Map(), estimate: new Map(), trials: 0 };
}

/** Collects the points that new trials add to each chart, by the rules of tuning.reads.curves. */
export function collect(columns) {
  columns.number.forEach((number, row) => {
    const [task, at, latency] = [columns.task[row], columns.at_s[row], columns.latency_s[row]];
    gather(waiting.allocation, task, number, at, columns.nth[row]);
    if (columns.improved[row]) {
      gather(waiting.latency, task, number, at, latency);
      best[task] = latency;
      if (improvements[task]) remember(improvements[task], number, at, latency);
      const sum = estimate();
      if (sum !== null) gather(waiting.estimate, 0, number, at, sum);
    }
    if (at !== null) recent.push(at);
    lastPoint = [number, at];
    waiting.trials += 1;
  });
  recent = recent.slice(-recentTrials);
  if (waiting.trials < THIN_AFTER) return;
  // A background tab draws nothing. When it is shown again, the server sends the figures thinned.
  waiting = emptyUpdates();
  isBehind = true;
}

function remember(points, number, at, latency) {
  points.number.push(number);
  points.at_s.push(at);
  points.y.push(latency);
}

/** Whether a task's weight isn't recorded, so that there never is an estimate. */
const isUnweighted = () => weights.some((weight) => weight === null);

function estimate() {
  if (!weights.length || isUnweighted() || weights.some((weight, task) => weight && best[task] === undefined)) return null;
  return weights.reduce((sum, weight, task) => (weight ? sum + weight * best[task] : sum), 0);
}

/** Speed of the latest trials, in trials a second; null if there are too few. */
export const speed = () => units.recent_speed(recent);

/** Tells how noisy the run is; null if nobody knows. */
export const tellNoise = (noise) => inTurn(() => Promise.all([charts.latency.tellNoise(noise), charts.estimate.tellNoise(noise)]));

// --- growing

let drawing = false;
let again = null;
/** When postponed changes are due, and whether they are due now. */
let dueAt = Infinity;
let isDue = false;
const heldUntil = {};
let emphasizeAt = 0;

/** Draws collected trials; more are collected meanwhile. `reload` redraws the charts with as many points as on a new page. */
export async function grow(reload) {
  if (drawing || !(waiting.trials || isBehind || isDue)) return;
  drawing = true;
  const started = performance.now();
  if (!isBehind) await inTurn(extend);
  if (isBehind || grown >= THIN_AFTER) await reload();
  // Small charts are drawn with each batch of trials, ten times a second. Large ones take long to draw, and the page must stay
  // responsive. A server that doesn't answer isn't asked again at once.
  const pause = isBehind ? HOLD_MS : Math.max(FRAME_MS, performance.now() - started - UNNOTICED_MS);
  setTimeout(() => { drawing = false; grow(reload); }, pause);
  clearTimeout(again);
  if (dueAt < Infinity) again = setTimeout(() => { isDue = true; grow(reload); }, dueAt - performance.now());
}

async function extend() {
  const more = waiting;
  const end = lastPoint;
  waiting = emptyUpdates();
  [dueAt, isDue] = [Infinity, false];
  for (const [name, chart] of all) {
    const sketched = name === "estimate" && unknown;
    // Only the end of the steps has moved. That is half of the work, and can wait.
    if (!more[sketched ? "latency" : name].size && performance.now() < (heldUntil[name] ?? 0)) dueAt = Math.min(dueAt, heldUntil[name]);
    else {
      if (!sketched) await chart.extend(more[name], end);
      else await (more.estimate.size ? begin(more.estimate, end) : sketch());
      heldUntil[name] = performance.now() + HOLD_MS;
    }
  }
  explain();
  dispatchDrawn(end[0]);
  grown += more.trials;
  // Last, so that new trials don't wait for it.
  if (performance.now() >= emphasizeAt) {
    emphasizeAt = performance.now() + HOLD_MS;
    await emphasize();
  } else dueAt = Math.min(dueAt, emphasizeAt);
}

// --- view

/** Highlights a task's curves; null for none. */
export function highlight(task) {
  for (const chart of ofTasks) chart.highlight(task);
}

/** Plots against trial `number` or `time`. */
export function against(axis) {
  for (const button of document.querySelectorAll("[data-axis]")) button.setAttribute("aria-pressed", String(button.dataset.axis === axis));
  return Promise.all(all.map(([, chart]) => chart.against(axis)));
}

for (const group of document.querySelectorAll("[data-role=scale]")) {
  chooseScale(group, (scale) => charts[group.dataset.chart].scaled(scale));
}
document.addEventListener("themechange", () => all.forEach(([, chart]) => chart.restyle()));
