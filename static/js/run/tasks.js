// The table of a run's tasks, sortable by any column.
import { colors } from "../common/constants.js";
import { cell, copyOf, put, role } from "../common/dom.js";
import * as units from "../common/units.js";
import { remember, viewed } from "../common/address.js";

const SETTLE_MS = 80;
const table = role("tasks-table");
const body = table.tBodies[0];

// --- rows

export function show(tasks, run, isLive) {
  for (const task of tasks) fill(rowOf(task), task, run, isLive && run.phase_task === task.index);
  role("tasks-empty").hidden = body.rows.length > 0;
  sort();
}

export const count = () => body.rows.length;

/** Gives rows the colors of the charts; with many tasks, only the `chosen` ones get one. */
export function color(chosen) {
  for (const row of body.rows) {
    const series = chosen.indexOf(Number(row.dataset.task));
    row.toggleAttribute("data-other", series < 0);
    row.dataset.series = series < 0 ? row.dataset.task % colors : series;
  }
}

function rowOf(task) {
  const known = body.querySelector(`tr[data-task="${task.index}"]`);
  if (known) return known;
  const row = copyOf("task-template");
  row.dataset.task = task.index;
  row.dataset.series = task.index % colors;
  cell(row, "name").href = `${location.pathname}tasks/${task.index}/`;
  body.append(row);
  return row;
}

/** Shows what others have reached, and what the machine could do: `gains` has cells of the table, by task. */
export function showGains(gains) {
  for (const gain of gains) {
    const row = body.querySelector(`tr[data-task="${gain.dataset.task}"]`);
    if (row) for (const filled of gain.children) fillFrom(cell(row, filled.dataset.cell), filled);
  }
  const has = (name) => gains.some((gain) => gain.querySelector(`[data-cell=${name}]`));
  table.toggleAttribute("data-alone", !has("known"));
  table.toggleAttribute("data-roofless", !has("roof"));
  sort();
}

function fillFrom(element, filled) {
  element.dataset.value = filled.dataset.value;
  element.title = filled.title;
  if (element.innerHTML !== filled.innerHTML) element.replaceChildren(...filled.cloneNode(true).childNodes);
}

function shareOf(task, run) {
  const total = run.estimated_latency_s;
  return total && task.best_latency_s !== null ? (task.best_latency_s * task.weight) / total : null;
}

/** What was measured again at the run's end; empty if nothing was. */
function confirmation(task) {
  if (task.confirmed_latency_s === null) return "";
  const latency = `${units.latency(task.confirmed_latency_s)} ${units.plus_minus(task.confirmed_noise)}`;
  return `Confirmed: ${latency}, the median of ${task.confirmed_times} more measurements of trial ${units.count(task.confirmed_trial)}’s record`;
}

function fill(row, task, run, isActive) {
  put(row, "index", String(task.index));
  put(row, "name", task.name);
  put(row, "weight", units.count(task.weight));
  put(row, "flop", units.flop(task.flop), task.flop);
  put(row, "latency", units.latency(task.best_latency_s), task.best_latency_s);
  cell(row, "latency").toggleAttribute("data-confirmed", task.confirmed_latency_s !== null);
  cell(row, "latency").title = confirmation(task);
  cell(row, "flop").toggleAttribute("data-derived", task.flop_derived);
  put(row, "gflops", units.gflops(task.gflops), task.gflops);
  put(row, "trials", units.count(task.trials));
  put(row, "failed", units.count(task.failed), task.failed);
  fillShare(cell(row, "share"), shareOf(task, run));
  row.toggleAttribute("data-all-failed", task.trials > 0 && task.trials === task.failed);
  row.toggleAttribute("data-plateaued", task.plateaued);
  row.toggleAttribute("data-unchosen", !task.chosen);
  row.toggleAttribute("data-spare", task.weight === 0);
  row.toggleAttribute("data-active", isActive);
}

function fillShare(element, share) {
  element.dataset.value = share ?? "";
  element.querySelector("meter").value = share ?? 0;
  element.querySelector("span").textContent = units.percent(share);
}

// --- order

const number = (value) => (value === "" || value === undefined ? null : Number(value));
const sortValue = {
  index: (row) => Number(row.dataset.task),
  name: (row) => cell(row, "name").textContent,
  weight: (row) => number(cell(row, "weight").textContent.replaceAll(",", "").replace(units.UNKNOWN, "")),
  trials: (row) => number(cell(row, "trials").textContent.replaceAll(",", "")),
};
const valueOf = (row, column) => (sortValue[column] ? sortValue[column](row) : number(cell(row, column).dataset.value));
const sorted = () => viewed("sort") ?? "index";
const isDown = () => viewed("dir") === "desc";

export function sort() {
  const [column, down] = [sorted(), isDown()];
  for (const head of table.querySelectorAll("th[data-sort]")) {
    if (head.dataset.sort === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  const rows = [...body.rows];
  const wanted = rows.map((row) => [valueOf(row, column), row]).sort(([a], [b]) => compare(a, b, down)).map(([, row]) => row);
  if (wanted.some((row, place) => row !== rows[place])) body.append(...wanted);
}

/** Unknown values come last in either direction. */
function compare(a, b, down) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "string" ? a.localeCompare(b) : a - b;
  return down ? -order : order;
}

table.tHead.addEventListener("click", (event) => {
  const column = event.target.closest("th[data-sort]")?.dataset.sort;
  if (!column) return;
  // The first click on a column of figures puts the largest first.
  const down = sorted() === column ? !isDown() : !["index", "name"].includes(column);
  remember({ sort: column, dir: down ? "desc" : "asc" });
  sort();
});

// --- the task that is pointed at

/** Calls `show` with the task under the mouse or the focus, or null, once the pointer rests. */
export function onPointed(show) {
  let pointed = null;
  const point = (row) => {
    const task = row ? Number(row.dataset.task) : null;
    if (task === pointed) return;
    pointed = task;
    setTimeout(() => { if (pointed === task) show(task); }, SETTLE_MS);
  };
  for (const kind of ["mouseover", "focusin"]) body.addEventListener(kind, (event) => point(event.target.closest("tr")));
  for (const kind of ["mouseleave", "focusout"]) body.addEventListener(kind, () => point(null));
}
