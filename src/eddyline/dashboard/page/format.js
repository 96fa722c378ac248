// Texts for numbers, sizes and times.

export const count = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));

export function rate(value, unit = "/s") {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return (value >= 10 || value === 0 ? Math.round(value).toLocaleString("en") : value.toPrecision(2)) + unit;
}

export function short(value) {
  if (value === null || value === undefined) return "";
  const steps = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, letter] of steps) if (Math.abs(value) >= size) return `${+(value / size).toPrecision(3)}${letter}`;
  return `${+value.toPrecision(3)}`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
  return `${value} B`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0 s";
  if (value < 1e-3) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1e3).toPrecision(3)} ms`;
  if (value < 120) return `${value.toPrecision(3)} s`;
  if (value < 7200) return `${(value / 60).toFixed(1)} min`;
  if (value < 172800) return `${(value / 3600).toFixed(1)} h`;
  return `${count(value / 86400)} days`;
}

export function percent(value) {
  if (value === null || value === undefined) return "–";
  return value > 0 && value < 0.001 ? "< 0.1 %" : `${(100 * value).toFixed(1)} %`;
}

export function clock(wall) {
  return wall ? new Date(wall * 1000).toLocaleTimeString("en-GB") : "–";
}

// The time of day, with the date if it is not today.
export function lately(wall) {
  return !wall ? "–" : new Date(wall * 1000).toDateString() === new Date().toDateString() ? clock(wall) : day(wall).replace(",", "");
}

export function dayAndHour(wall) {
  return new Date(wall * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}

export function day(wall) {
  return wall ? new Date(wall * 1000).toLocaleString("en-GB", { dateStyle: "short", timeStyle: "medium" }) : "–";
}

// Event times are microseconds in UTC.
export function moment(micros) {
  if (micros === null || micros === undefined) return "–";
  const found = new Date(micros / 1000);
  return Number.isNaN(found.getTime()) ? String(micros) : found.toISOString().replace("T", " ").slice(0, 19);
}
