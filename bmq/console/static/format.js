// Numbers, sizes and times as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function count(number) {
  return number === null || number === undefined ? "unknown" : number.toLocaleString("en");
}

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  let unit = 0;
  let left = bytes;
  while (left >= 1024 && unit < UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${unit && left < 100 ? left.toFixed(1) : Math.round(left)} ${UNITS[unit]}`;
}

export const rate = (bytes) => `${size(bytes)}/s`;

/** A moment in the browser's zone. */
export function moment(value) {
  if (value === null || value === undefined || value === -1) return "none";
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return String(value);
  const two = (number, digits = 2) => String(number).padStart(digits, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${day} ${time}.${two(date.getMilliseconds(), 3)}`;
}

/** A span of milliseconds, by its two largest units. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "unknown";
  if (ms < 1_000) return `${ms} ms`;
  const seconds = Math.floor(ms / 1_000);
  const parts = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];
  const first = parts.findIndex(([, each]) => seconds >= each);
  return parts.slice(first, first + 2).map(([unit, each], index) => [Math.floor((index ? seconds % parts[first][1] : seconds) / each), unit])
    .filter(([number], index) => index === 0 || number).map(([number, unit]) => `${number} ${unit}`).join(" ");
}

export function words(number, one, many) {
  return `${count(number)} ${number === 1 ? one : many}`;
}
