// The module of every page.
import "./copy.js";
import "./more.js";
import "./shortcuts.js";
import "./tab.js";
import "./times.js";

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-opens]");
  if (button) document.querySelector(`[data-role=${button.dataset.opens}]`).showModal();
});
