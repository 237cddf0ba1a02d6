// The view of a page is kept in its URL, without defaults.

const state = new URLSearchParams(location.search);

export const viewed = (name) => state.get(name);

/** `changes` are values by name; null is the default. */
export function remember(changes) {
  for (const [name, value] of Object.entries(changes)) if (value) state.set(name, value); else state.delete(name);
  const query = state.toString();
  history.replaceState(null, "", location.pathname + (query ? `?${query}` : ""));
}
