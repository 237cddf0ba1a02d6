// What is wrong with a form, or unusual, beside its fields while they are filled in. The server checks the values and stores nothing.
import { plain, say } from "../common/dom.js";
import { announce } from "../site/announce.js";

const CHECK_AFTER_MS = 500;
const NO_NUMBER = "Must be a number.";

/** An error is shown once its field has been left, and until it is corrected. `told` gets each answer. */
export class Checking {
  constructor(form, told) {
    Object.assign(this, { form, told, errors: {}, changed: true });
    this.left = new Set(Array.from(form.querySelectorAll("[aria-invalid=true]"), ({ name }) => name));
  }

  /** After a change. */
  soon() {
    this.changed = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.now(), CHECK_AFTER_MS);
  }

  leave(field) {
    this.left.add(field);
    if (this.changed) this.now(); else this.show();
  }

  /** What was said of the field's earlier value doesn't hold for the one that is being entered. */
  forget(field) {
    delete this.errors[field];
    for (const shown of this.form.querySelectorAll(`:is([data-role=field-error], [data-role=warning])[data-field="${field}"]`)) this.remove(shown);
  }

  stop() {
    clearTimeout(this.timer);
    this.asked?.abort();
  }

  async now() {
    this.stop();
    this.asked = new AbortController();
    this.changed = false;
    const sent = new FormData(this.form);
    // An abort may also interrupt the reading of the response.
    const answer = await fetch(this.form.dataset.check, { method: "POST", body: sent, signal: this.asked.signal })
      .then((response) => (response.ok ? response.json() : null)).catch(() => null);
    if (!answer) {
      this.changed ||= !this.asked.signal.aborted;
      return;
    }
    // Nothing is said of a value that was changed meanwhile.
    const held = new FormData(this.form);
    const holds = ([field]) => sent.get(field) === held.get(field);
    const still = (told) => Object.fromEntries(Object.entries(told).filter(holds));
    this.errors = still(answer.fields);
    this.show();
    this.warn(still(answer.warnings));
    if (holds(["target"])) this.told(answer);
  }

  /** Shows the errors; returns whether the browser itself can't read a number. It sends those as empty. */
  show() {
    const misread = [...this.form.elements].filter(({ validity }) => validity?.badInput);
    const errors = { ...this.errors, ...Object.fromEntries(misread.map(({ name }) => [name, NO_NUMBER])) };
    for (const shown of this.form.querySelectorAll("[data-role=field-error]")) if (!(shown.dataset.field in errors)) this.remove(shown);
    for (const [field, words] of Object.entries(errors)) if (this.left.has(field)) this.complain(field, words);
    if (!Object.keys(errors).length) this.form.querySelector("[data-role=form-errors]")?.remove();
    return misread.length > 0;
  }

  /** Whether the form may be sent. */
  readable() {
    for (const { name, validity } of this.form.elements) if (validity?.badInput) this.left.add(name);
    return !this.show();
  }

  complain(field, words) {
    const input = this.input(field);
    if (!input) return;
    const id = `${input.id}_error`;
    const shown = document.getElementById(id) ?? paragraph("wrong", "field-error", field);
    if (shown.textContent === plain(words)) return;
    if (!shown.id) input.after(Object.assign(shown, { id }));
    say(shown, words);
    input.setAttribute("aria-invalid", "true");
    describe(input, (ids) => [id, ...ids.filter((one) => one !== id)]);
    announce(`${input.labels[0]?.textContent ?? field}: ${plain(words)}`);
  }

  warn(warnings) {
    for (const shown of this.form.querySelectorAll("[data-role=warning]")) if (!(shown.dataset.field in warnings)) shown.remove();
    for (const [field, words] of Object.entries(warnings)) {
      const place = this.input(field)?.closest(".field");
      const shown = place?.querySelector("[data-role=warning]") ?? place?.appendChild(paragraph("caution", "warning", field));
      shown?.setAttribute("role", "status");
      if (shown) say(shown, words);
    }
  }

  remove(shown) {
    const input = this.input(shown.dataset.field);
    if (input && shown.dataset.role === "field-error") {
      input.removeAttribute("aria-invalid");
      describe(input, (ids) => ids.filter((one) => one !== shown.id));
    }
    shown.remove();
  }

  /** Null for what isn't a single field, such as the choice of the network. */
  input(field) {
    return this.form.querySelector(`.field [name="${field}"]`);
  }
}

/** Checks the form while it is filled in, and stops it from being sent as long as the browser can't read it. Returns the `Checking`. */
export function watch(form, { target, buttons, told = () => {}, around = target, changed = () => {} }) {
  const checking = new Checking(form, told);
  form.addEventListener("input", (event) => {
    // TVM is asked only about complete targets, not after each letter.
    if (event.target !== target) return checking.soon();
    checking.changed = true;
    checking.forget(target.name);
    changed();
  });
  form.addEventListener("change", () => checking.soon());
  form.addEventListener("focusout", (event) => {
    // Not on the way to another window, or to sending it: a message above would move the button away from the pointer.
    if (!event.target.closest(".field") || !document.hasFocus() || buttons.includes(event.relatedTarget)) return;
    if (event.target === target && around.contains(event.relatedTarget)) return;
    checking.leave(event.target.name);
  });
  form.addEventListener("submit", (event) => {
    if (checking.readable()) return checking.stop();
    event.preventDefault();
    form.querySelector("[aria-invalid=true]")?.focus();
  });
  return checking;
}

function describe(input, by) {
  const ids = (input.getAttribute("aria-describedby") ?? "").split(" ").filter(Boolean);
  input.setAttribute("aria-describedby", by(ids).join(" "));
}

function paragraph(className, role, field) {
  const made = Object.assign(document.createElement("p"), { className });
  Object.assign(made.dataset, { role, field });
  return made;
}
