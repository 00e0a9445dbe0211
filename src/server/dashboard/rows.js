// A table of any length that keeps only the visible rows in the document. Rows have one height. Arrow keys,
// Page Up and Down, Home and End move the active row, Enter opens it.

import { h } from "./dom.js";

// Pixels, as in style.css: a narrow screen has two lines a row.
const rowHeight = () => (matchMedia("(max-width: 640px)").matches ? 54 : 34);
const SPARE = 6; // rows above and below the visible part

// `columns`: [{ key, title, sort, class, cell(row) }]. `cell` returns text or an element; `update(rows)` shows
// other rows; `refresh()` draws the visible ones again.
export function virtualRows({ label, columns, open, onSort }) {
  const height = rowHeight();
  let rows = [];
  let active = -1;
  let drawn = new Map(); // index: element
  let queued = false;
  const id = `rows-${label.replace(/\W+/g, "-").toLowerCase()}`;

  const heads = columns.map((column) => h("span", { class: `cell ${column.class || ""}`, role: "columnheader", "aria-sort": "none" },
    column.sort ? h("button", { type: "button", class: "sort", onclick: () => onSort(column.sort) }, column.title) : column.title));
  const head = h("div", { class: "row head", role: "row" }, heads);
  const space = h("div", { class: "space", role: "rowgroup" });
  const view = h("div", { class: "view", role: "grid", tabindex: "0", "aria-label": label, "aria-colcount": columns.length },
    h("div", { class: "headgroup", role: "rowgroup" }, head), space);

  function rowElement(i) {
    const row = rows[i];
    const element = h("div", { class: `row${i === active ? " active" : ""}`, role: "row", id: `${id}-${i}`, "aria-rowindex": i + 2, "aria-selected": i === active ? "true" : "false" },
      columns.map((column) => h("span", { class: `cell ${column.class || ""}`, role: "gridcell" }, column.cell(row))));
    element.style.transform = `translateY(${i * height}px)`;
    element.addEventListener("click", () => { setActive(i); open(rows[i]); });
    return element;
  }

  function draw(isAgain) {
    queued = false;
    const from = Math.max(0, Math.floor(view.scrollTop / height) - SPARE);
    const to = Math.min(rows.length, Math.ceil((view.scrollTop + view.clientHeight) / height) + SPARE);
    const next = new Map();
    for (const [i, element] of drawn) {
      if (isAgain || i < from || i >= to) element.remove();
      else next.set(i, element);
    }
    for (let i = from; i < to; i++) {
      if (!next.has(i)) {
        const element = rowElement(i);
        next.set(i, element);
        space.append(element);
      }
    }
    drawn = next;
    if (active >= 0 && drawn.has(active)) view.setAttribute("aria-activedescendant", `${id}-${active}`);
    else view.removeAttribute("aria-activedescendant");
  }

  function schedule() {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => draw(false));
  }

  function setActive(i) {
    if (rows.length === 0) return;
    active = Math.max(0, Math.min(rows.length - 1, i));
    const top = active * height;
    const visible = view.clientHeight - head.offsetHeight;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (top + height > view.scrollTop + visible) view.scrollTop = top + height - visible;
    draw(true);
  }

  view.addEventListener("scroll", schedule, { passive: true });
  view.addEventListener("keydown", (event) => {
    if (event.target !== view || event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(view.clientHeight / height) - 2);
    const moves = { ArrowDown: active + 1, ArrowUp: active < 0 ? 0 : active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: rows.length - 1 };
    if (event.key === "Enter" && active >= 0 && rows[active]) open(rows[active]);
    else if (event.key in moves) setActive(moves[event.key]);
    else return;
    event.preventDefault();
  });
  const resized = new ResizeObserver(schedule);
  resized.observe(view);

  return {
    root: view,
    focus() {
      view.focus();
      if (active < 0) setActive(0);
    },
    showSort(sort, isDown) {
      columns.forEach((column, i) => heads[i].setAttribute("aria-sort", column.sort !== sort ? "none" : isDown ? "descending" : "ascending"));
    },
    update(newRows) {
      rows = newRows;
      if (active >= rows.length) active = rows.length - 1;
      view.setAttribute("aria-rowcount", rows.length + 1);
      space.style.height = `${rows.length * height}px`;
      draw(true);
    },
    refresh: () => draw(true),
    close: () => resized.disconnect(),
  };
}
