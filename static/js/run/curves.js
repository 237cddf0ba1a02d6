// The three charts of a run's page. They grow by what has come, and never in two steps at once.
import { Chart, gather } from "../charts/chart.js";
import { role } from "../common/dom.js";
import { isLive } from "../common/status.js";
import { colour } from "./tasks.js";
import * as units from "../common/units.js";

const RECENT = 32;
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

// --- drawn anew

/** The seconds of the latest trials; by task its weight and best latency; where the curves end. */
let recent = [];
let weights = [];
let best = [];
let lastPoint = [Number(article.dataset.last), 0];
let foremost = null;
let waiting = emptyUpdates();
/** Trials drawn since then; whether some were left out. */
let grown = 0;
let isBehind = false;

/** Draws them as the server knows them; gives the number of the last trial in them. */
export async function load() {
  const response = await fetch(article.dataset.figures);
  if (!response.ok) throw new Error(`${response.status} for the figures`);
  const figures = await response.json();
  await alone(() => show(figures));
  return figures.last;
}

/** How many tasks have a curve. */
export const count = () => weights.length;

async function show(figures) {
  recent = figures.recent_at_s;
  weights = figures.weights;
  best = figures.latency.data.map((trace) => trace.y.at(-1));
  lastPoint = [figures.last, recent.at(-1) ?? 0];
  waiting = emptyUpdates();
  [grown, isBehind] = [0, false];
  foremost = figures.foremost;
  emphasise();
  for (const [name, chart] of all) {
    await chart.draw(figures[name]);
    await painted();
    markFirst();
  }
  explain();
  tellDrawn(figures.last);
}

let busy = Promise.resolve();

/** The charts are changed by one step at a time. */
function alone(step) {
  return (busy = busy.catch(() => {}).then(step));
}

/** What was drawn is seen; soon after it where nothing is painted, as in a tab behind others. */
function painted() {
  return new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, HIDDEN_MS);
  });
}

/** On the browser's own timeline, where `manage.py bench_web` reads it too. */
function markFirst() {
  if (!performance.getEntriesByName("first-chart").length) performance.mark("first-chart");
}

/** For who measures: the charts have all trials up to this one, and the next frame shows them. */
function tellDrawn(last) {
  document.dispatchEvent(new CustomEvent("drawn", { detail: { last } }));
}

/** Why a chart is empty, as far as one is. */
export function explain() {
  const total = weights.filter((weight) => weight).length;
  const measured = best.filter((value) => value !== undefined).length;
  const first = isLive(role("status").dataset.status) ? "The first trial is on its way." : "No trial yet.";
  charts.latency.explain(lastPoint[0] ? "No valid trial so far." : first);
  charts.allocation.explain(first);
  charts.estimate.explain(total ? `Known once every task has a valid trial: ${measured} of ${total} measured.` : "Known once every task has a valid trial.");
}

/** Of many tasks, let those stand out that the estimate owes most to: in the charts, and by their swatch in the table. */
async function emphasise() {
  if (foremost === null) return;
  const owed = (task) => weights[task] * (best[task] ?? 0);
  const chosen = weights.map((_, task) => task).sort((a, b) => owed(b) - owed(a)).slice(0, foremost).sort((a, b) => a - b);
  colour(chosen);
  for (const chart of ofTasks) await chart.emphasise(chosen);
}

// --- what has come

function emptyUpdates() {
  return { latency: new Map(), allocation: new Map(), estimate: new Map(), trials: 0 };
}

/** Keeps of these trials' columns what each chart gets, by the rules of tuning.reads.curves. */
export function collect(columns) {
  columns.number.forEach((number, row) => {
    const [task, at, latency] = [columns.task[row], columns.at_s[row], columns.latency_s[row]];
    gather(waiting.allocation, task, number, at, columns.nth[row]);
    if (columns.improved[row]) {
      gather(waiting.latency, task, number, at, latency);
      best[task] = latency;
      const sum = estimate();
      if (sum !== null) gather(waiting.estimate, 0, number, at, sum);
    }
    recent.push(at);
    lastPoint = [number, at];
    waiting.trials += 1;
  });
  recent = recent.slice(-RECENT);
  if (waiting.trials < THIN_AFTER) return;
  // A tab behind others draws nothing: what it missed is thinned by the server when it is seen again.
  waiting = emptyUpdates();
  isBehind = true;
}

function estimate() {
  if (!weights.length || weights.some((weight, task) => weight && best[task] === undefined)) return null;
  return weights.reduce((sum, weight, task) => (weight ? sum + weight * best[task] : sum), 0);
}

/** Trials a second of the latest ones; null while there are too few. */
export const speed = () => units.recent_speed(recent);

// --- growing

let drawing = false;
let again = null;
/** When what was put off shall be drawn, and whether that is now. */
let dueAt = Infinity;
let isDue = false;
const heldUntil = {};
let emphasiseAt = 0;

/** Grow by what has come; while they draw, more gathers. `reload` shall draw them anew, with as many points as a page begins with. */
export async function grow(reload) {
  if (drawing || !(waiting.trials || isBehind || isDue)) return;
  drawing = true;
  const started = performance.now();
  if (!isBehind) await alone(extend);
  if (isBehind || grown >= THIN_AFTER) await reload();
  // Small charts are drawn as trials come: ten times a second, which a pause would make them miss. Large ones take long, and the page must
  // stay quick. A server that doesn't answer is left alone for a while.
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
    // Nothing new but the end of its steps: that can wait, and is half of the work.
    if (!more[name].size && performance.now() < (heldUntil[name] ?? 0)) dueAt = Math.min(dueAt, heldUntil[name]);
    else {
      await chart.extend(more[name], end);
      heldUntil[name] = performance.now() + HOLD_MS;
    }
  }
  explain();
  tellDrawn(end[0]);
  grown += more.trials;
  // Last, since new trials don't wait for it.
  if (performance.now() >= emphasiseAt) {
    emphasiseAt = performance.now() + HOLD_MS;
    await emphasise();
  } else dueAt = Math.min(dueAt, emphasiseAt);
}

// --- how they are looked at

/** Let a task's curves stand out; null for none. */
export function highlight(task) {
  for (const chart of ofTasks) chart.highlight(task);
}

/** Against trial `number` or `time`. */
export function against(axis) {
  for (const button of document.querySelectorAll("[data-axis]")) button.setAttribute("aria-pressed", String(button.dataset.axis === axis));
  return Promise.all(all.map(([, chart]) => chart.against(axis)));
}

for (const button of document.querySelectorAll("[data-role=scale]")) {
  button.addEventListener("click", () => {
    const log = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(log));
    charts[button.dataset.chart].scaled(log ? "log" : "linear");
  });
}
document.addEventListener("themechange", () => all.forEach(([, chart]) => chart.restyle()));
