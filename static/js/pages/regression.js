// The page of a regression check: its parts and its chart are refreshed once its newest result has changed, or an older one has ended.
import { Chart } from "../charts/chart.js";
import { role } from "../common/dom.js";
import { Refresher } from "../site/refresh.js";
import { getJson } from "../common/json.js";

const EVERY_MS = 3000;
const article = role("regression-check");
const chart = new Chart(role("chart-history"), role("empty-history"), { file: `tuneboard-regression-check-${article.dataset.check}` });
const refresher = new Refresher(article);
let seen = article.dataset.newest;

async function draw() {
  const figures = await getJson(article.dataset.figures);
  if (!figures) return;
  await chart.draw(figures.history);
  chart.explain("Not measured yet.");
}

async function look() {
  if (document.hidden) return;
  const { api } = article.dataset;
  const responses = await Promise.all([fetch(api), fetch(`${api}/results?limit=1`)]).catch(() => []);
  // Signed out, or deleted: the server explains.
  if (responses.some(({ status }) => status === 401 || status === 404)) refresher.ask();
  if (!responses.length || !responses.every(({ ok }) => ok)) return;
  const [{ latest }, { items: [newest] }] = await Promise.all(responses.map((response) => response.json()));
  const now = `${latest?.id ?? ""} ${newest ? `${newest.id} ${newest.stage} ${newest.verdict ?? ""}` : ""}`;
  if (now === seen) return;
  seen = now;
  refresher.ask();
  await draw();
}

document.addEventListener("themechange", () => chart.restyle());
await draw();
setInterval(look, EVERY_MS);
