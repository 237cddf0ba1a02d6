// What a page says once its user may no longer see it. Until it has said so, a refusal reloads it: the server then explains.
let ended = false;

const WHY = {
  deactivated: "Your account was deactivated: this page no longer updates.",
  gone: "This was deleted, or you are no longer a member of its project: this page no longer updates.",
  signedOut: "You were signed out: this page no longer updates.",
};

/** Says once, at the top of the page, why it no longer updates. */
export function sayEnded(why) {
  if (ended) return;
  ended = true;
  const note = Object.assign(document.createElement("div"), { className: "connection ended", textContent: WHY[why] });
  note.setAttribute("role", "alert");
  note.dataset.role = "ended";
  const link = Object.assign(document.createElement("a"), { href: `/sign-in/?next=${encodeURIComponent(location.pathname + location.search)}`, textContent: "Sign in" });
  if (why === "signedOut") note.append(" ", link);
  for (const lost of document.querySelectorAll("[data-role=connection]")) lost.hidden = true;
  document.querySelector("main").prepend(note);
}

/** Loads the page again, unless it has said why it doesn't update: it may hold text that isn't saved. */
export function reload() {
  if (!ended) location.reload();
}
