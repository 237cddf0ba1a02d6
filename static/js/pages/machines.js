// The Machines page: htmx refreshes the tables, this module the charts of trackers, and it asks before something ends.
import { Chart } from "../charts/chart.js";
import { role } from "../common/dom.js";
import "../site/htmx.js";
import { getJson } from "../common/json.js";

const EVERY_MS = 15_000;
const charts = new Map([...document.querySelectorAll("[data-role=tracker-history]")].map((section) => {
  const { tracker } = section.dataset;
  const [plot, empty] = [`chart-${tracker}`, `empty-${tracker}`].map((role) => section.querySelector(`[data-role="${role}"]`));
  plot.dataset.about = `tracker ${tracker}`;
  return [tracker, new Chart(plot, empty, { file: `tuneboard-tracker-${tracker}` })];
}));

async function draw() {
  if (document.hidden) return;
  const section = document.querySelector("[data-role=tracker-history]");
  const figures = await getJson(section.dataset.figures) ?? {};
  for (const [tracker, figure] of Object.entries(figures)) {
    const chart = charts.get(tracker);
    await chart?.draw(figure);
    chart?.explain("Nothing recorded: no device was registered in the last hour, or the tracker wasn’t polled.");
  }
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-asks]");
  if (!button) return;
  const { asks, name, action } = button.dataset;
  role(`${asks}-name`).textContent = name;
  const form = role(`${asks}-form`);
  form.action = action;
  form.elements.here.value = location.search.slice(1);
  role(`${asks}-dialog`).showModal();
});

document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden) event.preventDefault();
});
document.addEventListener("themechange", () => charts.forEach((chart) => chart.restyle()));

if (charts.size) {
  setInterval(draw, EVERY_MS);
  draw();
}
