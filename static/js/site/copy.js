// Copy buttons: for a given text (data-copy), a record (data-copy-record), the snippet around the button (data-role=copy)
// or the page's address. They also work in parts that are swapped in later.
import { announce } from "./announce.js";

const SHOWN_MS = 1500;

document.addEventListener("click", async ({ target }) => {
  const button = target.closest("[data-copy], [data-copy-record], [data-role=copy], [data-role=copy-link]");
  if (!button) return;
  const copied = await textOf(button).then(copy).then(() => true, () => false);
  const result = copied ? "Copied" : "Not copied";
  announce(result);
  const label = button.querySelector("span");
  if (label) {
    button.dataset.label ??= label.textContent;
    label.textContent = result;
  }
  button.dataset.copied = copied ? "yes" : "no";
  setTimeout(() => {
    delete button.dataset.copied;
    if (label) label.textContent = button.dataset.label;
  }, SHOWN_MS);
});

async function textOf(button) {
  if (button.dataset.copyRecord) return recordAt(button.dataset.copyRecord);
  if (button.dataset.role === "copy-link") return location.href;
  return button.dataset.copy ?? button.closest("[data-role=snippet]").querySelector("pre").textContent;
}

/** Records are too long to put each into the page. */
async function recordAt(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${response.status} for the record`);
  return (await response.json()).text;
}

/** Browsers offer the clipboard only over HTTPS and on localhost; elsewhere the text is copied from a selected field. */
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = Object.assign(document.createElement("textarea"), { value: text, className: "sr" });
  // While a dialog is open, nothing outside of it can be selected.
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  const focused = document.activeElement;
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  focused?.focus();
  if (!done) throw new Error("refused");
}
