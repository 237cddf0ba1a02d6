// Follows runs and compilations: the socket says what is new, and the API is authoritative.
import { reload, sayEnded } from "../site/ended.js";

const PAGE = 1000;
const FAR_BEHIND = 5000;
const QUIET_MS = 15000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10000;
const REFUSED_MS = [1000, 3000, 6000];
const NOT_SIGNED_IN = 4401;
const DEACTIVATED = 4403;
const GONE = 4404;
const TOO_MANY = 4429;

/** Keeps a socket open. Subclasses `receive` its messages in order, and `catchUp` by the API after a gap. */
class Live {
  /** `on.connection(up)` is called when the socket opens or closes. */
  constructor({ socket, api, on }) {
    Object.assign(this, { socketPath: socket, api, on, wait: FIRST_WAIT_MS, work: Promise.resolve(), heardAt: 0 });
  }

  start() {
    this.#connect();
    addEventListener("online", () => this.#retryNow());
    document.addEventListener("visibilitychange", () => document.hidden || this.#retryNow());
    setInterval(() => this.#checkQuiet(), QUIET_MS);
  }

  /** Runs a step between two messages. */
  inOrder(step) {
    return (this.work = this.work.then(step).catch((error) => {
      console.error(error);
      // Whatever was missed is fetched after reconnecting.
      this.socket?.close();
    }));
  }

  /** To be called when the socket's initial state has arrived. */
  connected() {
    this.wait = FIRST_WAIT_MS;
    this.on.connection(true);
  }

  async get(path) {
    const response = await fetch(this.api + path, { headers: { Accept: "application/json" } });
    if (response.status === 401 || response.status === 403) reload();
    if (!response.ok) throw new Error(`${response.status} for ${path}`);
    return response.json();
  }

  #connect() {
    clearTimeout(this.timer);
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}${this.socketPath}`);
    this.socket = socket;
    let opened = false;
    socket.addEventListener("open", () => { opened = true; });
    socket.addEventListener("message", ({ data }) => {
      this.heardAt = Date.now();
      this.inOrder(() => (socket === this.socket ? this.receive(JSON.parse(data)) : null));
    });
    socket.addEventListener("close", ({ code }) => {
      if (socket !== this.socket) return;
      this.socket = null;
      if (code === DEACTIVATED || code === GONE) this.#end(code === GONE ? "gone" : "deactivated");
      else this.#lost(code);
      if (code === NOT_SIGNED_IN || !opened) this.#endIfRefused();
    });
  }

  #lost(code) {
    if (code === TOO_MANY) this.wait = LONGEST_WAIT_MS;
    sayWhy(code);
    this.on.connection(false);
    this.timer = setTimeout(() => this.#connect(), this.wait * (0.75 + Math.random() / 2));
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT_MS);
  }

  /**
   * A new password ends a socket, but not the session that it was set in: then the socket is opened again. The answer with the session's
   * new cookie may still be on its way to another tab, for seconds on a busy machine, so a refusal counts only when it is repeated.
   */
  async #endIfRefused() {
    if (this.asking) return;
    this.asking = true;
    let status = await this.#status();
    for (const wait of REFUSED_MS) {
      if (status !== 401 || this.hasEnded) break;
      await new Promise((resolve) => setTimeout(resolve, wait));
      status = await this.#status();
    }
    this.asking = false;
    if (this.hasEnded) return;
    if (status === 401) this.#end("signedOut");
    if (status === 403 || status === 404) this.#end("gone");
  }

  async #status() {
    const response = await fetch(this.api, { headers: { Accept: "application/json" } }).catch(() => null);
    return response?.status;
  }

  #end(why) {
    clearTimeout(this.timer);
    this.hasEnded = true;
    sayEnded(why);
  }

  #retryNow() {
    if (this.hasEnded) return;
    if (this.socket === null) this.#connect();
    else this.inOrder(() => this.catchUp());
  }

  // A message may get lost although the socket stays open.
  #checkQuiet() {
    if (this.socket?.readyState === WebSocket.OPEN && !document.hidden && Date.now() - this.heardAt >= QUIET_MS) this.inOrder(() => this.catchUp());
  }
}

/** In the page's line about the connection, which is shown while there is none. */
function sayWhy(code) {
  const line = document.querySelector('[data-role="connection"]');
  if (line) line.textContent = code === TOO_MANY ? "Too many live pages are open: this one isn’t updated until you close another." : "Connection lost, reconnecting…";
}

/** Follows a compilation: `on.compilation(state)` is called with each new state. */
export class LiveCompilation extends Live {
  async receive({ type, compilation }) {
    await this.on.compilation(compilation);
    if (type === "state") this.connected();
  }

  async catchUp() {
    await this.on.compilation(await this.get(""));
  }
}

/** Follows a run: passes on every trial exactly once and in order, whatever was lost on the way. */
export class LiveRun extends Live {
  /**
   * `last` is the number of the last trial on the page. Callbacks in `on`:
   *   trials(columns)   new trials from last + 1 on, without gaps or duplicates
   *   run(run, tasks)   the current state of the run and of the tasks that changed
   *   reload()          the page is far behind: redraw it, and return the new last number
   *   connection(up)    the socket was opened or closed
   */
  constructor({ last, ...rest }) {
    super(rest);
    this.last = last;
  }

  /** Has the page redrawn, between two messages. */
  reload() {
    return this.inOrder(async () => {
      this.last = await this.on.reload();
      await this.catchUp();
    });
  }

  async receive(message) {
    if (message.type === "state") await this.#state(message);
    else if (message.type === "delta") await this.#delta(message);
  }

  async #state({ last, run }) {
    this.on.run(run, run.tasks);
    if (last > this.last) await this.catchUp(last);
    this.connected();
  }

  async #delta({ after, trials, run, tasks }) {
    if (after > this.last) return this.catchUp(after);
    this.#pass(trials);
    this.on.run(run, tasks);
  }

  async catchUp(target = 0) {
    const run = await this.get("");
    if (Math.max(target, run.trials_done) - this.last > FAR_BEHIND) this.last = await this.on.reload();
    for (;;) {
      const columns = await this.get(`/trials?after=${this.last}&limit=${PAGE}`);
      if (!columns.number.length) break;
      this.#pass(columns);
    }
    this.on.run(run, run.tasks);
  }

  #pass(columns) {
    const fresh = newer(columns, this.last);
    if (!fresh.number.length) return;
    this.last = fresh.number.at(-1);
    this.on.trials(fresh);
  }
}

/** The rows of the columns with a number above `last`. */
export function newer(columns, last) {
  const from = columns.number.findIndex((number) => number > last);
  const cut = (column) => (Array.isArray(column) ? (from < 0 ? [] : column.slice(from)) : column);
  return Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, cut(column)]));
}
