// Shows that the target is being checked, and prevents a second launch by a double click.
const form = document.querySelector("[data-role=launch-form]");
const button = form.querySelector("[data-role=launch-submit]");
const label = button.textContent;

form.addEventListener("submit", () => {
  button.disabled = true;
  button.textContent = button.dataset.busy;
});
// The page may come back from the browser's cache, for another launch.
addEventListener("pageshow", () => {
  button.disabled = false;
  button.textContent = label;
});
const wrong = form.querySelector("[aria-invalid=true]");
wrong?.focus();

// Each project has networks of its own.
form.elements.project?.addEventListener("change", ({ target }) => location.assign(`?${new URLSearchParams({ project: target.value })}`));

// --- target: this machine, a tag of TVM (older ones: text) or JSON, all text of one field

const role = (name) => form.querySelector(`[data-role=${name}]`);
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
  const response = await fetch(form.dataset.tags).catch(() => null);
  if (!response?.ok) return;
  const { tags } = await response.json();
  list.replaceChildren(...tags.map((tag) => Object.assign(document.createElement("option"), { value: tag })));
}

kinds.hidden = false;
kinds.addEventListener("click", ({ target }) => {
  const kind = target.dataset.target;
  if (!kind) return;
  if (chosen in written) written[chosen] = input.value;
  input.value = kind === "this" ? "this" : written[kind];
  showKind(kind);
  if (kind !== "this") input.focus();
  checkSoon();
});
showKind(kindOf(input.value));

// --- warnings about values that are valid but unusual

const CHECK_AFTER_MS = 500;
let timer = null;
let asked = null;

function checkSoon() {
  clearTimeout(timer);
  timer = setTimeout(check, CHECK_AFTER_MS);
}

async function check() {
  asked?.abort();
  asked = new AbortController();
  // An abort may also interrupt the reading of the response.
  const answer = await fetch(form.dataset.check, { method: "POST", body: new FormData(form), signal: asked.signal })
    .then((response) => (response.ok ? response.json() : null)).catch(() => null);
  if (!answer) return;
  const { warnings, target } = answer;
  role("target-label").textContent = target ? `Tunes for ${target}.` : "";
  for (const shown of form.querySelectorAll("[data-role=warning]")) if (!(shown.dataset.field in warnings)) shown.remove();
  for (const [field, words] of Object.entries(warnings)) warn(field, words);
}

function warn(field, words) {
  const place = form.elements[field]?.closest(".field");
  if (!place) return;
  const shown = place.querySelector("[data-role=warning]") ?? place.appendChild(Object.assign(document.createElement("p"), { className: "caution" }));
  Object.assign(shown.dataset, { role: "warning", field });
  shown.setAttribute("role", "status");
  shown.textContent = words;
}

form.addEventListener("input", ({ target }) => {
  // TVM is asked only about complete targets, not after each letter.
  if (target !== input) return checkSoon();
  role("target-label").textContent = "";
  showKind(kindOf(input.value));
});
form.addEventListener("change", checkSoon);
