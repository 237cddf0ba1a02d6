// A run's page: passes each update to the parts of the page, at most once a frame.
import * as course from "../run/course.js";
import * as curves from "../run/curves.js";
import * as downloads from "../run/downloads.js";
import * as failures from "../run/errors.js";
import * as heading from "../run/heading.js";
import * as machines from "../run/machines.js";
import { LiveRun } from "../live/sockets.js";
import { follow } from "../live/console.js";
import { role } from "../common/dom.js";
import { isLive } from "../common/status.js";
import * as table from "../run/tasks.js";
import * as verdict from "../run/verdict.js";
import { remember, viewed } from "../common/address.js";
import { report } from "../live/notifications.js";
import * as editing from "../run/editing.js";
import { Refresher } from "../site/refresh.js";

const ELAPSED_EVERY_MS = 1000;
const COMPILING_EVERY_MS = 3000;
const article = role("run");

// --- state

let run = null;
let runAt = 0;
/** The latest forecast, and when it was told. */
let forecast = "";
let forecastAt = 0;
const tasks = new Map();
/** Reads once more how the run went; null until that is followed. */
let readCourse = null;
const isRunning = () => run !== null && isLive(run.status);

function show() {
  heading.show(run, isRunning() ? curves.speed() : null);
  showElapsed();
  showRemaining();
  table.show([...tasks.values()], run, isRunning());
  failures.refresh(run.trials_failed);
  machines.show(run.machines);
  refreshParts();
  verdict.follow(run);
  curves.tellNoise(run.noise);
  curves.explain();
  curves.grow(() => live.reload());
}

let isDue = false;
function showSoon() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    show();
  });
}

function showElapsed() {
  if (run) heading.showElapsed(run.elapsed_s === null ? null : run.elapsed_s + (isRunning() ? (performance.now() - runAt) / 1000 : 0));
}

function showRemaining() {
  if (run) heading.showRemaining(run, (performance.now() - forecastAt) / 1000);
}
setInterval(() => {
  if (document.hidden) return;
  showElapsed();
  showRemaining();
}, ELAPSED_EVERY_MS);

// --- parts rendered by the server: times and versions, compilations and the button that starts one

const refresher = new Refresher(article);
let partsKey = null;
const hasRecord = () => (tasks.size ? [...tasks.values()].some((task) => task.best_latency_s !== null) : null);

const rows = (run) => run.tasks_total + run.tasks_spare;

function refreshParts() {
  const key = `${run.status} ${rows(run)} ${hasRecord()}`;
  if (partsKey === key) return;
  const isAsDrawn = partsKey === null && key === `${article.dataset.status} ${table.count()} ${hasRecord()}`;
  partsKey = key;
  if (!isAsDrawn) refresher.ask();
}

setInterval(() => {
  if (document.getElementById("compilations").dataset.waiting === "yes") refresher.ask();
}, COMPILING_EVERY_MS);

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-role=compile]")) {
    role("compile-dialog").showModal();
    htmx.trigger(role("untuned"), "opened");
  }
  if (event.target.closest("[data-role=compile-cancel]")) role("compile-dialog").close();
});

// --- tags, pin and archive

document.addEventListener("htmx:afterSettle", ({ target }) => {
  // The button that was pressed may be gone, and the focus with it.
  if (target.matches("[data-role=curation]") && document.activeElement === document.body) role("add-tag").focus();
});

// --- comparison with other runs

role("compare-form").addEventListener("change", ({ currentTarget }) => {
  const chosen = currentTarget.querySelectorAll(":checked").length;
  const confirm = role("compare-confirm");
  confirm.textContent = chosen ? `Compare ${chosen + 1} runs` : "Compare";
  confirm.disabled = chosen < 1 || chosen > Number(currentTarget.dataset.most);
});

// --- live

const live = new LiveRun({
  socket: article.dataset.socket,
  api: article.dataset.api,
  last: 0,
  on: {
    trials: (columns) => { curves.collect(columns); if (run) showSoon(); },
    run: update,
    reload: curves.load,
    connection: (up) => { role("connection").hidden = up; },
  },
});

function update(now, changed = []) {
  const hasEnded = isRunning() && !isLive(now.status);
  run = now;
  if (hasEnded) readCourse?.();
  runAt = performance.now();
  const told = JSON.stringify(run.remaining);
  if (told !== forecast) [forecast, forecastAt] = [told, runAt];
  editing.follow(run);
  // At once: a background tab has no frames.
  report({ title: run.name, status: run.status, share: run.trials_budget && run.trials_done / run.trials_budget, outcome: heading.outcome(run) });
  for (const task of changed) tasks.set(task.index, task);
  showSoon();
  // Each task needs a trace. A run's tasks arrive all at once.
  const isOutdated = rows(run) !== curves.count() || changed.some(curves.isReweighted);
  if (isOutdated && tasks.size === rows(run)) redraw();
}

let redrawing = false;
async function redraw() {
  if (redrawing) return;
  redrawing = true;
  await live.reload();
  redrawing = false;
}

// --- start

downloads.offer(curves.charts);
follow(article.dataset.console, isRunning, () => downloads.enable({ console: true }));
table.onPointed(curves.highlight);
for (const button of document.querySelectorAll("[data-axis]")) {
  button.addEventListener("click", () => {
    remember({ x: button.dataset.axis === "time" ? "time" : null });
    curves.against(button.dataset.axis);
    course.against(button.dataset.axis);
  });
}
heading.showLastLines();
await curves.against(viewed("x") === "time" && document.querySelector("[data-axis=time]") ? "time" : "number");
table.sort();
live.last = await curves.load();
live.start();
const axis = document.querySelector("[data-axis][aria-pressed=true]")?.dataset.axis;
if (axis) await course.against(axis);
readCourse = course.follow(isRunning);
