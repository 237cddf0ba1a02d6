// The metrics page: htmx refreshes the tables, this module the charts.
import { Chart } from "../charts/chart.js";
import { role } from "../common/dom.js";
import "../site/htmx.js";
import { getJson } from "../common/json.js";

const EVERY_MS = 15_000;
const EMPTY = {
  trials: "No trial was measured in the last 24 hours.",
  failed: "No trial failed in the last 24 hours.",
  use: "No device tuned in the last 24 hours.",
  runs: "There are no runs yet.",
};
const section = role("metrics-charts");
const charts = Object.keys(EMPTY).map((name) => {
  const plot = role(`chart-${name}`);
  plot.dataset.about = location.host;
  return [name, new Chart(plot, role(`empty-${name}`), { file: `tuneboard-${name}` })];
});

async function draw() {
  if (document.hidden) return;
  const figures = await getJson(section.dataset.figures);
  if (!figures) return;
  for (const [name, chart] of charts) {
    await chart.draw(figures[name]);
    chart.explain(EMPTY[name]);
  }
}

document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden) event.preventDefault();
});
document.addEventListener("themechange", () => charts.forEach(([, chart]) => chart.restyle()));
setInterval(draw, EVERY_MS);
draw();
