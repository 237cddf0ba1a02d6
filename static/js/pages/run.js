// The page of a run: hands what live.js tells to its parts, at most once a frame.
import * as curves from "../run/curves.js";
import * as downloads from "../run/downloads.js";
import * as failures from "../run/errors.js";
import * as heading from "../run/heading.js";
import { LiveRun } from "../live/sockets.js";
import { follow } from "../live/console.js";
import { reread, role } from "../common/dom.js";
import { isLive } from "../common/status.js";
import * as table from "../run/tasks.js";
import { remember, viewed } from "../common/address.js";
import { heard } from "../live/notifications.js";
import * as written from "../run/editing.js";

const ELAPSED_EVERY_MS = 1000;
const COMPILING_EVERY_MS = 3000;
const MOST_BESIDE = 7;
const article = role("run");

// --- what is known

let run = null;
let runAt = 0;
const tasks = new Map();
const isRunning = () => run !== null && isLive(run.status);

function show() {
  heading.show(run, isRunning() ? curves.speed() : null);
  showElapsed();
  table.show([...tasks.values()], run, isRunning());
  failures.refresh(run.trials_failed);
  refreshParts();
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
  if (run) heading.showElapsed(run.elapsed_s + (isRunning() ? (performance.now() - runAt) / 1000 : 0));
}
setInterval(() => document.hidden || showElapsed(), ELAPSED_EVERY_MS);

// --- parts that the server draws: times and versions, compilations and whether there can be one

let partsShown = null;
const hasRecord = () => (tasks.size ? [...tasks.values()].some((task) => task.best_latency_s !== null) : null);

async function refreshParts() {
  const wanted = `${run.status} ${run.tasks_total} ${hasRecord()}`;
  if (partsShown === wanted) return;
  const isAsDrawn = partsShown === null && wanted === `${article.dataset.status} ${table.count()} ${hasRecord()}`;
  partsShown = wanted;
  if (!isAsDrawn) await rereadParts();
}

async function rereadParts() {
  const page = await reread(location.pathname);
  for (const part of page?.querySelectorAll("[data-part]") ?? []) {
    const before = document.querySelector(`[data-part=${part.dataset.part}]`);
    if (before && !before.querySelector("dialog[open]") && before.outerHTML !== part.outerHTML) before.replaceWith(part);
  }
}
setInterval(() => {
  if (!document.hidden && document.querySelector("[data-part=compilations]").dataset.waiting === "yes") rereadParts();
}, COMPILING_EVERY_MS);

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-role=compile]")) role("compile-dialog").showModal();
  if (event.target.closest("[data-role=compile-cancel]")) role("compile-dialog").close();
});

// --- other runs to compare it with

role("beside-form").addEventListener("change", ({ currentTarget }) => {
  const chosen = currentTarget.querySelectorAll(":checked").length;
  const confirm = role("beside-confirm");
  confirm.textContent = chosen ? `Compare ${chosen + 1} runs` : "Compare";
  confirm.disabled = chosen < 1 || chosen > MOST_BESIDE;
});

// --- live

const live = new LiveRun({
  socket: article.dataset.socket,
  api: article.dataset.api,
  last: 0,
  on: {
    trials: (columns) => { curves.collect(columns); if (run) showSoon(); },
    run: hear,
    reload: curves.load,
    connection: (up) => { role("connection").hidden = up; },
  },
});

function hear(now, changed = []) {
  run = now;
  runAt = performance.now();
  written.follow(run);
  // Not with the next frame: a tab in the background has none.
  heard({ title: run.name, status: run.status, share: run.trials_done / run.trials_budget, outcome: heading.outcome(run) });
  for (const task of changed) tasks.set(task.index, task);
  showSoon();
  // Curves need their task's trace: a run's tasks come all at once.
  if (run.tasks_total !== curves.count() && tasks.size === run.tasks_total) redraw();
}

let redrawing = false;
async function redraw() {
  if (redrawing) return;
  redrawing = true;
  await live.reload();
  redrawing = false;
}

// --- from here on

downloads.offer(curves.charts);
follow(article.dataset.console, isRunning, () => downloads.enable({ console: true }));
table.onPointed(curves.highlight);
for (const button of document.querySelectorAll("[data-axis]")) {
  button.addEventListener("click", () => {
    remember({ x: button.dataset.axis === "time" ? "time" : null });
    curves.against(button.dataset.axis);
  });
}
heading.showLastLines();
await curves.against(viewed("x") === "time" ? "time" : "number");
table.sort();
live.last = await curves.load();
live.start();
