// What the modules of all pages share: elements by role or cell, text that is touched only when it changes, the page read anew.

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

/** The page of a URL as the server draws it now; null when it doesn't answer. */
export async function reread(url) {
  const response = await fetch(url).catch(() => null);
  return response?.ok ? pageOf(response) : null;
}

export async function pageOf(response) {
  return new DOMParser().parseFromString(await response.text(), "text/html");
}
