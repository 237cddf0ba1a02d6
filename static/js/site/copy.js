// Buttons that copy a text of their own (data-copy), a record (data-copy-record), the code beside them (data-role=copy)
// or this page's address, now and in what is swapped in later.
import { say } from "./announce.js";

const SHOWN_MS = 1500;

document.addEventListener("click", async ({ target }) => {
  const button = target.closest("[data-copy], [data-copy-record], [data-role=copy], [data-role=copy-link]");
  if (!button) return;
  const copied = await textOf(button).then(copy).then(() => true, () => false);
  const said = copied ? "Copied" : "Not copied";
  say(said);
  const label = button.querySelector("span");
  if (label) {
    button.dataset.label ??= label.textContent;
    label.textContent = said;
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

/** A record's own text is too long to stand in the page for the few who want it. */
async function recordAt(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${response.status} for the record`);
  return (await response.json()).text;
}

/** The clipboard is there only on HTTPS and localhost; elsewhere a field is selected and copied as if by hand. */
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = Object.assign(document.createElement("textarea"), { value: text, className: "sr" });
  // Inside an open dialog nothing else can be selected.
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  const focused = document.activeElement;
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  focused?.focus();
  if (!done) throw new Error("refused");
}
