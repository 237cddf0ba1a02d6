// Quantities as text, the twin of dashboard/presentation/units.py. tests/data/units.json has the cases for both.

export const UNKNOWN = "–";
const SPACE = "\u00a0";
const TIMES = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const COUNTS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "K"], [1, ""]];
const known = (value) => value !== null && value !== undefined;

export const latency = (seconds) => (known(seconds) ? scaled(seconds, TIMES) : UNKNOWN);
export const flop = (operations) => (operations ? scaled(operations, COUNTS) : UNKNOWN);
export const gflops = (speed) => (known(speed) ? digits(speed, 3) : UNKNOWN);
export const count = (number) => (known(number) ? grouped(number, 0) : UNKNOWN);
export const percent = (share) => (known(share) ? `${(share * 100).toFixed(1)}${SPACE}%` : UNKNOWN);

/** A figure's noise behind it; empty if it isn't known. */
export const plus_minus = (noise) => (known(noise) ? `±${SPACE}${(noise * 100).toFixed(noise < 0.00995 ? 1 : 0)}${SPACE}%` : "");

export function speed(trialsASecond) {
  if (!known(trialsASecond)) return UNKNOWN;
  if (trialsASecond >= 1) return `${digits(trialsASecond, 3)}${SPACE}/s`;
  return `${digits(trialsASecond * 60, 3)}${SPACE}/min`;
}

export function duration(seconds) {
  if (!known(seconds)) return UNKNOWN;
  if (seconds < 10) return `${seconds.toFixed(1)}${SPACE}s`;
  const whole = Math.round(seconds);
  const [days, hours, minutes, rest] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
  const two = (number) => String(number).padStart(2, "0");
  if (days) return `${days}${SPACE}d ${hours}${SPACE}h`;
  if (hours) return `${hours}${SPACE}h ${two(minutes)}${SPACE}min`;
  if (minutes) return `${minutes}${SPACE}min ${two(rest)}${SPACE}s`;
  return `${rest}${SPACE}s`;
}

const LEAST_ABOUT_S = 10;
const ROUGHLY = [[55, 1, "s", 10], [9.5 * 60, 60, "min", 1], [57.5 * 60, 60, "min", 5], [9.75 * 3600, 3600, "h", 0.5], [36 * 3600, 3600, "h", 1], [Infinity, 86400, "d", 1]];

/** A time that is only roughly known, in one unit. */
export function about(seconds) {
  if (!known(seconds)) return UNKNOWN;
  if (seconds < LEAST_ABOUT_S) return `less than ${LEAST_ABOUT_S}${SPACE}s`;
  return `about ${roughly(seconds).join(SPACE)}`;
}

/** Two such times; empty if they aren't known, or are the same. */
export function between(bounds) {
  if (!bounds.every(known)) return "";
  const [low, high] = bounds.map((seconds) => roughly(Math.max(seconds, LEAST_ABOUT_S)));
  if (low.join() === high.join()) return "";
  return `${low[1] === high[1] ? low[0] : low.join(SPACE)} to ${high.join(SPACE)}`;
}

function roughly(seconds) {
  const [, size, unit, step] = ROUGHLY.find(([most]) => seconds < most);
  return [String(Math.max(1, halfToEven(seconds / size / step)) * step), unit];
}

/** As Python rounds. */
function halfToEven(number) {
  const whole = Math.round(number);
  return whole - number === 0.5 && whole % 2 ? whole - 1 : whole;
}

/** How long ago, in one unit. */
export function age(seconds) {
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)}${SPACE}${unit} ago`;
  }
  return "just now";
}

/** Trials a second from the times of the latest trials, oldest first; null if there are too few. */
export function recent_speed(times) {
  if (times.length < 2 || times.at(-1) <= times[0]) return null;
  return (times.length - 1) / (times.at(-1) - times[0]);
}

function scaled(value, units) {
  // Rounded before the unit is chosen, so that 999.99 µs becomes 1.000 ms.
  const rounded = Number(value.toPrecision(4));
  const [size, unit] = units.find(([least]) => Math.abs(rounded) >= least) ?? units.at(-1);
  return `${digits(rounded / size, 4)}${unit ? SPACE : ""}${unit}`;
}

function digits(value, wanted) {
  const whole = String(Math.trunc(Math.abs(Number(value.toPrecision(wanted))))).length;
  return grouped(value, Math.max(wanted - whole, 0));
}

// Creating a formatter takes a hundred times as long as using it.
const formatters = [];

function grouped(value, decimals) {
  formatters[decimals] ??= new Intl.NumberFormat("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return formatters[decimals].format(value);
}
