// The page of a task: its own curve, which grows as the run's does, and its best records.
import { Chart, gather } from "../charts/chart.js";
import * as downloads from "../run/downloads.js";
import { LiveRun } from "../live/sockets.js";
import { reread, role, text } from "../common/dom.js";
import * as units from "../common/units.js";
import { heard } from "../live/notifications.js";

const TRIALS = 0, SHORT = 1, FAILED = 2, BEST = 3;
const FAILED_HEIGHT = 0.02;
const MOST_POINTS = 12000;
const article = role("task");
const task = Number(article.dataset.task);
const chart = new Chart(role("chart-task"), role("empty-task"), { file: `${article.dataset.file}_latency` });
downloads.offer({ task: chart });
role("chart-task").dataset.about = `run ${article.dataset.run} · ${article.dataset.name}`;

let waiting = new Map();
let end = [0, 0];
let drawing = false;
let wantsRecords = false;

async function load() {
  const response = await fetch(article.dataset.figures);
  if (!response.ok) throw new Error(`${response.status} for the figure`);
  const figures = await response.json();
  waiting = new Map();
  await chart.draw(figures.curve);
  chart.explain("No trial of this task yet.");
  return figures.last;
}

function collect(columns) {
  columns.number.forEach((number, row) => {
    const [at, latency] = [columns.at_s[row], columns.latency_s[row]];
    end = [number, at];
    if (columns.task[row] !== task) return;
    gather(waiting, latency === null ? FAILED : columns.short[row] ? SHORT : TRIALS, number, at, latency ?? FAILED_HEIGHT);
    if (columns.improved[row]) gather(waiting, BEST, number, at, latency);
    wantsRecords ||= latency !== null;
  });
  grow();
}

async function grow() {
  if (drawing) return;
  drawing = true;
  const more = waiting;
  waiting = new Map();
  await chart.extend(more, end);
  chart.explain("No trial of this task yet.");
  if (chart.points > MOST_POINTS) await live.reload();
  setTimeout(() => { drawing = false; if (waiting.size) grow(); }, 250);
}

function show(run, changed = []) {
  heard({ title: `Task ${task} of ${run.name}`, status: run.status, share: run.trials_done / run.trials_budget });
  const status = role("status");
  status.dataset.status = run.status;
  text("status", run.status);
  const now = changed.find((one) => one.index === task);
  if (!now) return;
  text("latency", units.latency(now.best_latency_s));
  text("best-trial", now.best_trial ? `trial ${units.count(now.best_trial)}` : "no valid trial yet");
  text("gflops", units.gflops(now.gflops));
  text("trials-done", units.count(now.trials));
  text("trials-failed", units.count(now.failed));
  downloads.enable({ best: now.best_latency_s !== null && !run.synthetic, all: now.trials > 0 && !run.synthetic, trials: now.trials > 0 });
}

// Best records carry whole traces, which deltas don't: the server draws their table anew.
setInterval(async () => {
  if (!wantsRecords || document.hidden) return;
  wantsRecords = false;
  const page = await reread(location.href);
  const fresh = page && role("records-panel", page);
  if (!fresh) return;
  role("records-panel").replaceWith(fresh);
  htmx.process(fresh);
}, 3000);

for (const button of document.querySelectorAll("[data-axis]")) {
  button.addEventListener("click", () => {
    for (const one of document.querySelectorAll("[data-axis]")) one.setAttribute("aria-pressed", String(one === button));
    chart.against(button.dataset.axis);
  });
}
document.addEventListener("htmx:beforeSwap", (event) => { if (event.detail.xhr.status !== 200) event.detail.shouldSwap = false; });
document.addEventListener("htmx:beforeOnLoad", (event) => {
  if (!event.detail.xhr.responseURL.includes("/sign-in/")) return;
  event.preventDefault();
  location.reload();
});
document.addEventListener("themechange", () => chart.restyle());

const live = new LiveRun({
  socket: article.dataset.socket,
  api: article.dataset.api,
  last: 0,
  on: { trials: collect, run: show, reload: load, connection: (up) => { role("connection").hidden = up; } },
});
live.last = await load();
live.start();
