// The download menu: disables links without content, and saves charts as they are shown.
const menu = document.querySelector("[data-role=downloads]");

/** Sets the charts, by name. */
export function offer(charts) {
  menu.addEventListener("toggle", () => {
    for (const button of menu.querySelectorAll("[data-figure]")) button.disabled = charts[button.dataset.figure].blank;
  });
  menu.addEventListener("click", (event) => {
    const button = event.target.closest("[data-figure]");
    if (button) charts[button.dataset.figure].download(button.dataset.as);
  });
  menu.querySelector("[data-role=downloads-k]").addEventListener("change", link);
}

/** `ready` says whether there is content for best, all, trials or console. */
export function enable(ready) {
  for (const [what, is] of Object.entries(ready)) {
    for (const link of menu.querySelectorAll(`[data-needs=${what}]`)) {
      if (is) link.href = link.dataset.url;
      else link.removeAttribute("href");
      link.toggleAttribute("aria-disabled", false);
      if (!is) link.setAttribute("aria-disabled", "true");
    }
    for (const words of menu.querySelectorAll(`[data-missing=${what}]`)) words.hidden = is;
  }
}

function link(event) {
  for (const one of menu.querySelectorAll("[data-needs=best]")) {
    const url = new URL(one.dataset.url, location.href);
    url.searchParams.set("k", event.target.value);
    one.dataset.url = url.pathname + url.search;
    if (one.hasAttribute("href")) one.href = one.dataset.url;
  }
}
