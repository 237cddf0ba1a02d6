// Applies the user's theme and time format. Loaded before the first paint, so that the page doesn't flash in another theme.
"use strict";
(() => {
  const root = document.documentElement;
  // The first of each is the default.
  const CHOICES = { theme: ["system", "light", "dark"], times: ["relative", "absolute"] };
  const stored = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
  const store = (name, value) => { try { localStorage.setItem(name, value); } catch { /* private mode: for this page only */ } };
  const notify = (name) => document.dispatchEvent(new CustomEvent(`${name}change`));
  const current = (name) => root.dataset[name] ?? CHOICES[name][0];

  function apply(name, value) {
    if (CHOICES[name].indexOf(value) > 0) root.dataset[name] = value; else delete root.dataset[name];
    showChosen();
  }

  function showChosen() {
    for (const button of document.querySelectorAll("[data-choice]")) {
      button.setAttribute("aria-pressed", String(current(button.dataset.choice) === button.value));
    }
  }

  // Columns of the list of runs that the user has hidden, by name.
  const hidden = () => (root.dataset.hidden ?? "").split(" ").filter(Boolean);

  function hide(names) {
    if (names.length) root.dataset.hidden = names.join(" "); else delete root.dataset.hidden;
    for (const box of document.querySelectorAll("[data-shows-column]")) box.checked = !names.includes(box.dataset.showsColumn);
  }

  hide((stored("hidden") ?? "").split(" ").filter(Boolean));
  document.addEventListener("DOMContentLoaded", () => hide(hidden()));
  document.addEventListener("change", ({ target }) => {
    const name = target.dataset.showsColumn;
    if (!name) return;
    hide([...hidden().filter((one) => one !== name), ...(target.checked ? [] : [name])]);
    store("hidden", hidden().join(" "));
  });

  for (const name of Object.keys(CHOICES)) apply(name, stored(name));
  document.addEventListener("DOMContentLoaded", showChosen);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => notify("theme"));
  addEventListener("storage", ({ key, newValue }) => {
    if (key === "hidden") hide((newValue ?? "").split(" ").filter(Boolean));
    if (!(key in CHOICES)) return;
    apply(key, newValue);
    notify(key);
  });

  document.addEventListener("click", ({ target }) => {
    for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(target)) menu.open = false;
    const button = target.closest("[data-choice]");
    if (!button) return;
    store(button.dataset.choice, button.value);
    apply(button.dataset.choice, button.value);
    notify(button.dataset.choice);
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector(".menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
})();
