// Keeps parts of a page up to date: htmx asks for the page and swaps in the parts that the element's hx-select-oob names, or asks for a part of its own.
import { reload } from "./ended.js";
import "./htmx.js";

const EVERY_MS = 1000;
const RETRY_MS = 5000;

/** The page's address as it is when the request is sent. Its fragment would make htmx scroll. */
const here = () => location.pathname + location.search;

/**
 * Sends the request of an element with hx-trigger="refresh", to the page or to `address`, at most one in `everyMs` and never two at once.
 * Requests that are asked for meanwhile, or in a hidden tab, become one that is sent as soon as possible.
 */
export class Refresher {
  constructor(element, everyMs = EVERY_MS, address = here) {
    Object.assign(this, { element, everyMs, isWanted: false, startedAt: null, timer: null });
    this.#on("htmx:configRequest", (detail) => { detail.path = address(); });
    this.#on("htmx:afterRequest", (detail) => this.#answered(detail));
    document.addEventListener("visibilitychange", () => this.#send());
  }

  ask() {
    this.isWanted = true;
    this.#send();
  }

  /** Going back and forward refreshes the parts, instead of loading the page again and losing zoom and scroll position. */
  restoreOnBack() {
    const restore = (event) => {
      // htmx would reload the page.
      event.stopImmediatePropagation();
      htmx.trigger(this.element, "htmx:abort");
      clearTimeout(this.timer);
      this.startedAt = null;
      this.ask();
    };
    addEventListener("popstate", restore, { capture: true });
  }

  #on(name, listener) {
    this.element.addEventListener(name, ({ target, detail }) => { if (target === this.element) listener(detail); });
  }

  #send() {
    if (!this.isWanted || this.startedAt !== null || document.hidden) return;
    [this.isWanted, this.startedAt] = [false, performance.now()];
    htmx.trigger(this.element, "refresh");
  }

  #answered({ xhr: { status } }) {
    // Signed out, or what the page shows was deleted: the server explains.
    if (status >= 400 && status < 500) reload();
    const failed = status === 0 || status >= 500;
    this.isWanted ||= failed;
    // Large pages take the server long to make: it must have time for others.
    const pause = failed ? RETRY_MS : Math.max(this.everyMs, 3 * (performance.now() - this.startedAt));
    this.timer = setTimeout(() => {
      this.startedAt = null;
      this.#send();
    }, pause);
  }
}
