// The list of runs: htmx asks for it again while something is going on, and this keeps that unnoticeable.
import "./htmx.js";

let shown = null;

// Nobody looks, or a menu of the row is in use: the next poll will do.
document.addEventListener("htmx:beforeRequest", (event) => {
  const isPoll = event.detail.elt.id === "runs";
  if (isPoll && (document.hidden || String(getSelection()))) event.preventDefault();
});
// The same answer again: leave the page as it is.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target.id !== "runs" || event.detail.xhr.status !== 200) return;
  if (event.detail.serverResponse === shown) event.detail.shouldSwap = false;
  shown = event.detail.serverResponse;
});

// Runs to compare: ticked ones stay so when the list is replaced, filtered or paged.
const FEWEST = 2;
const MOST = 8;
const chosen = new Set();
const form = document.querySelector("[data-role=compare-form]");
const button = form?.querySelector("button");

function showChosen() {
  for (const box of document.querySelectorAll("#runs input[name=runs]")) box.checked = chosen.has(box.value);
  button.textContent = chosen.size ? `Compare ${chosen.size}` : "Compare";
  button.disabled = chosen.size < FEWEST || chosen.size > MOST;
}

if (form) {
  for (const box of document.querySelectorAll("#runs input[name=runs]:checked")) chosen.add(box.value);
  document.addEventListener("change", ({ target }) => {
    if (!target.matches("#runs input[name=runs]")) return;
    if (target.checked) chosen.add(target.value); else chosen.delete(target.value);
    showChosen();
  });
  document.addEventListener("htmx:afterSwap", showChosen);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.assign(`${form.action}?runs=${[...chosen].sort((a, b) => a - b).join(",")}`);
  });
  showChosen();
}
