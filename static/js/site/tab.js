// The tab's title and icon: the progress of a run, how it ended, or how many runs are running.
const icon = document.querySelector("link[rel=icon]");
const plain = icon.href;
const ENDED = { finished: "Done", failed: "Failed", stopped: "Stopped", interrupted: "Interrupted", cancelled: "Cancelled" };
// The browser's tab strip may be light or dark whatever the page's theme: these are visible on both.
const TONES = { finished: "#1f9d61", failed: "#d8433b", stopped: "#7a8596", cancelled: "#7a8596", interrupted: "#c98a10", stopping: "#c98a10", cancelling: "#c98a10" };
const RUNNING = "#5566e6";
const SIGNS = {
  finished: '<path d="M9.5 16.5l4.5 4.5 8.5-9.5" fill="none" stroke="#fff" stroke-width="3.6" stroke-linecap="round" stroke-linejoin="round"/>',
  failed: '<path d="M16 8.5v9.5M16 22.8v.4" fill="none" stroke="#fff" stroke-width="3.8" stroke-linecap="round"/>',
  interrupted: '<path d="M12.5 10.5v11M19.5 10.5v11" fill="none" stroke="#fff" stroke-width="3.6" stroke-linecap="round"/>',
};
const SQUARE = '<path d="M11.5 11.5h9v9h-9z" fill="#fff" stroke="#fff" stroke-width="1.5" stroke-linejoin="round"/>';

/** For the page of one run or compilation: `share` is its progress from 0 to 1, or null if unknown. */
export function showProgress(title, status, share) {
  const percent = Math.floor(100 * (share ?? 0));
  document.title = `${ENDED[status] ?? (status === "queued" ? "Queued" : share === null ? "Running" : `${percent}%`)} · ${title} · Tuneboard`;
  draw(status in ENDED ? disc(TONES[status], SIGNS[status] ?? SQUARE) : ring(TONES[status] ?? RUNNING, status === "queued" ? 0 : percent));
}

/** For the list of runs. */
function showRunning() {
  const list = document.querySelector("[data-running]");
  if (!list) return;
  const number = Number(list.dataset.running);
  const title = document.title.replace(/^\(\d+\) /u, "");
  document.title = number ? `(${number}) ${title}` : title;
  if (number) draw(disc(RUNNING, `<text x="16" y="22" text-anchor="middle" font-family="sans-serif" font-weight="700" font-size="17" fill="#fff">${number > 9 ? "9+" : number}</text>`));
  else if (icon.href !== plain) icon.href = plain;
}
showRunning();
document.addEventListener("htmx:afterSwap", showRunning);

function ring(tone, percent) {
  const circle = (color, more) => `<circle cx="16" cy="16" r="12" fill="none" stroke="${color}" stroke-width="7" ${more}/>`;
  return circle("#8f9aab", 'stroke-opacity="0.45"') + (percent ? circle(tone, `pathLength="100" stroke-dasharray="${percent} 100" transform="rotate(-90 16 16)"`) : "");
}

function disc(tone, sign) {
  return `<circle cx="16" cy="16" r="15.5" fill="${tone}"/>${sign}`;
}

function draw(inside) {
  const href = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">${inside}</svg>`)}`;
  if (icon.href !== href) icon.href = href;
}
