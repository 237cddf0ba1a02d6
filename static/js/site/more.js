// Says below a table that scrolls within its panel how many of its rows are further down.

const watched = new WeakSet();
const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => tell(target.closest(".table-wrap"))));

function tell(wrap) {
  if (!wrap) return;
  const edge = wrap.getBoundingClientRect().bottom;
  const isCut = wrap.scrollHeight > wrap.clientHeight + 1;
  const rows = isCut ? [...wrap.querySelectorAll("tbody tr")] : [];
  const below = rows.filter((row) => row.getBoundingClientRect().bottom > edge + 1).length;
  const hint = wrap.querySelector(":scope > .more") ?? (below ? added(wrap) : null);
  if (hint) hint.textContent = below ? `${below} more ${below === 1 ? "row" : "rows"}` : "";
}

/** Screen readers read all rows anyway. */
function added(wrap) {
  const hint = document.createElement("p");
  hint.className = "more";
  hint.ariaHidden = "true";
  wrap.append(hint);
  return hint;
}

function watch(wrap) {
  const follow = () => wrap.querySelectorAll(":scope > table").forEach((table) => sizes.observe(table));
  sizes.observe(wrap);
  follow();
  new MutationObserver(follow).observe(wrap, { childList: true });
  wrap.addEventListener("scroll", () => tell(wrap), { passive: true });
}

function watchAll() {
  for (const wrap of document.querySelectorAll(".table-wrap")) {
    if (watched.has(wrap) || getComputedStyle(wrap).maxHeight === "none") continue;
    watched.add(wrap);
    watch(wrap);
  }
}

watchAll();
document.addEventListener("htmx:load", watchAll);
