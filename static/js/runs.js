// The list of runs: htmx asks for it again while something is going on, and this keeps that unnoticeable.
let shown = null;

// Nobody looks, or a menu of the row is in use: the next poll will do.
document.addEventListener("htmx:beforeRequest", (event) => {
  const isPoll = event.detail.elt.id === "runs";
  if (isPoll && (document.hidden || String(getSelection()))) event.preventDefault();
});
// The same answer again: leave the page as it is.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (event.detail.target.id !== "runs") return;
  if (event.detail.xhr.status !== 200) event.detail.shouldSwap = false;
  else if (event.detail.serverResponse === shown) event.detail.shouldSwap = false;
  shown = event.detail.serverResponse;
});
// Signed out meanwhile: the answer is the sign-in page, which belongs to the whole window.
document.addEventListener("htmx:beforeOnLoad", (event) => {
  if (!event.detail.xhr.responseURL.includes("/sign-in/")) return;
  event.preventDefault();
  location.reload();
});
