// The errors of a run's trials, grouped by text. Fetched again when more trials have failed.
import { errorKinds } from "../common/constants.js";
import { cell, copyOf, put, role, text } from "../common/dom.js";
import * as units from "../common/units.js";
import { getJson } from "../common/json.js";

const AGAIN_MS = 1500;
const list = role("errors-list");
const keyOf = (kind, error) => `${kind}\n${error}`;
const items = new Map([...list.querySelectorAll("details")].map((item) => [keyOf(cell(item, "kind").textContent, cell(item, "text").textContent), item.parentElement]));
let wanted = null;
let shown = null;
let timer = null;

/** Shows the errors of `failed` trials in total. */
export function refresh(failed) {
  wanted = failed;
  if (wanted === shown || timer !== null) return;
  timer = setTimeout(async () => {
    timer = null;
    const asked = wanted;
    const errors = await getJson(`${role("run").dataset.api}/errors`);
    if (!errors) return;
    show(errors.items);
    shown = asked;
    refresh(wanted);
  }, shown === null ? 0 : AGAIN_MS);
}

function show(errors) {
  const now = errors.map(fill);
  // Unchanged items stay in place, and stay open.
  if (now.some((item, place) => list.children[place] !== item)) list.replaceChildren(...now);
  role("errors-empty").hidden = now.length > 0;
  text("errors-count", String(now.length));
}

function fill({ kind: name, text: error, count, first_trial: first, last_trial: last, tasks }) {
  const kind = errorKinds[name] ?? name;
  const key = keyOf(kind, error);
  if (!items.has(key)) items.set(key, copyOf("error-template"));
  const item = items.get(key);
  put(item, "count", `${units.count(count)}×`);
  put(item, "kind", kind);
  put(item, "line", error.trim().split("\n").at(-1));
  put(item, "where", `trials ${first} to ${last} · ${tasks.length === 1 ? "task" : "tasks"} ${tasks.join(", ")}`);
  put(item, "text", error);
  return item;
}
