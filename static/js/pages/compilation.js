// The page of a compilation: a line and a bar that follow the job, and its parts read anew when something has changed.
import { Chart } from "../charts/chart.js";
import { LiveCompilation } from "../live/sockets.js";
import { follow } from "../live/console.js";
import { pageOf, role, text } from "../common/dom.js";
import { isLive } from "../common/status.js";
import { heard } from "../live/notifications.js";

const article = role("compilation");
const doing = JSON.parse(document.getElementById("doing").textContent);

// --- what changes all the time

function showPhase(now) {
  const bar = role("progress");
  if (!bar || now.status !== "running") return;
  if (now.progress === null) bar.removeAttribute("value");
  else bar.value = now.progress;
  text("phase", doing[now.phase] ?? "starting");
}

// --- what changes now and then

const keyOf = (now) => JSON.stringify([now.status, now.stage, now.error, now.sha256, now.waits_for, now.verified, now.benchmarks.map((one) => one.id)]);
let shown = null;

async function showAll(now) {
  const key = keyOf(now);
  if (key === shown) return;
  const response = await fetch(location.pathname);
  if (!response.ok) throw new Error(`${response.status} for the page`);
  const page = await pageOf(response);
  for (const part of page.querySelectorAll("[data-part]")) replace(part);
  Object.assign(role("status").dataset, { status: now.status });
  role("status").textContent = now.status;
  shown = key;
  await drawHistory();
}

/** The part as it is now, in place of the one that is shown; what keeps a state of its own moves over. */
function replace(part) {
  const before = document.querySelector(`[data-part=${part.dataset.part}]`);
  if (before.outerHTML === part.outerHTML) return;
  for (const kept of before.querySelectorAll("[data-keep]")) role(kept.dataset.role, part)?.replaceWith(kept);
  before.replaceWith(part);
}

// --- charts

let chart = null;

async function drawHistory() {
  if (document.querySelector("[data-part=history]").hidden) return;
  const response = await fetch(article.dataset.figures);
  if (!response.ok) return;
  chart ??= new Chart(role("chart-history"), role("empty-history"), { file: `tuneboard-compilation-${article.dataset.compilation}` });
  await chart.draw((await response.json()).history);
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
    compilation: async (state) => {
      now = state;
      const speedup = state.speedup === null ? "" : `${state.speedup.toFixed(1)} times as fast as the untuned library`;
      heard({ title: `Compilation ${state.id} of ${state.network}`, status: state.status, share: state.progress, outcome: state.error?.trim().split("\n")[0] ?? speedup });
      showPhase(state);
      await showAll(state);
      showPhase(state);
    },
    connection: (up) => { role("connection").hidden = up; },
  },
});
await drawHistory();
live.start();
