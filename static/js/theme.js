// Loaded before the first paint, so that a chosen theme never flashes up late. Without a choice the system's counts.
"use strict";
(() => {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const store = (theme) => { try { localStorage.setItem("theme", theme); } catch { /* private mode: for this page only */ } };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const tell = () => document.dispatchEvent(new CustomEvent("themechange"));

  if (stored()) root.dataset.theme = stored();
  system.addEventListener("change", tell);
  addEventListener("storage", (event) => {
    if (event.key !== "theme") return;
    if (event.newValue) root.dataset.theme = event.newValue; else delete root.dataset.theme;
    tell();
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
    if (!event.target.closest("[data-role=theme]")) return;
    const dark = (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
    root.dataset.theme = dark ? "light" : "dark";
    store(root.dataset.theme);
    tell();
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector(".menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
})();
