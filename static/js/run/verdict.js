// What is left to gain: a panel of its own, which is asked for once the charts are drawn and again while the run goes on.
import { role } from "../common/dom.js";
import { Refresher } from "../site/refresh.js";
import * as roofline from "./roofline.js";
import { showGains } from "./tasks.js";

const EVERY_MS = 5000;
const panel = role("verdict");
const refresher = new Refresher(panel, EVERY_MS, () => panel.getAttribute("hx-get"));
let shown = "";

panel.addEventListener("htmx:afterSwap", () => {
  const gains = [...role("gains", panel).content.children];
  showGains(gains);
  roofline.offer(gains.some((gain) => gain.querySelector("[data-cell=roof]")));
});

// The dialog for extending, with the number filled in.
panel.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-role=extend-by]");
  if (!button) return;
  role("extend-dialog").querySelector("[name=trials]").value = button.dataset.trials;
  role("extend").click();
});

/** Asks for it if the run has changed since. */
export function follow(run) {
  const key = `${run.status} ${run.tasks_total} ${run.trials_done} ${run.trials_budget}`;
  if (key === shown) return;
  shown = key;
  refresher.ask();
}
