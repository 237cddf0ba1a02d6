// The head of a run's page: its phase, figures, errors and actions.
import * as downloads from "./downloads.js";
import { statuses } from "../common/constants.js";
import { copyOf, role, text } from "../common/dom.js";
import { isLive } from "../common/status.js";
import * as units from "../common/units.js";

/** `speed` is that of the latest trials, in trials a second; null if none is being measured. */
export function show(run, speed) {
  showProgress(run);
  text("estimate", run.words.unknown ? "unknown" : units.latency(run.estimated_latency_s));
  text("note-estimate", run.words.unknown);
  text("noise", run.words.noise);
  role("confirmed").hidden = run.confirmed_latency_s === null;
  text("confirmed-part", run.words.confirmed);
  role("confirmed-part").hidden = !run.words.confirmed;
  text("confirmed-latency", units.latency(run.confirmed_latency_s));
  role("charts").toggleAttribute("data-none", !isLive(run.status) && run.status !== "queued" && !run.trials_done);
  text("coverage", run.words.coverage);
  text("warm-start", run.words.warm_start);
  text("noisy", run.words.noisy);
  text("elapsed-of", run.elapsed_s === null ? "not recorded" : run.time_limit_s === null ? "of tuning" : `of at most ${units.duration(run.time_limit_s)}`);
  text("trials-done", units.count(run.trials_done));
  text("trials-budget", units.count(run.trials_budget));
  text("trials-failed", units.count(run.trials_failed));
  text("failed-share", `${units.percent(run.trials_done ? run.trials_failed / run.trials_done : null)} of trials`);
  text("speed", units.speed(speed ?? average(run)));
  text("speed-of", speed ? "latest trials" : "on average");
  showActions(run);
  showError(run);
  showAlerts(run);
}

/** Seconds of tuning. */
export function showElapsed(seconds) {
  text("elapsed", units.duration(seconds));
}

/** For how long the run will go on, some seconds after its forecast was told. */
export function showRemaining(run, passed_s) {
  const { remaining } = run;
  const gone = remaining ? Math.min(passed_s, remaining.round_s) : 0;
  const less = (seconds) => (seconds === null ? null : Math.max(0, seconds - gone));
  text("remaining", units.about(remaining && less(remaining.s)));
  text("remaining-of", remaining ? units.between([less(remaining.least_s), less(remaining.most_s)]) : run.words.remaining);
}

/** The text of the notification when the run has ended. */
export function outcome(run) {
  const of = run.trials_budget === null ? "" : ` of ${units.count(run.trials_budget)}`;
  const trials = `${units.count(run.trials_done)}${of} trials`;
  const estimate = run.estimated_latency_s === null ? run.words.coverage : `estimated latency ${units.latency(run.estimated_latency_s)}`;
  return [run.error?.trim().split("\n")[0], `${trials}, ${estimate}`].filter(Boolean).join("\n");
}

/** The last line of a log or traceback says most. */
export function showLastLines() {
  role("run-error-rest").scrollTop = role("run-error-rest").scrollHeight;
}

function showProgress(run) {
  role("status").dataset.status = run.status;
  text("status", run.status);
  const bar = role("progress");
  bar.max = run.trials_budget ?? Math.max(run.trials_done, 1);
  bar.value = run.trials_done;
  bar.dataset.status = run.status;
  text("phase", run.words.phase);
}

// --- figures

/** Average trials per second of the whole run; null while there are none. */
function average(run) {
  return run.trials_done && run.elapsed_s ? run.trials_done / run.elapsed_s : null;
}

// --- actions

function showActions(run) {
  downloads.enable({ best: run.tasks_measured > 0 && !run.synthetic, all: run.trials_done > 0 && !run.synthetic, trials: run.trials_done > 0 });
  showPriority(run);
  if (role("continue")) role("continue").hidden = isLive(run.status) || run.status === "queued" || !run.tasks_measured;
  if (role("stop")) offer("stop", statuses.stoppable.includes(run.status));
  if (!role("extend")) return;
  const ours = run.origin === "launched" && !run.synthetic;
  offer("extend", statuses.extendable.includes(run.status) && ours);
  role("resume-form").hidden = !(statuses.resumable.includes(run.status) && run.trials_done < run.trials_budget && ours);
}

function showPriority(run) {
  const form = role("priority");
  if (!form) return;
  form.hidden = run.status !== "queued";
  for (const button of form.querySelectorAll("[name=priority]")) button.setAttribute("aria-pressed", String(button.value === run.priority));
}

/** Shows or hides a button; its dialog closes when the action becomes impossible. */
function offer(name, isPossible) {
  role(name).hidden = !isPossible;
  if (!isPossible) role(`${name}-dialog`).close();
}

for (const name of ["stop", "extend"]) {
  role(name)?.addEventListener("click", () => role(`${name}-dialog`).showModal());
  role(`${name}-cancel`)?.addEventListener("click", () => role(`${name}-dialog`).close());
}

// The menu closes before a dialog opens, so that the focus returns to what can be seen.
role("more")?.addEventListener("click", ({ currentTarget, target }) => {
  if (!target.closest(".menu-panel .button")) return;
  currentTarget.open = false;
  currentTarget.querySelector("summary").focus();
}, { capture: true });

// --- errors

function showError(run) {
  const box = role("run-error");
  box.hidden = !run.error;
  box.dataset.status = run.status;
  if (!run.error) return;
  const [first, ...rest] = run.error.trim().split("\n");
  const whole = role("run-error-rest");
  text("run-error-line", first);
  whole.hidden = !rest.length;
  if (whole.textContent === rest.join("\n")) return;
  whole.textContent = rest.join("\n");
  showLastLines();
}

function showAlerts(run) {
  const list = role("alerts");
  const wanted = run.alerts.map((alert) => alert.message);
  if ([...list.children].map((item) => item.textContent.trim()).join("\n") === wanted.join("\n")) return;
  list.replaceChildren(...run.alerts.map((alert) => {
    const item = copyOf("alert-template");
    item.dataset.kind = alert.kind;
    item.querySelector("span").textContent = alert.message;
    return item;
  }));
}
