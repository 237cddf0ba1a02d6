// Where a run's time went, and what its machines were like. Each has an address of its own, and is read once it is near what is shown; while the
// run is tuned, again every few seconds.
import { Chart } from "../charts/chart.js";
import { role } from "../common/dom.js";
import { getJson } from "../common/json.js";

const EVERY_MS = 5000;
/** What takes long isn't read again for so many times as long. */
const RESTS = 5;
const NEAR = "600px";
const byName = new Intl.Collator("en", { numeric: true }).compare;
const article = role("run");

function chart(name) {
  const made = new Chart(role(`chart-${name}`), role(`empty-${name}`), { file: `${article.dataset.file}_${name}`, legend: false });
  made.element.dataset.about = `run ${article.dataset.run} · ${article.dataset.name}`;
  return made;
}

/** A part of the page that reads what it shows; `query` is what it asks for besides. */
class Part {
  constructor(element, isRunning, show, query = () => "") {
    Object.assign(this, { element, isRunning, show, query, isNear: false, isRead: false, isBusy: false, isLate: false, restsUntil: 0 });
    // A hidden part has no place of its own.
    new IntersectionObserver(([entry]) => { this.isNear = entry.isIntersecting; this.read(); }, { rootMargin: NEAR }).observe(element.hidden ? element.parentElement : element);
    setInterval(() => this.isRunning() && performance.now() > this.restsUntil && this.read(true), EVERY_MS);
  }

  /** Reads it for the first time, or `again`. */
  async read(again = false) {
    if (!this.isNear || document.hidden || (this.isRead && !again)) return;
    // Something else may be asked for by now.
    if (this.isBusy) {
      this.isLate ||= again;
      return;
    }
    const began = performance.now();
    this.isBusy = true;
    try {
      const answer = await getJson(this.element.dataset.from + this.query());
      if (!answer) return;
      await this.show(answer);
      this.isRead = true;
    } finally {
      this.isBusy = false;
      if (this.isLate) setTimeout(() => this.read(true));
      this.isLate = false;
      this.restsUntil = performance.now() + RESTS * (performance.now() - began);
    }
  }
}

// --- the time

const charts = { band: chart("band"), accuracy: chart("accuracy"), conditions: chart("conditions") };

async function showTime({ html, band, accuracy, judged }) {
  const before = role("time-told").querySelector(".time-wrap");
  const [left, top] = [before?.scrollLeft ?? 0, before?.scrollTop ?? 0];
  role("time-told").innerHTML = html;
  role("time-told").querySelector(".time-wrap")?.scrollTo(left, top);
  role("time-charts").hidden = !band;
  role("accuracy").hidden = !accuracy;
  if (band) await draw("band", band);
  if (accuracy) await draw("accuracy", accuracy);
  offer(judged);
}

async function draw(name, figure) {
  await charts[name].draw(figure);
  charts[name].explain("");
}

// --- predicted and measured, on demand

let scatter = null;

function offer(tasks) {
  const select = role("predicted-task");
  role("predicted").hidden = !tasks.length;
  const known = [...select.options].map(({ value }) => Number(value));
  for (const task of tasks) if (!known.includes(task)) select.add(new Option(taskName(task), task));
}

function taskName(task) {
  const row = document.querySelector(`[data-role=tasks-table] tr[data-task="${task}"] [data-cell=name]`);
  return row ? `${task} ${row.textContent}` : String(task);
}

async function showPredicted() {
  if (!role("predicted").open) return;
  scatter ??= chart("predicted");
  const figure = await getJson(`${role("time").dataset.predicted}?task=${role("predicted-task").value}`);
  if (!figure) return;
  await scatter.draw(figure);
  scatter.explain("None of its candidates was judged.");
}

role("predicted").addEventListener("toggle", showPredicted);
role("predicted-task").addEventListener("change", showPredicted);

// --- the machines

let processor = "";
/** The machine of the pool that was chosen; null shows the one that others used most. */
let chosen = null;

function offerMachines(machines, shown) {
  role("conditions-of").hidden = machines.length < 2;
  const select = role("conditions-machine");
  const names = [...machines].sort(byName);
  if (names.join("\n") !== [...select.options].map(({ value }) => value).join("\n")) select.replaceChildren(...names.map((name) => new Option(name)));
  select.value = chosen ?? shown;
}

async function showConditions({ figure, html, machines, machine }) {
  role("processor").innerHTML = processor = html;
  offerMachines(machines, machine);
  const strip = role("conditions");
  strip.hidden = !figure;
  if (!figure) return;
  strip.dataset.rows = figure.layout.meta.rows;
  await draw("conditions", figure);
}

// The server renders this part of the page anew when the run's status changes.
document.addEventListener("htmx:afterSettle", ({ target }) => {
  if (target.contains(role("processor"))) role("processor").innerHTML = processor;
});

/** Reads the parts once they are near what is shown; `isRunning` says whether they change. */
export function follow(isRunning) {
  const strip = new Part(role("conditions"), isRunning, showConditions, () => (chosen === null ? "" : `?${new URLSearchParams({ machine: chosen })}`));
  role("conditions-machine").addEventListener("change", ({ target }) => { chosen = target.value; strip.read(true); });
  const parts = [new Part(role("time"), isRunning, showTime), strip];
  /** As it ended. */
  return () => parts.forEach((part) => part.read(true));
}

/** Plots against trial `number` or `time`. */
export const against = (axis) => Promise.all(Object.values(charts).map((one) => one.against(axis)));

document.addEventListener("themechange", () => [...Object.values(charts), scatter].forEach((one) => one?.restyle()));
