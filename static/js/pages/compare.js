// Runs side by side. Links to other views, and news of live runs, refresh the parts of the page that differ.
import { Chart } from "../charts/chart.js";
import { LiveRun } from "../live/sockets.js";
import { role } from "../common/dom.js";
import { isOngoing } from "../common/status.js";
import { Refresher } from "../site/refresh.js";

const article = role("comparison");
const refresher = new Refresher(article);
refresher.restoreOnBack();

// --- charts

const charts = {};
for (const name of ["estimate", "waterfall", "tasks", "allocation", "speed"]) {
  charts[name] = new Chart(role(`chart-${name}`), role(`empty-${name}`), { file: `runs_${article.dataset.runs}_${name}`, legend: name === "estimate" });
  role(`chart-${name}`).dataset.about = `runs ${article.dataset.runs.replaceAll("_", ", ")}`;
}

const drawn = {};

let drawing = Promise.resolve();

/** Draws one set of figures after another. */
function draw() {
  return (drawing = drawing.then(drawFigures));
}

async function drawFigures() {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const byTime = new URLSearchParams(location.search).get("x") === "time";
  for (const [name, chart] of Object.entries(charts)) {
    const axis = byTime && ["estimate", "speed"].includes(name) ? "time" : "number";
    const key = JSON.stringify([axis, figures[name], figures.empty[name]]);
    if (drawn[name] === key) continue;
    drawn[name] = key;
    chart.axis = axis;
    await chart.draw(figures[name]);
    chart.explain(figures.empty[name]);
  }
}

document.addEventListener("themechange", () => Object.values(charts).forEach((chart) => chart.restyle()));

function pointAt(target) {
  const row = target?.closest("[data-role=compared-runs] tbody tr");
  for (const name of ["estimate", "speed"]) charts[name].highlight(row ? Number(row.dataset.place) : null);
}
for (const kind of ["mouseover", "focusin"]) {
  article.addEventListener(kind, ({ target }) => { if (target.closest("[data-role=compared-runs]")) pointAt(target); });
}
article.addEventListener("focusout", () => pointAt(null));
role("compared-runs").closest(".table-wrap").addEventListener("mouseleave", () => pointAt(null));

// --- live

const followed = new Map();

function follow() {
  for (const row of role("compared-runs").tBodies[0].rows) {
    if (isOngoing(row.dataset.status) && !followed.has(row.dataset.run)) followed.set(row.dataset.run, start(row));
  }
}

/** Follows a run only to learn that something is new: the server makes the comparison. */
function start(row) {
  const { run } = row.dataset;
  let seen = `${row.dataset.status} ${row.dataset.last}`;
  const live = new LiveRun({
    socket: `/ws/runs/${run}/`,
    api: `/api/v1/runs/${run}`,
    last: Number(row.dataset.last),
    on: {
      trials: () => {},
      run: (now) => {
        const is = `${now.status} ${now.trials_done}`;
        if (is !== seen) refresher.ask();
        seen = is;
      },
      reload: async () => (await live.get("")).trials_done,
      connection: (up) => {
        live.up = up;
        role("connection").hidden = [...followed.values()].every((one) => one.up !== false);
        // The run may have been deleted.
        if (!up) refresher.ask();
      },
    },
  });
  live.start();
  return live;
}

article.addEventListener("htmx:afterOnLoad", () => {
  follow();
  draw();
});
await draw();
follow();
