// The page of a run: applies what live.js hands on, at most once a frame.
import { Chart, SERIES } from "./charts.js";
import * as downloads from "./downloads.js";
import { LiveRun } from "./live.js";
import { follow } from "./log.js";
import * as units from "./units.js";
import { heard } from "./watch.js";
import * as written from "./written.js";

const RECENT = 32;
const LIVE = ["running", "stopping"];
const DRAW_EVERY_MS = 50;
const HOLD_MS = 1000;
const THIN_AFTER = 5000;
const HIDDEN_MS = 100;
const DOING = {
  loading: "loading TVM and the network", extracting: "extracting tasks", design_spaces: "generating design spaces",
  searching: "searching candidates", building: "building candidates", measuring: "measuring candidates",
};
const role = (name, root = document) => root.querySelector(`[data-role=${name}]`);
const article = role("run");
const text = (name, value) => { const element = role(name); if (element.textContent !== value) element.textContent = value; };
const runId = article.dataset.run;

// --- state

let run = null;
const tasks = new Map();
let elapsedAt = 0;
let recent = [];
let weights = [];
let best = [];
let foremost = null;
let lastPoint = [Number(article.dataset.last), 0];
let waiting = emptyUpdates();
let dirty = false;

function emptyUpdates() {
  return { latency: new Map(), allocation: new Map(), estimate: new Map(), trials: 0 };
}

// --- charts

const charts = {};
for (const name of ["latency", "estimate", "allocation"]) {
  charts[name] = new Chart(role(`chart-${name}`), role(`empty-${name}`), { file: `${article.dataset.file}_${name}`, legend: name === "latency" });
  role(`chart-${name}`).dataset.about = `run ${runId} · ${article.dataset.name}`;
}

downloads.offer(charts);

async function loadFigures() {
  const response = await fetch(article.dataset.figures);
  if (!response.ok) throw new Error(`${response.status} for the figures`);
  const figures = await response.json();
  await alone(() => show(figures));
  return figures.last;
}

async function show(figures) {
  recent = figures.recent_at_s;
  weights = figures.weights;
  best = figures.latency.data.map((trace) => trace.y.at(-1));
  lastPoint = [figures.last, recent.at(-1) ?? 0];
  waiting = emptyUpdates();
  foremost = figures.foremost;
  emphasise();
  for (const [name, chart] of Object.entries(charts)) {
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

function explain() {
  const total = weights.filter((weight) => weight).length;
  const measured = best.filter((value) => value !== undefined).length;
  const first = LIVE.includes(run?.status ?? role("status").dataset.status) ? "The first trial is on its way." : "No trial yet.";
  charts.latency.explain(lastPoint[0] ? "No valid trial so far." : first);
  charts.allocation.explain(first);
  charts.estimate.explain(total ? `Known once every task has a valid trial: ${measured} of ${total} measured.` : "Known once every task has a valid trial.");
}

/** Of the columns, what each chart gets: the rules of tuning.curves. */
function collect(columns) {
  columns.number.forEach((number, row) => {
    const [task, at, latency] = [columns.task[row], columns.at_s[row], columns.latency_s[row]];
    point(waiting.allocation, task, number, at, columns.nth[row]);
    if (columns.improved[row]) {
      point(waiting.latency, task, number, at, latency);
      best[task] = latency;
      const sum = estimate();
      if (sum !== null) point(waiting.estimate, 0, number, at, sum);
    }
    recent.push(at);
    lastPoint = [number, at];
    waiting.trials += 1;
  });
  recent = recent.slice(-RECENT);
}

function estimate() {
  if (!weights.length || weights.some((weight, task) => weight && best[task] === undefined)) return null;
  return weights.reduce((sum, weight, task) => (weight ? sum + weight * best[task] : sum), 0);
}

/** Of many tasks, let those stand out that the estimate owes most to: in the charts, and by their swatch in the table. */
async function emphasise() {
  if (foremost === null) return;
  const owed = (task) => weights[task] * (best[task] ?? 0);
  const chosen = weights.map((_, task) => task).sort((a, b) => owed(b) - owed(a)).slice(0, foremost).sort((a, b) => a - b);
  for (const row of body.rows) {
    const series = chosen.indexOf(Number(row.dataset.task));
    row.toggleAttribute("data-other", series < 0);
    row.dataset.series = series < 0 ? row.dataset.task % SERIES : series;
  }
  for (const name of ["latency", "allocation"]) await charts[name].emphasise(chosen);
}

function point(updates, trace, number, at, y) {
  if (!updates.has(trace)) updates.set(trace, { number: [], at_s: [], y: [] });
  const points = updates.get(trace);
  points.number.push(number);
  points.at_s.push(at);
  points.y.push(y);
}

let drawing = false;
let held = false;
let grown = 0;
const heldUntil = {};
let emphasiseAt = 0;

/** Grow the charts by what has come; while they draw, more gathers. */
async function grow() {
  if (drawing || !(waiting.trials || held)) return;
  drawing = true;
  const started = performance.now();
  await alone(extend);
  // Large charts take long to draw: the page must stay quick.
  const pause = Math.max(DRAW_EVERY_MS, performance.now() - started);
  setTimeout(() => { drawing = false; grow(); }, pause);
}

async function extend() {
  const more = waiting;
  const end = lastPoint;
  waiting = emptyUpdates();
  held = false;
  if (performance.now() >= emphasiseAt) {
    emphasiseAt = performance.now() + HOLD_MS;
    await emphasise();
  } else held = true;
  for (const [name, chart] of Object.entries(charts)) {
    // Nothing new but the end of its steps: that can wait, and is half of the work.
    if (!more[name].size && performance.now() < (heldUntil[name] ?? 0)) held = true;
    else {
      await chart.extend(more[name], end);
      heldUntil[name] = performance.now() + HOLD_MS;
    }
  }
  explain();
  tellDrawn(end[0]);
  thin(more.trials);
}

/** Charts that have grown by thousands of points are drawn anew, with as many points as a page of that run would begin with. */
function thin(more) {
  grown += more;
  if (grown < THIN_AFTER) return;
  grown = 0;
  live.reload();
}

// --- header

function showHeader() {
  const status = role("status");
  status.dataset.status = run.status;
  text("status", run.status);
  const bar = role("progress");
  bar.max = run.trials_budget;
  bar.value = run.trials_done;
  bar.dataset.status = run.status;
  text("phase", phase());
  text("estimate", units.latency(run.estimated_latency_s));
  text("coverage", coverage());
  text("warm-start", warmStart());
  text("elapsed-of", run.time_limit_s === null ? "of tuning" : `of at most ${units.duration(run.time_limit_s)}`);
  text("trials-done", units.count(run.trials_done));
  text("trials-budget", units.count(run.trials_budget));
  text("trials-failed", units.count(run.trials_failed));
  text("failed-share", `${units.percent(run.trials_done ? run.trials_failed / run.trials_done : null)} of trials`);
  const speed = LIVE.includes(run.status) ? units.recent_speed(recent) : null;
  text("speed", units.speed(speed ?? average()));
  text("speed-of", speed ? "latest trials" : "on average");
  text("remaining", units.duration(speed ? remaining(speed) : null));
  text("remaining-of", run.finished_at ? "the run has ended" : "at this speed");
  showElapsed();
  showActions();
  downloads.enable({ best: run.tasks_measured > 0 && !run.synthetic, all: run.trials_done > 0 && !run.synthetic, trials: run.trials_done > 0 });
  showError();
  showAlerts();
}

/** What a notification says of its end. */
function outcome() {
  const trials = `${units.count(run.trials_done)} of ${units.count(run.trials_budget)} trials`;
  const estimate = run.estimated_latency_s === null ? coverage() : `estimated latency ${units.latency(run.estimated_latency_s)}`;
  return [run.error?.trim().split("\n")[0], `${trials}, ${estimate}`].filter(Boolean).join("\n");
}

/** Trials a second over all of the run; null while there are none. */
function average() {
  return run.trials_done && run.elapsed_s ? run.trials_done / run.elapsed_s : null;
}

function phase() {
  if (run.status === "queued") return run.place ? `queued: ${run.place} ${run.place === 1 ? "run" : "runs"} ahead on this device` : "queued: next on this device";
  if (run.status === "stopping") return "stopping after the trial being measured";
  if (run.status === "finished") return ended();
  if (run.status !== "running") return "";
  const doing = DOING[run.phase] ?? run.phase ?? "starting";
  return run.phase_task === null ? doing : `${doing} of task ${run.phase_task}`;
}

function ended() {
  switch (run.finish_reason) {
    case "budget": return "ended: the budget is spent";
    case "time_limit": return `ended at its time limit of ${units.duration(run.time_limit_s)}`;
    case "plateau": return `ended early: no task gained ${run.options.plateau_percent} % any more in ${run.options.plateau_trials} trials`;
    case "exhausted": return "ended early: nothing was left to try";
    default: return "";
  }
}

function coverage() {
  const { tasks_measured: measured, tasks_chosen: chosen, tasks_total: total } = run;
  if (!total) return "tasks not extracted yet";
  if (chosen === total) return `${measured} of ${total} tasks measured`;
  return `estimate of the chosen ${chosen} of ${total} tasks${measured === chosen ? "" : `, ${measured} measured`}`;
}

function warmStart() {
  if (!run.warm_start) return "";
  const others = run.warm_start.runs.slice(0, -1);
  const last = run.warm_start.runs.at(-1);
  return `${run.warm_start.tasks.length} of ${run.tasks_chosen} tasks start from records of ${others.length ? `runs ${others.join(", ")} and` : "run"} ${last}`;
}

function remaining(speed) {
  const spent = (run.trials_budget - run.trials_done) / speed;
  return run.time_limit_s === null ? spent : Math.max(0, Math.min(spent, run.time_limit_s - run.elapsed_s));
}

function showElapsed() {
  if (!run) return;
  const since = LIVE.includes(run.status) ? (performance.now() - elapsedAt) / 1000 : 0;
  text("elapsed", units.duration(run.elapsed_s + since));
}

function showActions() {
  const [stop, resume] = [role("stop"), role("resume-form")];
  if (!stop) return;
  stop.hidden = !["queued", "running"].includes(run.status);
  resume.hidden = !(["stopped", "failed", "interrupted"].includes(run.status) && run.trials_done < run.trials_budget);
  role("extend").hidden = run.status === "stopping" || run.synthetic;
  if (stop.hidden) role("stop-dialog").close();
  if (role("extend").hidden) role("extend-dialog").close();
}

function showError() {
  const box = role("run-error");
  box.hidden = !run.error;
  box.dataset.status = run.status;
  if (!run.error) return;
  const [first, ...rest] = run.error.trim().split("\n");
  const whole = role("run-error-rest");
  text("run-error-line", first);
  whole.hidden = !rest.length;
  if (whole.textContent === rest.join("\n")) return;
  whole.textContent = rest.join("\n");
  showLastLines();
}

/** Of a log as of a traceback the last line says most. */
function showLastLines() {
  role("run-error-rest").scrollTop = role("run-error-rest").scrollHeight;
}

function showAlerts() {
  const list = role("alerts");
  const wanted = run.alerts.map((alert) => alert.message);
  if ([...list.children].map((item) => item.textContent.trim()).join("\n") === wanted.join("\n")) return;
  list.replaceChildren(...run.alerts.map((alert) => {
    const item = role("alert-template").content.firstElementChild.cloneNode(true);
    item.dataset.kind = alert.kind;
    item.querySelector("span").textContent = alert.message;
    return item;
  }));
}

// --- table of tasks

const table = role("tasks-table");
const body = table.tBodies[0];
const sortValue = {
  index: (row) => Number(row.dataset.task),
  name: (row) => cell(row, "name").textContent,
  weight: (row) => number(cell(row, "weight").textContent.replaceAll(",", "")),
  trials: (row) => number(cell(row, "trials").textContent.replaceAll(",", "")),
};
const cell = (row, name) => row.querySelector(`[data-cell=${name}]`);
const number = (value) => (value === "" || value === undefined ? null : Number(value));
const valueOf = (row, column) => (sortValue[column] ? sortValue[column](row) : number(cell(row, column).dataset.value));

function showTasks() {
  const largest = Math.max(...[...tasks.values()].map((task) => shareOf(task) ?? 0));
  for (const task of tasks.values()) fill(rowOf(task), task, largest);
  role("tasks-empty").hidden = tasks.size > 0 || body.rows.length > 0;
  sort();
}

function rowOf(task) {
  const known = body.querySelector(`tr[data-task="${task.index}"]`);
  if (known) return known;
  const row = role("task-template").content.firstElementChild.cloneNode(true);
  row.dataset.task = task.index;
  row.dataset.series = task.index % SERIES;
  cell(row, "name").href = `${location.pathname}tasks/${task.index}/`;
  body.append(row);
  return row;
}

function shareOf(task) {
  const total = run.estimated_latency_s;
  return total && task.best_latency_s !== null ? (task.best_latency_s * task.weight) / total : null;
}

function fill(row, task, largest) {
  const share = shareOf(task);
  put(row, "index", String(task.index));
  put(row, "name", task.name);
  put(row, "weight", units.count(task.weight));
  put(row, "flop", units.flop(task.flop), task.flop);
  put(row, "latency", units.latency(task.best_latency_s), task.best_latency_s);
  put(row, "gflops", units.gflops(task.gflops), task.gflops);
  put(row, "trials", units.count(task.trials));
  put(row, "failed", units.count(task.failed), task.failed);
  const shareCell = cell(row, "share");
  shareCell.dataset.value = share ?? "";
  shareCell.querySelector("meter").value = share ? share / largest : 0;
  shareCell.querySelector("span").textContent = units.percent(share);
  row.toggleAttribute("data-all-failed", task.trials > 0 && task.trials === task.failed);
  row.toggleAttribute("data-plateaued", task.plateaued);
  row.toggleAttribute("data-unchosen", !task.chosen);
  row.toggleAttribute("data-active", LIVE.includes(run.status) && run.phase_task === task.index);
}

function put(row, name, shown, value) {
  const element = cell(row, name);
  if (element.textContent !== shown) element.textContent = shown;
  if (value !== undefined) element.dataset.value = value ?? "";
}

// --- each view of the page is in its URL

const state = new URLSearchParams(location.search);

function remember(changes) {
  for (const [name, value] of Object.entries(changes)) if (value) state.set(name, value); else state.delete(name);
  const query = state.toString();
  history.replaceState(null, "", location.pathname + (query ? `?${query}` : ""));
}

function sort() {
  const column = state.get("sort") ?? "index";
  const down = state.get("dir") === "desc";
  for (const head of table.querySelectorAll("th[data-sort]")) {
    if (head.dataset.sort === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  const rows = [...body.rows];
  const sorted = rows.map((row) => [valueOf(row, column), row]).sort(([a], [b]) => compare(a, b, down)).map(([, row]) => row);
  if (sorted.some((row, place) => row !== rows[place])) body.append(...sorted);
}

/** What isn't known stands last either way. */
function compare(a, b, down) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "string" ? a.localeCompare(b) : a - b;
  return down ? -order : order;
}

table.tHead.addEventListener("click", (event) => {
  const column = event.target.closest("th[data-sort]")?.dataset.sort;
  if (!column) return;
  const same = (state.get("sort") ?? "index") === column;
  // Figures are looked at from the largest on.
  const down = same ? state.get("dir") !== "desc" : !["index", "name"].includes(column);
  remember({ sort: column, dir: down ? "desc" : "asc" });
  sort();
});

let pointed = null;
function pointAt(row) {
  const task = row ? Number(row.dataset.task) : null;
  if (task === pointed) return;
  pointed = task;
  setTimeout(() => { if (pointed === task) for (const name of ["latency", "allocation"]) charts[name].highlight(task); }, 80);
}
body.addEventListener("mouseover", (event) => pointAt(event.target.closest("tr")));
body.addEventListener("mouseleave", () => pointAt(null));
body.addEventListener("focusin", (event) => pointAt(event.target.closest("tr")));
body.addEventListener("focusout", () => pointAt(null));

function showAxis(axis) {
  for (const button of document.querySelectorAll("[data-axis]")) button.setAttribute("aria-pressed", String(button.dataset.axis === axis));
  return Promise.all(Object.values(charts).map((chart) => chart.against(axis)));
}
for (const button of document.querySelectorAll("[data-axis]")) {
  button.addEventListener("click", () => {
    remember({ x: button.dataset.axis === "time" ? "time" : null });
    showAxis(button.dataset.axis);
  });
}
for (const button of document.querySelectorAll("[data-role=scale]")) {
  button.addEventListener("click", () => {
    const log = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(log));
    charts[button.dataset.chart].scaled(log ? "log" : "linear");
  });
}
document.addEventListener("themechange", () => Object.values(charts).forEach((chart) => chart.restyle()));

// --- errors

const errorsList = role("errors-list");
const errorItems = new Map([...errorsList.querySelectorAll("details")].map((item) => [keyOf(cell(item, "kind").textContent, cell(item, "text").textContent), item.parentElement]));
let errorsShown = null;
let errorsTimer = null;
function keyOf(kind, error) { return `${kind}\n${error}`; }

function refreshErrors() {
  if (run.trials_failed === errorsShown || errorsTimer !== null) return;
  errorsTimer = setTimeout(async () => {
    errorsTimer = null;
    const failed = run.trials_failed;
    const response = await fetch(`${article.dataset.api}/errors`).catch(() => null);
    if (!response?.ok) return;
    showErrors((await response.json()).items);
    errorsShown = failed;
    refreshErrors();
  }, errorsShown === null ? 0 : 1500);
}

function showErrors(errors) {
  const items = errors.map((error) => {
    const key = keyOf(error.kind, error.text);
    if (!errorItems.has(key)) errorItems.set(key, role("error-template").content.firstElementChild.cloneNode(true));
    const item = errorItems.get(key);
    put(item, "count", `${units.count(error.count)}×`);
    put(item, "kind", error.kind);
    put(item, "line", error.text.trim().split("\n").at(-1));
    put(item, "where", `trials ${error.first_trial} to ${error.last_trial} · ${error.tasks.length === 1 ? "task" : "tasks"} ${error.tasks.join(", ")}`);
    put(item, "text", error.text);
    return item;
  });
  if (items.some((item, place) => errorsList.children[place] !== item)) errorsList.replaceChildren(...items);
  role("errors-empty").hidden = items.length > 0;
  text("errors-count", String(items.length));
}

// --- console

follow(article.dataset.console, () => run !== null && LIVE.includes(run.status), () => downloads.enable({ console: true }));
setInterval(() => document.hidden || showElapsed(), 1000);

// --- parts that deltas of trials don't change: times and versions, compilations and whether there can be one

const COMPILING_EVERY_MS = 3000;
let partsShown = null;
const hasRecord = () => (tasks.size ? [...tasks.values()].some((task) => task.best_latency_s !== null) : null);

async function refreshParts() {
  const wanted = `${run.status} ${run.tasks_total} ${hasRecord()}`;
  if (partsShown === wanted) return;
  const first = partsShown === null && wanted === `${article.dataset.status} ${body.rows.length} ${hasRecord()}`;
  partsShown = wanted;
  if (!first) await readParts();
}

async function readParts() {
  const response = await fetch(location.pathname).catch(() => null);
  if (!response?.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of page.querySelectorAll("[data-part]")) {
    const before = document.querySelector(`[data-part=${part.dataset.part}]`);
    if (before && !before.querySelector("dialog[open]") && before.outerHTML !== part.outerHTML) before.replaceWith(part);
  }
}
setInterval(() => {
  if (!document.hidden && document.querySelector("[data-part=compilations]").dataset.waiting === "yes") readParts();
}, COMPILING_EVERY_MS);

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-role=compile]")) role("compile-dialog").showModal();
  if (event.target.closest("[data-role=compile-cancel]")) role("compile-dialog").close();
});

// --- other runs to compare it with

const MOST_BESIDE = 7;
role("beside-form").addEventListener("change", ({ currentTarget }) => {
  const chosen = currentTarget.querySelectorAll(":checked").length;
  const confirm = role("beside-confirm");
  confirm.textContent = chosen ? `Compare ${chosen + 1} runs` : "Compare";
  confirm.disabled = chosen < 1 || chosen > MOST_BESIDE;
});

// --- stop, extend

role("extend")?.addEventListener("click", () => role("extend-dialog").showModal());
role("extend-cancel")?.addEventListener("click", () => role("extend-dialog").close());
role("stop")?.addEventListener("click", () => role("stop-dialog").showModal());
role("stop-cancel")?.addEventListener("click", () => role("stop-dialog").close());

// --- live

function soon() {
  if (dirty) return;
  dirty = true;
  requestAnimationFrame(() => {
    dirty = false;
    showHeader();
    showTasks();
    refreshErrors();
    refreshParts();
    explain();
    grow();
  });
}

const live = new LiveRun({
  socket: article.dataset.socket,
  api: article.dataset.api,
  last: 0,
  on: {
    trials: (columns) => { collect(columns); if (run) soon(); },
    run: (now, changed = []) => {
      run = now;
      written.follow(run);
      elapsedAt = performance.now();
      // Not with the next frame: a tab in the background has none.
      heard({ title: run.name, status: run.status, share: run.trials_done / run.trials_budget, outcome: outcome() });
      for (const task of changed) tasks.set(task.index, task);
      soon();
      // Curves need their task's trace: a run's tasks come all at once.
      if (run.tasks_total !== weights.length && tasks.size === run.tasks_total) redraw();
    },
    reload: loadFigures,
    connection: (up) => { role("connection").hidden = up; },
  },
});

let redrawing = false;
async function redraw() {
  if (redrawing) return;
  redrawing = true;
  await live.reload();
  redrawing = false;
}

showLastLines();
await showAxis(state.get("x") === "time" ? "time" : "number");
sort();
live.last = await loadFigures();
live.start();
