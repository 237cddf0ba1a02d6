// Elements by role or cell, and text that is written only when it changes.

export const role = (name, root = document) => root.querySelector(`[data-role=${name}]`);
export const cell = (row, name) => row.querySelector(`[data-cell=${name}]`);

export function text(name, value) {
  write(role(name), value);
}

/** `value` is what a cell is sorted by, where its text doesn't say it. */
export function put(row, name, shown, value) {
  const element = cell(row, name);
  write(element, shown);
  if (value !== undefined) element.dataset.value = value ?? "";
}

function write(element, shown) {
  if (element.textContent !== shown) element.textContent = shown;
}

/** A copy of a template's one element. */
export function copyOf(name) {
  return role(name).content.firstElementChild.cloneNode(true);
}

/** Shows a message, with what stands between backticks as code, as the template filter `with_code` does. */
export function say(element, words) {
  const code = (textContent) => Object.assign(document.createElement("code"), { textContent });
  element.replaceChildren(...words.split(/`([^`\n]+)`/).map((part, nth) => (nth % 2 ? code(part) : part)));
}

export const plain = (words) => words.replace(/`([^`\n]+)`/g, "$1");
