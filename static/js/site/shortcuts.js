// All keyboard shortcuts of the site. A shortcut works, and is listed in the overlay, only where the element it acts on exists.
import { announce } from "./announce.js";

const SEQUENCE_MS = 1500;
const OFF = "off";
const HEAD_PX = 48;

/**
 * `keys` are alternatives, each one key or two in sequence, named as in KeyboardEvent.key. `rowKeys` are alternatives that
 * work only while a row has the focus, since they mean something else elsewhere. `native` keys are handled by the browser
 * and only listed. `on` selects the element to act on; the default action is a click.
 */
const SEARCH = "[data-role=search], [role=search] :is(select, input:not([type=hidden]))";
const SHORTCUTS = [
  { group: "Anywhere", keys: ["?"], does: "Keyboard shortcuts", on: "[data-role=shortcuts]", act: toggleHelp },
  { group: "Anywhere", keys: ["/"], does: "Search or filter", on: SEARCH, act: focusField },
  { group: "Anywhere", keys: [], native: ["Escape"], does: "Leave the search field", on: SEARCH },
  { group: "Anywhere", keys: ["t"], does: "Next theme: system, light, dark", on: "[data-choice=theme]", act: () => choose("theme") },
  { group: "Anywhere", keys: ["a"], does: "Absolute or relative times", on: "[data-choice=times]", act: () => choose("times") },
  { group: "Anywhere", keys: ["u"], does: "Up one level", on: ".crumbs a:last-of-type" },
  { group: "Go to", keys: ["g r"], does: "Runs", on: "[data-go=runs]" },
  { group: "Go to", keys: ["g n"], does: "Networks", on: "[data-go=networks]" },
  { group: "Go to", keys: ["g b"], does: "Best records", on: "[data-go=library]" },
  { group: "Go to", keys: ["g m"], does: "Machines", on: "[data-go=machines]" },
  { group: "Go to", keys: ["g a"], does: "API", on: "[data-go=api]" },
  { group: "Go to", keys: ["g t"], does: "Trials of this run", on: "[data-go=trials]" },
  { group: "Go to", keys: ["n"], does: "Launch a run", on: "[data-go=launch]" },
  { group: "Lists", keys: ["j"], rowKeys: ["ArrowDown"], does: "Next row", on: "[data-row]", act: () => step(1), repeats: true },
  { group: "Lists", keys: ["k"], rowKeys: ["ArrowUp"], does: "Previous row", on: "[data-row]", act: () => step(-1), repeats: true },
  { group: "Lists", keys: ["o"], native: ["Enter"], does: "Open the row", on: "[data-row] :is(a[href], summary)", act: () => entry(currentRow())?.click() },
  { group: "Lists", keys: ["x"], does: "Select or deselect the row", on: "[data-row] input[type=checkbox]", act: () => currentRow()?.querySelector("input[type=checkbox]")?.click() },
  { group: "Lists", keys: ["l"], does: "Next page", on: "a[rel=next]" },
  { group: "Lists", keys: ["h"], does: "Previous page", on: "a[rel=prev]" },
  { group: "This page", keys: ["c"], does: "Compare", on: "[data-role=compare]" },
  { group: "This page", keys: ["p"], does: "Pin the run or the selected runs", on: "[data-role=pin], [data-role=bulk] [value=pin]" },
  { group: "This page", keys: ["v"], does: "Charts by trials or by time", on: "[data-axis][aria-pressed=false], a[id^=x-]:not([aria-current])" },
  { group: "This page", keys: ["d"], does: "Downloads", on: "[data-role=downloads] > summary", act: openMenu },
  { group: "This page", keys: ["w"], does: "Notify me when it ends: on or off", on: "[data-role=notify]" },
  { group: "This page", keys: ["i"], does: "Edit notes", on: "[data-role=notes-edit]" },
  { group: "This page", keys: ["r"], does: "Rename the run", on: "[data-role=rename]" },
  { group: "This page", keys: ["s"], does: "Stop the run (asks first)", on: "[data-role=stop]" },
  { group: "This page", keys: ["e"], does: "Extend the run", on: "[data-role=extend]" },
  { group: "This page", keys: ["b"], does: "Compile", on: "[data-role=compile]" },
];

// --- available shortcuts

const usable = (element) => !element.disabled && !element.closest("[hidden]");
const found = ({ on }) => [...document.querySelectorAll(on)].find(usable);
const working = () => SHORTCUTS.filter(found);

// --- key presses

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
    timer = setTimeout(forget, SEQUENCE_MS);
  }
});

/** Not keys typed into a field, meant for the browser or an open dialog, or while shortcuts are turned off. */
function isOurs(event) {
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return false;
  if (["Shift", "CapsLock"].includes(event.key) || !switchedOn()) return false;
  if (event.target.closest?.("textarea, select, [contenteditable=true], input:not([type=checkbox], [type=radio])")) return false;
  return !document.querySelector("dialog:modal:not([data-role=shortcuts])") && (!help.open || event.key === "?");
}

/** Caps lock makes no difference. */
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

// What was typed stays, in Chromium as elsewhere. That isn't one of the shortcuts that can be turned off, as it takes no letter.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || !event.target.matches?.(SEARCH)) return;
  event.preventDefault();
  event.target.blur();
});

function focusField(field) {
  field.focus();
  field.select?.();
}

function openMenu(summary) {
  summary.parentElement.open = !summary.parentElement.open;
  summary.focus();
}

/** Presses the choice after the current one. */
function choose(name) {
  const buttons = [...document.querySelectorAll(`[data-choice=${name}]`)];
  const next = buttons[(buttons.findIndex((one) => one.getAttribute("aria-pressed") === "true") + 1) % buttons.length];
  next.click();
  announce(next.textContent);
}

// --- rows

const currentRow = () => document.activeElement?.closest("[data-row]");
const entry = (row) => row?.querySelector(".row-link[href]") ?? row?.querySelector("a[href], summary");

function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => entry(row) && row.checkVisibility());
  const at = rows.indexOf(currentRow());
  // Without a current row: the first visible one. Past either end: none.
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

const NAMES = { ArrowDown: "↓", ArrowUp: "↑", Escape: "Esc" };

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
