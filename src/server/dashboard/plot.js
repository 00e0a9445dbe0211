// A small live plot of one or two series, as SVG. A null is a gap: nothing was measured.

import { h, svg, setText } from "./dom.js";

const WIDTH = 300;
const HEIGHT = 64;

// The smallest 1, 2 or 5 times a power of ten that is not below `value`.
function niceCeiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((ceiling) => ceiling >= value * 0.999);
}

function pathOf(values, top, points) {
  let path = "";
  let isOpen = false;
  values.forEach((value, i) => {
    if (value === null || value === undefined) { isOpen = false; return; }
    const x = WIDTH - (values.length - 1 - i) * (WIDTH / (points - 1));
    const y = HEIGHT - 2 - (value / top) * (HEIGHT - 8);
    path += `${isOpen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    isOpen = true;
  });
  return path;
}

function areaOf(values, path, points) {
  if (!path || path.indexOf("M", 1) !== -1) return "";
  const first = values.findIndex((value) => value !== null && value !== undefined);
  const x = WIDTH - (values.length - 1 - first) * (WIDTH / (points - 1));
  return `${path}V${HEIGHT}H${x.toFixed(1)}Z`;
}

// `format`: how a figure is written. `series`: names of the lines, the first is the main one.
// update([[...], [...]]) draws the newest `points` values of each.
export function plot({ title, format, series = [""], points = 120 }) {
  const lines = series.map((_, i) => svg("path", { class: `line line-${i}`, fill: "none", "vector-effect": "non-scaling-stroke" }));
  const area = svg("path", { class: "area" });
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "grid", d: `M0 ${HEIGHT - 1}H${WIDTH}M0 6H${WIDTH}`, "vector-effect": "non-scaling-stroke" }), area, lines);
  const figures = series.map(() => h("span", { class: "figure" }));
  const top = h("span", { class: "top" });
  const root = h("figure", { class: "plot" },
    h("figcaption", {}, h("span", { class: "name" }, title),
      h("span", { class: "figures" }, series.map((name, i) => h("span", { class: `series series-${i}` }, name && h("span", { class: "label" }, name), figures[i])))),
    h("div", { class: "canvas" }, picture, top));

  function update(all) {
    const shown = all.map((values) => values.slice(-points));
    const known = shown.flat().filter((value) => value !== null && value !== undefined);
    const ceiling = niceCeiling(Math.max(0, ...known));
    shown.forEach((values, i) => {
      const path = pathOf(values, ceiling, points);
      lines[i].setAttribute("d", path);
      if (i === 0) area.setAttribute("d", areaOf(values, path, points));
      setText(figures[i], format(values.length ? values[values.length - 1] : null));
    });
    setText(top, known.length ? format(ceiling) : "");
  }

  update(series.map(() => []));
  return { root, update };
}
