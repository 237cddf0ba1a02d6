// Edits a run's name and notes in place. Updates that arrive meanwhile don't touch what is being written.
import { role } from "../common/dom.js";

const article = role("run");
const panel = role("notes");
let shown = Number(role("notes-shown").dataset.revision);

/** Shows edits by anybody; to be called with each state of the run. */
export function follow(run) {
  if (run.revision < shown) return;
  if (role("name").textContent !== run.name) role("name").textContent = run.name;
  article.dataset.name = run.name;
  if (run.revision === shown) return;
  shown = run.revision;
  showNotes();
  if (base && !saving) checkForConflict();
}

function showNotes() {
  return htmx.ajax("GET", panel.dataset.from, { source: panel, target: "#notes-shown", swap: "outerHTML" }).catch(() => {});
}

// --- saving

/** Returns the `run`; or the `trouble` in words, and the `current` run if somebody else has edited it first. */
async function patch(form, values) {
  const headers = { "Content-Type": "application/json", "X-CSRFToken": form.elements.csrfmiddlewaretoken.value };
  const response = await fetch(article.dataset.api, { method: "PATCH", headers, body: JSON.stringify(values) }).catch(() => null);
  if (!response) return { trouble: "The connection was lost. Your text is still here: save it again." };
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return { run: answer };
  const { current, fields = {}, message } = answer.error ?? {};
  return { current, trouble: Object.values(fields).join(" ") || message || `The server answered with status ${response.status}.` };
}

/** Tries again if somebody else has edited only other fields. */
async function save(form, from, field, value) {
  const result = await patch(form, { [field]: value, revision: from.revision });
  return result.current && result.current[field] === from[field] ? save(form, result.current, field, value) : result;
}

// --- the name

const renaming = role("rename-form");
let named = null;

function rename(open) {
  named = open ? { name: role("name").textContent, revision: shown } : null;
  role("name-line").hidden = open;
  renaming.hidden = !open;
  role("rename-trouble").textContent = "";
  if (!open) return role("rename").focus();
  renaming.elements.name.value = named.name;
  renaming.elements.name.select();
  return null;
}

async function saveName() {
  const name = renaming.elements.name.value.trim();
  if (name === named.name) return rename(false);
  role("rename-save").disabled = true;
  const result = await save(renaming, named, "name", name);
  role("rename-save").disabled = false;
  if (!named) return null;
  if (result.run) {
    follow(result.run);
    return rename(false);
  }
  if (result.current) named = result.current;
  role("rename-trouble").textContent = result.current ? `${result.current.edited_by ?? "Somebody"} renamed it to “${result.current.name}” meanwhile. Press Rename again to use your name.` : result.trouble;
  return renaming.elements.name.focus();
}

if (renaming) {
  role("rename").addEventListener("click", () => rename(true));
  role("rename-cancel").addEventListener("click", () => rename(false));
  renaming.addEventListener("submit", (event) => { event.preventDefault(); saveName(); });
  renaming.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.stopPropagation();
    rename(false);
  });
}

// --- the notes

const editor = role("notes-editor");
const text = editor?.elements.notes;
let base = null;
let saving = false;

const changed = () => base !== null && text.value !== base.notes;
const complain = (words) => { role("notes-trouble").textContent = words; };

async function read() {
  const response = await fetch(article.dataset.api).catch(() => null);
  return response?.ok ? response.json() : null;
}

/** Somebody edited the run while the editor was open. */
async function checkForConflict() {
  const now = await read();
  if (!base || saving || !now) return;
  if (now.notes === base.notes) base = now;
  else complain(`${now.edited_by ?? "Somebody"} saved other notes meanwhile. Your text is kept; Save shows both.`);
}

async function write() {
  const now = base ? null : await read();
  if (!now) {
    if (!base) role("notes-edit").lastChild.textContent = "No connection: try again";
    return;
  }
  base = now;
  text.value = base.notes;
  complain("");
  showTheirs(null);
  view("write");
  measure();
  open(true);
  text.focus();
}

function open(now) {
  editor.hidden = !now;
  panel.toggleAttribute("data-editing", now);
}

function close() {
  base = null;
  open(false);
  role("notes-edit")?.focus();
}

function leave() {
  if (changed()) role("notes-discard").showModal();
  else close();
}

async function saveNotes() {
  if (!base || role("notes-save").disabled) return null;
  if (!changed()) return close();
  saving = role("notes-save").disabled = true;
  const result = await save(editor, base, "notes", text.value);
  saving = false;
  measure();
  if (!result.run) return refused(result);
  base = result.run;
  shown = base.revision;
  showTheirs(null);
  await showNotes();
  return changed() ? complain("Saved, except what you wrote since.") : close();
}

function refused({ current, trouble }) {
  view("write");
  if (!current) return complain(trouble);
  base = current;
  showTheirs(base.notes);
  return complain(`${base.edited_by ?? "Somebody"} saved other notes meanwhile. Yours aren’t saved yet: copy what you want to keep from theirs, then save.`);
}

function showTheirs(notes) {
  role("notes-theirs").hidden = notes === null;
  role("notes-theirs-text").value = notes ?? "";
  role("notes-save").textContent = notes === null ? "Save" : "Overwrite with mine";
}

/** Shows how many of the allowed bytes are used, once more than half are. */
function measure() {
  const [bytes, most] = [new TextEncoder().encode(text.value).length, Number(editor.dataset.most)];
  const size = role("notes-size");
  size.textContent = bytes > most / 2 ? `${bytes.toLocaleString("en-US")} of ${most.toLocaleString("en-US")} bytes${bytes > most ? ": too long to save" : ""}` : "";
  size.classList.toggle("bad", bytes > most);
  role("notes-save").disabled = bytes > most;
}

async function view(name) {
  for (const button of editor.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", String(button.dataset.view === name));
  const preview = role("notes-preview");
  text.hidden = name === "preview";
  preview.hidden = !text.hidden;
  if (text.hidden) await fill(preview);
}

async function fill(preview) {
  const body = new FormData(editor);
  const response = await fetch(editor.dataset.preview, { method: "POST", body }).catch(() => null);
  const answer = response ? await response.text() : "The connection was lost.";
  // The server has sanitized it.
  if (response?.ok) preview.innerHTML = answer || "<p>Nothing to show.</p>";
  else preview.textContent = answer;
}

if (editor) {
  panel.addEventListener("click", ({ target }) => { if (target.closest("[data-role=notes-edit]")) write(); });
  editor.addEventListener("submit", (event) => { event.preventDefault(); saveNotes(); });
  editor.addEventListener("input", measure);
  for (const button of editor.querySelectorAll("[data-view]")) button.addEventListener("click", () => view(button.dataset.view));
  role("notes-cancel").addEventListener("click", leave);
  role("notes-keep").addEventListener("click", () => role("notes-discard").close());
  role("notes-discard-confirm").addEventListener("click", () => { role("notes-discard").close(); close(); });
  editor.addEventListener("keydown", (event) => {
    if (event.isComposing || role("notes-discard").open) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) saveNotes();
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  addEventListener("beforeunload", (event) => { if (changed()) event.preventDefault(); });
}
