// Tags, pin and archive of one run: changed without drawing the page anew, so that a chart keeps its zoom.
import { pageOf } from "../common/dom.js";

document.addEventListener("submit", async (event) => {
  const { target: form, submitter } = event;
  // A deleted run has no page: that one is a form as any other.
  if (form.id !== "marks" || submitter?.value === "delete") return;
  event.preventDefault();
  // Its buttons are called action.
  const response = await fetch(form.getAttribute("action"), { method: "POST", body: new FormData(form, submitter), headers: { "HX-Request": "true" } });
  if (!response.ok || response.redirected) return location.reload();
  const page = await pageOf(response);
  document.querySelector("[data-role=marks]").replaceWith(page.querySelector("[data-role=marks]"));
  const same = submitter.dataset.role && document.querySelector(`[data-role=marks] [data-role=${submitter.dataset.role}]`);
  (same || document.querySelector("[data-role=add-tag]")).focus();
});
