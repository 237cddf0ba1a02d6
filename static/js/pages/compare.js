// Runs side by side. The page is asked for again, whole, when its view changes or a run that goes on has something new.
import { Chart } from "../charts/chart.js";
import { LiveRun } from "../live/sockets.js";
import { pageOf, role } from "../common/dom.js";
import { goesOn } from "../common/status.js";

const EVERY_MS = 1000;
const article = role("comparison");

// --- charts

const charts = {};
for (const name of ["estimate", "tasks", "allocation", "speed"]) {
  charts[name] = new Chart(role(`chart-${name}`), role(`empty-${name}`), { file: `runs_${article.dataset.runs}_${name}`, legend: name === "estimate" });
  role(`chart-${name}`).dataset.about = `runs ${article.dataset.runs.replaceAll("_", ", ")}`;
}

const drawn = {};

async function draw(page) {
  const figures = JSON.parse(page.getElementById("figures").textContent);
  const byTime = new URLSearchParams(location.search).get("x") === "time";
  for (const [name, chart] of Object.entries(charts)) {
    const axis = byTime && ["estimate", "speed"].includes(name) ? "time" : "number";
    const told = JSON.stringify([axis, figures[name], figures.empty[name]]);
    if (drawn[name] === told) continue;
    drawn[name] = told;
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

// --- the page anew

let refreshing = null;
let again = false;

/** Without overlapping; what comes meanwhile is in the next one. */
function refresh() {
  again = true;
  refreshing ??= (async () => {
    while (again && !document.hidden) {
      again = false;
      const started = performance.now();
      await read().catch((error) => console.error(error));
      // Large comparisons take long to make: neither server nor page shall do nothing else.
      await new Promise((done) => setTimeout(done, Math.max(EVERY_MS, 3 * (performance.now() - started))));
    }
    refreshing = null;
  })();
  return refreshing;
}
document.addEventListener("visibilitychange", () => { if (!document.hidden && again) refresh(); });

async function read() {
  const asked = location.href;
  const response = await fetch(asked);
  // Signed out, or a run was deleted: the server says what can be done.
  if (response.redirected || (response.status >= 400 && response.status < 500)) return location.reload();
  if (!response.ok) throw new Error(`${response.status} for the comparison`);
  const page = await pageOf(response);
  if (asked !== location.href) return null;
  const focused = document.activeElement?.id;
  for (const part of page.querySelectorAll("[data-part]")) {
    const before = document.querySelector(`[data-part=${part.dataset.part}]`);
    if (before.outerHTML !== part.outerHTML) before.replaceWith(part);
  }
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus();
  follow();
  return draw(page);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-view]");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  read().catch(() => location.reload());
});
addEventListener("popstate", () => read().catch(() => location.reload()));

// --- live

const followed = new Map();

function follow() {
  for (const row of role("compared-runs").tBodies[0].rows) {
    if (goesOn(row.dataset.status) && !followed.has(row.dataset.run)) followed.set(row.dataset.run, start(row));
  }
}

/** Its deltas only say that there is something new. */
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
        if (is !== seen) refresh();
        seen = is;
      },
      reload: async () => (await live.get("")).trials_done,
      connection: (up) => {
        live.up = up;
        role("connection").hidden = [...followed.values()].every((one) => one.up !== false);
        // Its run may have been deleted.
        if (!up) refresh();
      },
    },
  });
  live.start();
  return live;
}

await draw(document);
follow();
