// The Operators page: leaves the operators whose names have what is typed. The list may come later, by htmx.
import "../site/htmx.js";
import { role } from "../common/dom.js";

function filter(wanted) {
  const counts = [...document.querySelectorAll("[data-kind]")].map((section) => {
    const items = [...section.querySelectorAll("[data-operator]")];
    for (const item of items) item.hidden = !item.dataset.operator.toLowerCase().includes(wanted);
    for (const group of section.querySelectorAll("[data-group]")) group.hidden = !group.querySelector("[data-operator]:not([hidden])");
    const left = items.filter((item) => !item.hidden).length;
    section.querySelector("[data-role=none]").hidden = left > 0;
    return `${left} of ${section.dataset.kind}`;
  });
  role("operator-count").textContent = counts.join(", ");
}

document.addEventListener("input", ({ target }) => {
  if (target.closest("[data-role=operator-filter]")) filter(target.value.trim().toLowerCase());
});
document.addEventListener("submit", (event) => {
  if (event.target.closest("[data-role=operator-filter]")) event.preventDefault();
});
