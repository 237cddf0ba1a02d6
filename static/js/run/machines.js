// The machines of a run's pool.
import { copyOf, put, role, text } from "../common/dom.js";
import * as units from "../common/units.js";

/** Shows the run's machines; other runs have no such part. */
export function show(machines) {
  const list = role("machines-list");
  if (!list) return;
  role("machines-empty").hidden = machines.length > 0;
  text("machines-counted", counted(machines));
  const total = machines.reduce((sum, machine) => sum + machine.trials, 0);
  machines.forEach((machine, place) => fill(list.children[place] ?? added(list), machine, total));
  while (list.children.length > machines.length) list.lastElementChild.remove();
}

const words = (state) => state.replace("_", " ");

/** How many are in each state. */
function counted(machines) {
  const states = new Map();
  for (const { state } of machines) states.set(state, (states.get(state) ?? 0) + 1);
  return [...states].map(([state, count]) => `${count} ${words(state)}`).join(", ");
}

function added(list) {
  list.append(copyOf("machine-template"));
  return list.lastElementChild;
}

function fill(row, machine, total) {
  row.dataset.machine = machine.machine;
  row.dataset.state = machine.state;
  put(row, "machine", machine.machine);
  put(row, "state", words(machine.state));
  put(row, "reason", machine.reason);
  put(row, "trials", units.count(machine.trials));
  put(row, "share", units.percent(total ? machine.trials / total : null));
  put(row, "failed", units.count(machine.failed));
  put(row, "differs", signed(machine.differs));
}

function signed(share) {
  const text = units.percent(share === null ? null : Math.abs(share));
  // Zero after rounding has no sign, as on the server.
  return /[1-9]/u.test(text) ? `${share < 0 ? "−" : "+"}${text}` : text;
}
