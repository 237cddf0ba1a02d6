// The head of a run's page: what it does now, its figures, what went wrong and what can be done about it.
import * as downloads from "./downloads.js";
import { copyOf, role, text } from "../common/dom.js";
import * as units from "../common/units.js";

const DOING = {
  loading: "loading TVM and the network", extracting: "extracting tasks", design_spaces: "generating design spaces",
  searching: "searching candidates", building: "building candidates", measuring: "measuring candidates",
};

/** `speed` in trials a second is that of the latest ones; null when none is measured now. */
export function show(run, speed) {
  showProgress(run);
  text("estimate", units.latency(run.estimated_latency_s));
  text("coverage", coverage(run));
  text("warm-start", warmStart(run));
  text("elapsed-of", run.time_limit_s === null ? "of tuning" : `of at most ${units.duration(run.time_limit_s)}`);
  text("trials-done", units.count(run.trials_done));
  text("trials-budget", units.count(run.trials_budget));
  text("trials-failed", units.count(run.trials_failed));
  text("failed-share", `${units.percent(run.trials_done ? run.trials_failed / run.trials_done : null)} of trials`);
  text("speed", units.speed(speed ?? average(run)));
  text("speed-of", speed ? "latest trials" : "on average");
  text("remaining", units.duration(speed ? remaining(run, speed) : null));
  text("remaining-of", run.finished_at ? "the run has ended" : "at this speed");
  showActions(run);
  showError(run);
  showAlerts(run);
}

/** Of tuning, in seconds. */
export function showElapsed(seconds) {
  text("elapsed", units.duration(seconds));
}

/** What a notification says of its end. */
export function outcome(run) {
  const trials = `${units.count(run.trials_done)} of ${units.count(run.trials_budget)} trials`;
  const estimate = run.estimated_latency_s === null ? coverage(run) : `estimated latency ${units.latency(run.estimated_latency_s)}`;
  return [run.error?.trim().split("\n")[0], `${trials}, ${estimate}`].filter(Boolean).join("\n");
}

/** Of a log as of a traceback the last line says most. */
export function showLastLines() {
  role("run-error-rest").scrollTop = role("run-error-rest").scrollHeight;
}

// --- in words, as dashboard.presentation.phases has them

function showProgress(run) {
  role("status").dataset.status = run.status;
  text("status", run.status);
  const bar = role("progress");
  bar.max = run.trials_budget;
  bar.value = run.trials_done;
  bar.dataset.status = run.status;
  text("phase", phase(run));
}

function phase(run) {
  if (run.status === "queued") return run.place ? `queued: ${run.place} ${run.place === 1 ? "run" : "runs"} ahead on this device` : "queued: next on this device";
  if (run.status === "stopping") return "stopping after the trial being measured";
  if (run.status === "finished") return ended(run);
  if (run.status !== "running") return "";
  const doing = DOING[run.phase] ?? run.phase ?? "starting";
  return run.phase_task === null ? doing : `${doing} of task ${run.phase_task}`;
}

function ended(run) {
  switch (run.finish_reason) {
    case "budget": return "ended: the budget is spent";
    case "time_limit": return `ended at its time limit of ${units.duration(run.time_limit_s)}`;
    case "plateau": return `ended early: no task gained ${run.options.plateau_percent} % any more in ${run.options.plateau_trials} trials`;
    case "exhausted": return "ended early: nothing was left to try";
    default: return "";
  }
}

function coverage({ tasks_measured: measured, tasks_chosen: chosen, tasks_total: total }) {
  if (!total) return "tasks not extracted yet";
  if (chosen === total) return `${measured} of ${total} tasks measured`;
  return `estimate of the chosen ${chosen} of ${total} tasks${measured === chosen ? "" : `, ${measured} measured`}`;
}

function warmStart(run) {
  if (!run.warm_start) return "";
  const others = run.warm_start.runs.slice(0, -1);
  const last = run.warm_start.runs.at(-1);
  return `${run.warm_start.tasks.length} of ${run.tasks_chosen} tasks start from records of ${others.length ? `runs ${others.join(", ")} and` : "run"} ${last}`;
}

// --- figures

/** Trials a second over all of the run; null while there are none. */
function average(run) {
  return run.trials_done && run.elapsed_s ? run.trials_done / run.elapsed_s : null;
}

function remaining(run, speed) {
  const spent = (run.trials_budget - run.trials_done) / speed;
  return run.time_limit_s === null ? spent : Math.max(0, Math.min(spent, run.time_limit_s - run.elapsed_s));
}

// --- what can be done

function showActions(run) {
  downloads.enable({ best: run.tasks_measured > 0 && !run.synthetic, all: run.trials_done > 0 && !run.synthetic, trials: run.trials_done > 0 });
  if (!role("stop")) return;
  offer("stop", ["queued", "running"].includes(run.status));
  offer("extend", run.status !== "stopping" && !run.synthetic);
  role("resume-form").hidden = !(["stopped", "failed", "interrupted"].includes(run.status) && run.trials_done < run.trials_budget);
}

/** A button with a dialog, which closes when there is nothing to be asked any more. */
function offer(name, isPossible) {
  role(name).hidden = !isPossible;
  if (!isPossible) role(`${name}-dialog`).close();
}

for (const name of ["stop", "extend"]) {
  role(name)?.addEventListener("click", () => role(`${name}-dialog`).showModal());
  role(`${name}-cancel`)?.addEventListener("click", () => role(`${name}-dialog`).close());
}

// --- what went wrong

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
