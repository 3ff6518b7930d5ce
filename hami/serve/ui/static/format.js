// Numbers as people read them; "–" where there is none.

const NONE = "–";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

const round = (value, digits) => value.toFixed(value === 0 ? 0 : digits);

export function count(value) {
  if (value === null || value === undefined) return NONE;
  return Math.abs(value) < 100_000 ? whole.format(value) : short.format(value);
}

export function rate(value) {
  if (value === null) return NONE;
  if (value >= 100_000) return short.format(value);
  if (value >= 100) return whole.format(value);
  return round(value, value >= 10 ? 1 : 2);
}

// `ms` with the unit that suits its size.
export function duration(ms) {
  if (ms === null || ms === undefined) return NONE;
  if (ms < 0.9995) return `${round(ms * 1000, 0)} µs`;
  if (ms < 999.5) return `${round(ms, ms < 9.995 ? 2 : ms < 99.95 ? 1 : 0)} ms`;
  return `${round(ms / 1000, ms < 9995 ? 2 : 1)} s`;
}

export function share(value) {
  return value === null ? NONE : `${(100 * value).toFixed(value > 0 && value < 0.1 ? 1 : 0)} %`;
}

export function bytes(value) {
  const units = ["B", "KB", "MB", "GB"];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${round(value, unit && value < 10 ? 1 : 0)} ${units[unit]}`;
}

export function timeOfDay(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

// Of a figure or a reason: `num_steps` is "steps".
export function words(name) {
  return name.replace(/^num_/, "").replaceAll("_", " ");
}
