// The roofline chart, drawn once somebody opens it, and again when the verdict changes.
import { Chart } from "../charts/chart.js";
import { role } from "../common/dom.js";

const article = role("run");
const details = role("roofline");
let chart = null;

async function draw() {
  if (!details.open || details.hidden) return;
  if (!chart) {
    chart = new Chart(role("chart-roofline"), role("empty-roofline"), { file: `${article.dataset.file}_roofline`, legend: false });
    chart.element.dataset.about = `run ${article.dataset.run} · ${article.dataset.name}`;
  }
  const response = await fetch(details.dataset.from).catch(() => null);
  if (!response?.ok) return;
  const { figure } = await response.json();
  if (figure) await chart.draw(figure);
  chart.explain("No task with operations has a latency.");
}

/** Offers the chart if the machine's roofline `isKnown`. */
export function offer(isKnown) {
  details.hidden = !isKnown;
  draw();
}

details.addEventListener("toggle", draw);
document.addEventListener("themechange", () => chart?.restyle());
