// Tells screen readers what others see.
const place = document.querySelector("[data-role=said]");

export function say(text) {
  // The same words again are an announcement of their own.
  place.textContent = "";
  requestAnimationFrame(() => { place.textContent = text; });
}
