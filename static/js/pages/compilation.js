// The page of a compilation: a sentence and a progress bar that follow the job, and parts that are refreshed when its state changes.
import { Chart } from "../charts/chart.js";
import { LiveCompilation } from "../live/sockets.js";
import { follow } from "../live/console.js";
import { role, text } from "../common/dom.js";
import { isLive } from "../common/status.js";
import { report } from "../live/notifications.js";
import { Refresher } from "../site/refresh.js";
import { getJson } from "../common/json.js";

const article = role("compilation");
const doing = JSON.parse(document.getElementById("doing").textContent);

// --- progress

function showPhase(now) {
  const bar = role("progress");
  if (!bar || now.status !== "running") return;
  if (now.progress === null) bar.removeAttribute("value");
  else bar.value = now.progress;
  text("phase", doing[now.phase] ?? "starting");
}

// --- parts that change with its state

const refresher = new Refresher(article);
const keyOf = (now) => JSON.stringify([now.status, now.stage, now.error, now.sha256, now.waits_for, now.verified, now.benchmarks.map((one) => one.id)]);
let shown = null;

function showState(now) {
  role("status").dataset.status = now.status;
  text("status", now.status);
  const key = keyOf(now);
  if (key !== shown) refresher.ask();
  shown = key;
}

article.addEventListener("htmx:afterOnLoad", () => {
  if (now) showPhase(now);
  drawHistory();
});

// --- charts

let chart = null;

async function drawHistory() {
  if (document.querySelector("#history").hidden) return;
  const figures = await getJson(article.dataset.figures);
  if (!figures) return;
  chart ??= new Chart(role("chart-history"), role("empty-history"), { file: `tuneboard-compilation-${article.dataset.compilation}` });
  await chart.draw(figures.history);
  chart.explain("Not benchmarked yet.");
}
document.addEventListener("themechange", () => chart?.restyle());

// --- live

let now = null;
follow(`${article.dataset.api}/log`, () => now === null || isLive(now.status));

const live = new LiveCompilation({
  socket: article.dataset.socket,
  api: article.dataset.api,
  on: {
    compilation: (state) => {
      now = state;
      const speedup = state.speedup === null ? "" : `${state.speedup.toFixed(1)} times as fast as the untuned library`;
      report({ title: `Compilation ${state.id} of ${state.network}`, status: state.status, share: state.progress, outcome: state.error?.trim().split("\n")[0] ?? speedup });
      showPhase(state);
      showState(state);
    },
    connection: (up) => { role("connection").hidden = up; },
  },
});
await drawHistory();
live.start();
