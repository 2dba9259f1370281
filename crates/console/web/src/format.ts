// Numbers, sizes, times and durations as text. Always in one format, so that columns line up.

const NUMBER = new Intl.NumberFormat("en-US");
export const NONE = "–";

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : NUMBER.format(value);
}

/** Per second. */
export function rate(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value === 0) return "0";
  return value < 10 ? value.toFixed(1) : NUMBER.format(Math.round(value));
}

export function size(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit++;
  }
  return `${unit === 0 || left >= 100 ? Math.round(left) : left.toFixed(1)} ${units[unit]}`;
}

export function span(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return NONE;
  const secs = Math.floor(Math.abs(ms) / 1000);
  if (secs < 1) return `${Math.round(Math.abs(ms))} ms`;
  if (secs < 60) return `${secs} s`;
  if (secs < 3600) return `${Math.floor(secs / 60)} min ${secs % 60} s`;
  if (secs < 86400) return `${Math.floor(secs / 3600)} h ${Math.floor((secs % 3600) / 60)} min`;
  return `${NUMBER.format(Math.floor(secs / 86400))} d ${Math.floor((secs % 86400) / 3600)} h`;
}

/** `2026-11-23 13:00:00.123` of an RFC 3339 text, in UTC as the broker writes it. */
export function time(text: string | null | undefined): string {
  if (!text) return NONE;
  return text.replace("T", " ").replace(/(\.\d{3})?\d*Z$/, "");
}

export function clockTime(text: string | null | undefined): string {
  return text ? time(text).slice(11) : NONE;
}

/** RFC 3339 of a `datetime-local` field that is read as UTC; the browser leaves out seconds that are zero. */
export function utcOfField(text: string): string {
  return `${text}${text.length === 16 ? ":00" : ""}Z`;
}

/** How far `text` is from the broker's time: "3 s ago", "in 20 s". */
export function relative(text: string | null | undefined, nowMs: number): string {
  if (!text) return NONE;
  const ms = Date.parse(text) - nowMs;
  if (Number.isNaN(ms)) return text;
  if (ms > 365_000 * 86_400_000) return "never";
  return ms > 0 ? `in ${span(ms)}` : `${span(ms)} ago`;
}

/** `PT1H` from whole milliseconds. */
export function isoDuration(ms: number): string {
  return `PT${ms / 1000}S`;
}

export function title(name: string): string {
  const words = name.replace(/_(bytes|ms)$/, "").replace(/_/g, " ").replace(/([a-z])([A-Z])/g, "$1 $2");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A value of unknown kind, with its unit from the end of its name. */
export function named(name: string, value: unknown): string {
  if (typeof value === "number") {
    if (name.endsWith("bytes")) return size(value);
    if (name.endsWith("_ms")) return span(value);
    return count(Number.isInteger(value) ? value : Math.round(value * 1000) / 1000);
  }
  if (value === null || value === undefined) return NONE;
  if (typeof value === "string" || typeof value === "boolean") return String(value);
  return JSON.stringify(value);
}

/** Parts of an entity's path: `news`, `all` of `news/Subscriptions/all`. */
export function subscriptionOf(path: string): { topic: string; name: string } | null {
  const at = path.toLowerCase().lastIndexOf("/subscriptions/");
  return at < 0 ? null : { topic: path.slice(0, at), name: path.slice(at + "/subscriptions/".length) };
}
