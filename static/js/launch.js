// Says that something is going on while the target is checked, and prevents a second launch by a second click.
const form = document.querySelector("[data-role=launch-form]");
const button = form.querySelector("[data-role=launch-submit]");
const label = button.textContent;

form.addEventListener("submit", () => {
  button.disabled = true;
  button.textContent = button.dataset.busy;
});
// A page that comes back from the browser's cache is ready for another launch.
addEventListener("pageshow", () => {
  button.disabled = false;
  button.textContent = label;
});
const wrong = form.querySelector("[aria-invalid=true]");
wrong?.focus();
