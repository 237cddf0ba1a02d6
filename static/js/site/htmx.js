// What every page with htmx needs besides htmx.

// A failure changes nothing on the page.
document.addEventListener("htmx:beforeSwap", (event) => { if (event.detail.xhr.status !== 200) event.detail.shouldSwap = false; });
// Signed out meanwhile: the answer is the sign-in page, which belongs to the whole window.
document.addEventListener("htmx:beforeOnLoad", (event) => {
  if (!event.detail.xhr.responseURL.includes("/sign-in/")) return;
  event.preventDefault();
  location.reload();
});
