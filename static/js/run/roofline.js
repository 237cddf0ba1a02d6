// The roofline chart, drawn once somebody opens it, and again when the verdict changes.
import { Chart } from "../charts/chart.js";
import { role } from "../common/dom.js";
import { getJson } from "../common/json.js";

const article = role("run");
const details = role("roofline");
let chart = null;

async function draw() {
  if (!details.open || details.hidden) return;
  if (!chart) {
    chart = new Chart(role("chart-roofline"), role("empty-roofline"), { file: `${article.dataset.file}_roofline`, legend: false });
    chart.element.dataset.about = `run ${article.dataset.run} · ${article.dataset.name}`;
  }
  const answer = await getJson(details.dataset.from);
  if (!answer) return;
  const { figure } = answer;
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
