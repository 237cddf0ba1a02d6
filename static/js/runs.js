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
