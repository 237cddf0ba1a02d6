// A network's page: choosing the tasks of a run, their share of the operations, and the dialog that deletes the network.
import "../site/htmx.js";
import { role } from "../common/dom.js";
import { watch } from "../launch/checking.js";
import * as units from "../common/units.js";

function boxes() {
  return [...document.querySelectorAll("[data-role=extracted] tbody input[type=checkbox]")];
}

function showChoice() {
  const form = role("choose-tasks");
  if (!form || !role("choice")) return;
  const all = boxes();
  const chosen = all.filter((box) => box.checked);
  const flop = chosen.reduce((sum, box) => sum + Number(box.closest("tr").dataset.flop), 0);
  const total = Number(form.dataset.total);
  const share = total ? units.percent(flop / total) : "–";
  role("choice").textContent = chosen.length === all.length ? `All ${all.length} tasks, all of the FLOP.` : `${chosen.length} of ${all.length} tasks, ${share} of the FLOP.`;
  // A run tunes all tasks by default.
  role("chosen").value = chosen.length === all.length ? "" : chosen.map((box) => box.value).join(", ");
  role("launch-chosen").disabled = chosen.length === 0;
  const every = role("all-tasks");
  every.checked = chosen.length === all.length;
  every.indeterminate = chosen.length > 0 && !every.checked;
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-role=all-tasks]")) for (const box of boxes()) box.checked = event.target.checked;
  if (event.target.closest("[data-role=extracted]")) showChoice();
});
// Browsers restore checkboxes when the user comes back to a page.
addEventListener("pageshow", showChoice);

const form = role("extract-form");
if (form) {
  const button = role("extract");
  watch(form, { target: form.elements.target, buttons: [button] });
  form.addEventListener("submit", (event) => {
    if (event.defaultPrevented) return;
    button.disabled = true;
    button.textContent = button.dataset.busy;
  });
}
role("delete")?.addEventListener("click", () => role("delete-dialog").showModal());
role("keep")?.addEventListener("click", () => role("delete-dialog").close());
