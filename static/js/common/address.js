// How a page is looked at stands in its URL, as far as it isn't the default.

const state = new URLSearchParams(location.search);

export const viewed = (name) => state.get(name);

/** Values by name; null is the default. */
export function remember(changes) {
  for (const [name, value] of Object.entries(changes)) if (value) state.set(name, value); else state.delete(name);
  const query = state.toString();
  history.replaceState(null, "", location.pathname + (query ? `?${query}` : ""));
}
