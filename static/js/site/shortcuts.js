// Every keyboard shortcut of the site. Each works where the element is that it acts on; the overlay lists just these.
import { say } from "./announce.js";

const TOGETHER_MS = 1500;
const OFF = "off";
const HEAD_PX = 48;

/**
 * `keys` are ways to press it, each a key or two in turn, as KeyboardEvent.key names them; `rowKeys` are more of them
 * that count from a row on only, since they mean something elsewhere. `native` keys are the browser's own doing, and
 * only listed. `on` finds what it acts on, by default with a click.
 */
const SHORTCUTS = [
  { group: "Anywhere", keys: ["?"], does: "These shortcuts", on: "[data-role=shortcuts]", act: toggleHelp },
  { group: "Anywhere", keys: ["/"], does: "Search or filter", on: "[data-role=search], [role=search] :is(select, input:not([type=hidden]))", act: focusField },
  { group: "Anywhere", keys: ["t"], does: "Next theme: system, light, dark", on: "[data-choice=theme]", act: () => choose("theme") },
  { group: "Anywhere", keys: ["a"], does: "Times absolute, or relative", on: "[data-choice=times]", act: () => choose("times") },
  { group: "Anywhere", keys: ["u"], does: "Up to the page above", on: ".crumbs a:last-of-type" },
  { group: "Go to", keys: ["g r"], does: "Runs", on: "[data-go=runs]" },
  { group: "Go to", keys: ["g n"], does: "Networks", on: "[data-go=networks]" },
  { group: "Go to", keys: ["g l"], does: "Library", on: "[data-go=library]" },
  { group: "Go to", keys: ["g d"], does: "Devices", on: "[data-go=devices]" },
  { group: "Go to", keys: ["g a"], does: "API", on: "[data-go=api]" },
  { group: "Go to", keys: ["g t"], does: "Trials of this run", on: "[data-go=trials]" },
  { group: "Go to", keys: ["n"], does: "Launch a run", on: "[data-go=launch]" },
  { group: "Lists", keys: ["j"], rowKeys: ["ArrowDown"], does: "Next row", on: "[data-row]", act: () => step(1), repeats: true },
  { group: "Lists", keys: ["k"], rowKeys: ["ArrowUp"], does: "Row before", on: "[data-row]", act: () => step(-1), repeats: true },
  { group: "Lists", keys: ["o"], native: ["Enter"], does: "Open the row", on: "[data-row] :is(a[href], summary)", act: () => entry(currentRow())?.click() },
  { group: "Lists", keys: ["x"], does: "Select the row, or not", on: "[data-row] input[type=checkbox]", act: () => currentRow()?.querySelector("input[type=checkbox]")?.click() },
  { group: "Lists", keys: ["l"], does: "Next page", on: "a[rel=next]" },
  { group: "Lists", keys: ["h"], does: "Page before", on: "a[rel=prev]" },
  { group: "This page", keys: ["c"], does: "Compare", on: "[data-role=compare]" },
  { group: "This page", keys: ["p"], does: "Pin the run, or those selected", on: "[data-role=pin], [data-role=bulk] [value=pin]" },
  { group: "This page", keys: ["v"], does: "Charts against trials, or time", on: "[data-axis][aria-pressed=false], [data-view][id^=x-]:not([aria-current])" },
  { group: "This page", keys: ["d"], does: "Downloads", on: "[data-role=downloads] > summary", act: openMenu },
  { group: "This page", keys: ["w"], does: "Notify me when it ends, or not", on: "[data-role=notify]" },
  { group: "This page", keys: ["i"], does: "Write notes", on: "[data-role=notes-edit]" },
  { group: "This page", keys: ["r"], does: "Rename the run", on: "[data-role=rename]" },
  { group: "This page", keys: ["s"], does: "Stop the run, after a question", on: "[data-role=stop]" },
  { group: "This page", keys: ["e"], does: "Extend the run", on: "[data-role=extend]" },
  { group: "This page", keys: ["b"], does: "Build a library", on: "[data-role=compile]" },
];

// --- which of them work here

const usable = (element) => !element.disabled && !element.closest("[hidden]");
const found = ({ on }) => [...document.querySelectorAll(on)].find(usable);
const working = () => SHORTCUTS.filter(found);

// --- pressing them

let pressed = "";
let timer = null;

document.addEventListener("keydown", (event) => {
  if (!isOurs(event)) return;
  const keys = pressed ? `${pressed} ${nameOf(event)}` : nameOf(event);
  forget();
  const here = working();
  const meant = here.find((one) => one.keys.includes(keys) || (one.rowKeys?.includes(keys) && currentRow()));
  if (meant) {
    event.preventDefault();
    if (!event.repeat || meant.repeats) (meant.act ?? click)(found(meant));
  } else if (here.some((one) => one.keys.some((way) => way.startsWith(`${keys} `)))) {
    pressed = keys;
    timer = setTimeout(forget, TOGETHER_MS);
  }
});

/** Not what is typed into a field, belongs to the browser or an open dialog, or is turned off. */
function isOurs(event) {
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return false;
  if (["Shift", "CapsLock"].includes(event.key) || !switchedOn()) return false;
  if (event.target.closest?.("textarea, select, [contenteditable=true], input:not([type=checkbox], [type=radio])")) return false;
  return !document.querySelector("dialog:modal:not([data-role=shortcuts])") && (!help.open || event.key === "?");
}

/** Letters mean the same with caps lock. */
function nameOf({ key, shiftKey }) {
  return key.length === 1 && !shiftKey ? key.toLowerCase() : key;
}

function forget() {
  clearTimeout(timer);
  pressed = "";
}

function click(element) {
  element.click();
}

function focusField(field) {
  field.focus();
  field.select?.();
}

function openMenu(summary) {
  summary.parentElement.open = !summary.parentElement.open;
  summary.focus();
}

/** The next of the choices, of which one is pressed. */
function choose(name) {
  const buttons = [...document.querySelectorAll(`[data-choice=${name}]`)];
  const next = buttons[(buttons.findIndex((one) => one.getAttribute("aria-pressed") === "true") + 1) % buttons.length];
  next.click();
  say(next.textContent);
}

// --- rows

const currentRow = () => document.activeElement?.closest("[data-row]");
const entry = (row) => row?.querySelector(".row-link[href]") ?? row?.querySelector("a[href], summary");

function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => entry(row) && row.checkVisibility());
  const at = rows.indexOf(currentRow());
  // From nowhere into what is seen; over the ends of the list, nothing.
  const next = at >= 0 ? rows[at + by] : rows.find((row) => row.getBoundingClientRect().top >= HEAD_PX) ?? rows[0];
  if (!next) return;
  entry(next).focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}
// --- the overlay

const help = document.querySelector("[data-role=shortcuts]");
const list = help.querySelector("[data-role=shortcut-list]");
const turned = help.querySelector("[data-role=shortcuts-on]");

function switchedOn() {
  try { return localStorage.getItem("shortcuts") !== OFF; } catch { return true; }
}

function toggleHelp() {
  if (help.open) { help.close(); return; }
  const here = working();
  const groups = [...new Set(here.map(({ group }) => group))];
  list.replaceChildren(...groups.map((group) => section(group, here.filter((one) => one.group === group))));
  turned.checked = switchedOn();
  help.showModal();
}

function section(group, shortcuts) {
  const part = document.createElement("section");
  part.append(Object.assign(document.createElement("h3"), { textContent: group }), document.createElement("dl"));
  part.lastChild.append(...shortcuts.map(line));
  return part;
}

function line({ keys, rowKeys = [], native = [], does }) {
  const row = document.createElement("div");
  const ways = [...keys, ...rowKeys, ...native].flatMap((way, place) => [...(place ? [" or "] : []), ...caps(way)]);
  row.append(document.createElement("dt"), document.createElement("dd"));
  row.firstChild.append(...ways);
  row.lastChild.textContent = does;
  return row;
}

const NAMES = { ArrowDown: "↓", ArrowUp: "↑" };

function caps(way) {
  return way.split(" ").flatMap((key, place) => [
    ...(place ? [" then "] : []),
    Object.assign(document.createElement("kbd"), { textContent: NAMES[key] ?? key }),
  ]);
}

turned.addEventListener("change", () => {
  try { localStorage.setItem("shortcuts", turned.checked ? "on" : OFF); } catch { /* private mode */ }
});
document.querySelector("[data-role=help]").addEventListener("click", toggleHelp);
