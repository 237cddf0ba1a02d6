// What every page with htmx needs besides htmx itself.
import { reload } from "./ended.js";

// Errors leave the page as it is.
document.addEventListener("htmx:beforeSwap", ({ detail }) => { if (detail.xhr.status !== 200) detail.shouldSwap = false; });

// The session has ended: the answer is the sign-in page, which needs the whole window.
document.addEventListener("htmx:beforeOnLoad", (event) => {
  if (!event.detail.xhr.responseURL.includes("/sign-in/")) return;
  event.preventDefault();
  reload();
});

// A link that fails in place is followed like any other link: the browser or the server then says what is wrong. A form is loaded again from the server.
for (const failure of ["htmx:sendError", "htmx:responseError"]) {
  document.addEventListener(failure, ({ type, detail: { boosted, xhr, pathInfo, requestConfig } }) => {
    if (boosted && xhr.status !== 422) location.assign(pathInfo.finalRequestPath);
    else if (requestConfig.verb === "post" && type === "htmx:responseError") reload();
  });
}

// A part that hasn't changed stays, and with it the text selected in it; so does one whose dialog is open. Messages are always swapped in, so that
// they are announced again.
document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => {
  const { target, fragment } = detail;
  if (target.matches("[role=status]")) return;
  if (target.querySelector("dialog[open]") || target.isEqualNode(fragment.firstElementChild)) detail.shouldSwap = false;
});

// htmx finds only the submit buttons inside the form.
document.addEventListener("htmx:configRequest", ({ detail: { parameters, triggeringEvent } }) => {
  const submitter = triggeringEvent?.submitter;
  if (submitter?.name) parameters[submitter.name] = submitter.value;
});
