// A task's page: its curve, which grows with the run, and its best records.
import { Chart, gather } from "../charts/chart.js";
import { failedHeight, noise } from "../common/constants.js";
import * as downloads from "../run/downloads.js";
import { LiveRun } from "../live/sockets.js";
import { role, text } from "../common/dom.js";
import * as units from "../common/units.js";
import { report } from "../live/notifications.js";
import { Refresher } from "../site/refresh.js";
import { getJson } from "../common/json.js";

const MOST_POINTS = 12000;
const article = role("task");
const task = Number(article.dataset.task);
const chart = new Chart(role("chart-task"), role("empty-task"), { file: `${article.dataset.file}_latency` });
downloads.offer({ task: chart });
role("chart-task").dataset.about = `run ${article.dataset.run} · ${article.dataset.name}`;

let traceOf = new Map();
let waiting = new Map();
/** The task's latest trial, and the seconds of the run's. */
let end = [0, 0];
let drawing = false;
const records = new Refresher(article, 3000);

async function load() {
  const figures = await getJson(article.dataset.figures);
  if (!figures) throw new Error("no figure");
  waiting = new Map();
  traceOf = new Map(figures.curve.data.map(({ meta }, index) => [meta.role ?? "best", index]));
  end = figures.end;
  await chart.draw(figures.curve);
  chart.explain("No trial of this task yet.");
  return figures.last;
}

function collect(columns) {
  columns.number.forEach((number, row) => {
    const [at, latency, nth] = [columns.at_s[row], columns.latency_s[row], columns.nth[row]];
    end[1] = at;
    if (columns.task[row] !== task) return;
    end[0] = nth;
    const kind = latency === null ? "failed" : columns.short[row] ? "short" : "trials";
    gather(waiting, traceOf.get(kind), nth, at, latency ?? failedHeight, `<br>the run’s trial ${units.count(number)}${columns.noisy[row] ? noise : ""}`);
    if (columns.noisy[row]) gather(waiting, traceOf.get("noisy"), nth, at, latency);
    if (columns.improved[row]) gather(waiting, traceOf.get("best"), nth, at, latency);
    // Deltas leave records out, since traces are long: the server renders their table.
    if (latency !== null) records.ask();
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
  report({ title: `Task ${task} of ${run.name}`, status: run.status, share: run.trials_budget && run.trials_done / run.trials_budget });
  const status = role("status");
  status.dataset.status = run.status;
  text("status", run.status);
  chart.tellNoise(run.noise);
  const now = changed.find((one) => one.index === task);
  if (!now) return;
  text("latency", units.latency(now.best_latency_s));
  text("best-trial", now.best_trial ? `trial ${units.count(now.best_trial)}` : "no valid trial yet");
  text("gflops", units.gflops(now.gflops));
  text("trials-done", units.count(now.trials));
  if (now.space) text("tried", `${units.percent(now.trials / now.space)} of ${units.count(now.space)} candidates`);
  text("trials-failed", units.count(now.failed));
  downloads.enable({ best: now.best_latency_s !== null && !run.synthetic, all: now.trials > 0 && !run.synthetic, trials: now.trials > 0 });
}

for (const button of document.querySelectorAll("[data-axis]")) {
  button.addEventListener("click", () => {
    for (const one of document.querySelectorAll("[data-axis]")) one.setAttribute("aria-pressed", String(one === button));
    chart.against(button.dataset.axis);
  });
}
/** Scrolls a listing to its hot loop, unless the same one is there already. */
function showHotLoop() {
  const hot = role("hot-loop");
  if (!hot || hot.dataset.seen) return;
  hot.dataset.seen = "";
  const listing = role("listing");
  listing.scrollTop += hot.getBoundingClientRect().top - listing.getBoundingClientRect().top - listing.clientHeight / 6;
}
document.addEventListener("htmx:afterSettle", showHotLoop);
showHotLoop();

document.addEventListener("themechange", () => chart.restyle());

const live = new LiveRun({
  socket: article.dataset.socket,
  api: article.dataset.api,
  last: 0,
  on: { trials: collect, run: show, reload: load, connection: (up) => { role("connection").hidden = up; } },
});
live.last = await load();
live.start();
