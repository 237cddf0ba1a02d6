// Announces to screen readers what sighted users see.
const region = document.querySelector("[data-role=announcement]");

export function announce(text) {
  // Emptied first, so that a repeated text is announced again.
  region.textContent = "";
  requestAnimationFrame(() => { region.textContent = text; });
}
