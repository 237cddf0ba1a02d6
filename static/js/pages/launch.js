// The launch form: its target, what is wrong with it while it is filled in, and no second launch by a double click.
import { watch } from "../launch/checking.js";
import { role as find } from "../common/dom.js";
import { getJson } from "../common/json.js";

const form = document.querySelector("[data-role=launch-form]");
const role = (name) => find(name, form);
const buttons = ["launch-submit", "template-save"].map(role);
const labels = buttons.map(({ textContent }) => textContent);

// The page may come back from the browser's cache, for another launch.
addEventListener("pageshow", () => buttons.forEach((button, index) => Object.assign(button, { disabled: false, textContent: labels[index] })));

// Each project has networks of its own.
form.elements.project?.addEventListener("change", ({ target }) => location.assign(`?${new URLSearchParams({ project: target.value })}`));

// --- target: this machine, a tag of TVM (older ones: text) or JSON, all text of one field

const input = form.elements.target;
const kinds = role("target-kinds");
const written = { tag: "", json: "" };
let chosen = "this";

/** An empty field stays what it was chosen to be, since it isn't `this`: launching without a target is refused. */
function kindOf(value) {
  if (!value.trim()) return chosen === "json" ? "json" : "tag";
  return value === "this" ? "this" : value.trimStart().startsWith("{") ? "json" : "tag";
}

function showKind(kind) {
  chosen = kind;
  for (const button of kinds.children) button.setAttribute("aria-pressed", String(button.dataset.target === kind));
  if (kind === "json") input.removeAttribute("list"); else input.setAttribute("list", "target-tags");
  input.classList.toggle("mono", kind === "json");
  if (kind === "tag" && form.dataset.tags) offerTags();
}

async function offerTags() {
  const list = document.getElementById("target-tags");
  if (list.children.length) return;
  const { tags } = await getJson(form.dataset.tags) ?? { tags: [] };
  list.replaceChildren(...tags.map((tag) => Object.assign(document.createElement("option"), { value: tag })));
}

kinds.hidden = false;
kinds.addEventListener("click", ({ target }) => {
  const kind = target.dataset.target;
  if (!kind) return;
  if (chosen in written) written[chosen] = input.value;
  input.value = kind === "this" ? "this" : written[kind];
  showKind(kind);
  forgetTarget();
  checking.left.delete("target");
  if (kind !== "this") input.focus();
  checking.soon();
});

// --- errors and warnings

const checking = watch(form, {
  target: input,
  buttons,
  around: role("target"),
  changed() {
    forgetTarget();
    showKind(kindOf(input.value));
  },
  told({ target, fields, first_pass: firstPass, plan }) {
    role("plan").textContent = plan;
    role("first-pass").textContent = firstPass;
    role("first-pass").hidden = !firstPass;
    if (target) role("target-label").textContent = `Tunes for ${target}.`;
    else if (fields.target) role("target-label").textContent = "";
  },
});

function forgetTarget() {
  checking.forget("target");
  role("target-label").textContent = "";
}

form.addEventListener("submit", (event) => {
  if (event.defaultPrevented) return;
  const pressed = event.submitter ?? buttons[0];
  pressed.textContent = pressed.dataset.busy;
  for (const button of buttons) button.disabled = true;
});
// Elsewhere, Enter launches.
form.elements.template_name.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit(role("template-save"));
});

showKind(kindOf(input.value));
form.querySelector("[aria-invalid=true]")?.focus();
