// Elements, and how figures are written. Text is only ever set as text, never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Replaces the text only if it differs, so that an unchanged figure causes no layout.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const count = (n) => (n === null || n === undefined ? "–" : Number(n).toLocaleString("en-US"));

export function rate(n) {
  if (n === null || n === undefined) return "–";
  return n >= 100 ? count(Math.round(n)) : n >= 10 ? n.toFixed(0) : n === 0 ? "0" : n.toFixed(n < 1 ? 2 : 1);
}

export function milliseconds(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0 ms";
  if (ms >= 10000) return duration(ms);
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2)} ms`;
}

export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { year: "numeric", month: "short", day: "2-digit" });

// The local time, with the day if it is not today. The exact text of the service is the title.
export function when(text) {
  if (!text) return h("span", {}, "–");
  const date = new Date(text);
  const isToday = date.toDateString() === new Date().toDateString();
  return h("time", { datetime: text, title: text }, isToday ? clock.format(date) : `${day.format(date)} ${clock.format(date)}`);
}

export const clockTime = (date) => clock.format(date);

export const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many || `${one}s`}`;

// The time of the service, from an answer that has a deadline in both forms. Clocks of browsers may be wrong.
let skew = 0;
export function learnClock(row) {
  if (row && row.expires_at && typeof row.expires_in_ms === "number" && row.expires_in_ms > 0) {
    skew = Date.parse(row.expires_at) - row.expires_in_ms - Date.now();
  }
}
export const now = () => Date.now() + skew;

// What a page shows in the place of its content: loading, empty, error, denied.
export function state(kind, title, text, ...more) {
  return h("section", { class: `state ${kind}`, role: kind === "error" || kind === "denied" ? "alert" : "status" },
    h("h2", {}, title), text && h("p", {}, text), ...more);
}

export function badge(kind, text) {
  return h("span", { class: `badge ${kind}` }, text);
}

export function sectionOf(title, ...content) {
  return h("section", { class: "panel" }, h("h2", {}, title), ...content);
}

export function table(caption, columns, rows) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col", class: column.class }, column.title)))),
      h("tbody", {}, rows.map((row) => h("tr", { class: row.class },
        columns.map((column, i) => h("td", { class: column.class, "data-label": column.title }, row.cells[i])))))));
}
