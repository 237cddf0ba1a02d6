// The list of runs, which htmx polls: keeps selections and focus while the list is replaced.
import "../site/htmx.js";
import { role } from "../common/dom.js";

let shown = null;

// No polls while text is selected. A hidden tab polls rarely, for the number of running runs in its title.
const HIDDEN_MS = 30_000;
let asked = 0;
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.elt.id !== "runs") return;
  if (String(getSelection()) || (document.hidden && Date.now() - asked < HIDDEN_MS)) event.preventDefault();
  else asked = Date.now();
});
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target.id !== "runs") return;
  // Invalid filters are answered with a list that says what is wrong.
  if (event.detail.xhr.status === 422) event.detail.shouldSwap = true;
  else if (event.detail.xhr.status !== 200) return;
  // Nothing has changed.
  if (event.detail.serverResponse === shown) event.detail.shouldSwap = false;
  shown = event.detail.serverResponse;
});

// Fields left empty don't go into the address.
document.addEventListener("htmx:configRequest", ({ detail: { elt, parameters } }) => {
  if (elt.id !== "filters") return;
  for (const name of new Set(parameters.keys())) parameters[name] = parameters.getAll(name).filter(Boolean);
});
const toggle = document.querySelector("[data-role=filters-toggle]");
toggle?.addEventListener("click", () => {
  const open = toggle.form.toggleAttribute("data-open");
  toggle.setAttribute("aria-expanded", open);
});

// Runs stay selected when the list is replaced, filtered or paged.
const chosen = new Set();
const compare = document.querySelector("[data-role=compare-form]");
const bulk = document.querySelector("[data-role=bulk]");
const [fewest, most] = compare ? [Number(compare.dataset.fewest), Number(compare.dataset.most)] : [];
// Actions after which the runs are still listed, and stay selected.
const STAYING = ["tag", "untag", "pin", "unpin"];
const boxes = () => [...document.querySelectorAll("#runs input[name=runs]")];
const runs = (number) => `${number} ${number === 1 ? "run" : "runs"}`;

function choose(box, wanted) {
  box.checked = wanted;
  if (wanted) chosen.add(box.value); else chosen.delete(box.value);
}

function showChosen() {
  const here = boxes();
  for (const box of here) box.checked = chosen.has(box.value);
  const ticked = here.filter((box) => box.checked).length;
  const all = role("select-all");
  if (all) [all.checked, all.indeterminate] = [ticked > 0 && ticked === here.length, ticked > 0 && ticked < here.length];
  const button = role("compare");
  button.textContent = chosen.size ? `Compare ${chosen.size}` : "Compare";
  for (const one of [button, role("bulk-compare")]) one.disabled = chosen.size < fewest || chosen.size > most;
  const elsewhere = chosen.size - ticked;
  bulk.hidden = chosen.size === 0;
  bulk.dataset.show = document.querySelector("#runs").dataset.show;
  role("chosen-count").textContent = `${runs(chosen.size)} selected`;
  role("chosen-says").textContent = [
    ...(elsewhere ? [`${elsewhere} of them not on this page.`] : []),
    ...(chosen.size && button.disabled ? [`Compare takes ${fewest} to ${most}.`] : []),
  ].join(" ");
}

if (compare) {
  for (const box of boxes()) if (box.checked) chosen.add(box.value);
  document.addEventListener("change", ({ target }) => {
    if (target.matches("#runs input[name=runs]")) choose(target, target.checked);
    else if (target.matches("[data-role=select-all]")) for (const box of boxes()) choose(box, target.checked);
    else return;
    showChosen();
  });
  document.addEventListener("htmx:afterSwap", showChosen);
  role("choose-none").addEventListener("click", () => {
    chosen.clear();
    showChosen();
    boxes()[0]?.focus();
  });
  compare.addEventListener("submit", (event) => {
    event.preventDefault();
    location.assign(`${compare.action}?runs=${[...chosen].sort((a, b) => a - b).join(",")}`);
  });
  showChosen();
}

// Bulk actions on the selected runs of all pages.
document.addEventListener("htmx:configRequest", ({ detail: { elt, parameters } }) => {
  if (elt !== bulk) return;
  parameters.runs = [...chosen].join(",");
  parameters.here = location.search;
});
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (detail.elt !== bulk || !detail.successful) return;
  const asked = detail.requestConfig.parameters;
  // Outdated: the messages of this action are shown above the list.
  for (const old of document.querySelectorAll("main > [data-role=message]")) old.remove();
  if (asked.undo || !STAYING.includes(asked.action)) chosen.clear();
  // Tags that were refused can be corrected.
  if (!role("told").querySelector(".note-error")) bulk.elements.tags.value = "";
  showChosen();
  if (bulk.hidden) (role("undo") ?? boxes()[0])?.focus();
});
role("bulk-stop")?.addEventListener("click", () => {
  role("bulk-stop-count").textContent = runs(chosen.size);
  role("bulk-stop-dialog").showModal();
});
role("bulk-stop-cancel")?.addEventListener("click", () => role("bulk-stop-dialog").close());
role("bulk-stop-confirm")?.addEventListener("click", () => role("bulk-stop-dialog").close());
