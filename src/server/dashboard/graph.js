// Who waits for whom, from one lock on: clients and locks as boxes, "waits for" and "is held by" as arrows. Locks
// that the holders wait for are followed too, so a circle of waits (a deadlock) becomes visible.

import { h, svg, plural } from "./dom.js";
import { request, nameIn } from "./api.js";

const CLIENTS = 8; // of each lock
const CONTENDED = 20; // locks with a queue that are examined
const DEPTH = 4; // locks in a row
const KEEP_MS = 5000;
const BOX = { width: 196, height: 30, gapX: 52, gapY: 12 };

function short(text, most = 27) {
  return text.length > most ? `${text.slice(0, 9)}…${text.slice(10 - most)}` : text;
}

// Locks with a queue, besides the one that is shown. Their waiters say what a holder waits for. Kept for some
// seconds, since a busy lock is drawn often.
let kept = { at: -Infinity, but: "", locks: [] };
async function contendedLocks(but, signal) {
  if (kept.but === but && performance.now() - kept.at < KEEP_MS) return kept.locks;
  const page = await request("/api/v1/locks?limit=1000", { signal });
  const names = page.locks.filter((row) => row.queue_length > 0 && row.name !== but).sort((a, b) => b.queue_length - a.queue_length).slice(0, CONTENDED).map((row) => row.name);
  const locks = await Promise.all(names.map((name) => request(`/api/v1/locks/${nameIn(name)}?limit=20`, { signal })));
  kept = { at: performance.now(), but, locks };
  return locks;
}

// Boxes by column: waiting clients, the lock, its holders, the locks they wait for, and so on.
function layersOf(lock, others) {
  const layers = [lock.waiters.slice(0, CLIENTS).map((w) => ({ kind: "client", text: w.client_id })), [{ kind: "lock", text: lock.name }]];
  const arrows = layers[0].map((_, i) => ({ from: [0, i], to: [1, 0] }));
  const places = new Map([[`lock ${lock.name}`, [1, 0]]]);
  layers[0].forEach((box, i) => { if (!places.has(`client ${box.text}`)) places.set(`client ${box.text}`, [0, i]); });
  let locks = [[lock, [1, 0]]];
  for (let depth = 0; depth < DEPTH && locks.length > 0; depth++) {
    const next = [];
    const holdersAt = 2 + 2 * depth;
    for (const [one, at] of locks) {
      for (const holder of one.holders.slice(0, CLIENTS)) {
        const key = `client ${holder.client_id}`;
        if (places.has(key)) { arrows.push({ from: at, to: places.get(key), isBack: true }); continue; }
        layers[holdersAt] = layers[holdersAt] || [];
        const place = [holdersAt, layers[holdersAt].push({ kind: "client", text: holder.client_id, holds: true }) - 1];
        places.set(key, place);
        arrows.push({ from: at, to: place });
        for (const other of others.filter((o) => o.waiters.some((w) => w.client_id === holder.client_id))) {
          const known = places.get(`lock ${other.name}`);
          if (known) { arrows.push({ from: place, to: known, isBack: true }); continue; }
          layers[holdersAt + 1] = layers[holdersAt + 1] || [];
          const lockPlace = [holdersAt + 1, layers[holdersAt + 1].push({ kind: "lock", text: other.name }) - 1];
          places.set(`lock ${other.name}`, lockPlace);
          arrows.push({ from: place, to: lockPlace });
          next.push([other, lockPlace]);
        }
      }
    }
    locks = next;
  }
  return { layers, arrows };
}

function draw(lock, others) {
  const { layers, arrows } = layersOf(lock, others);
  const tallest = Math.max(...layers.map((layer) => layer.length));
  const below = arrows.some((arrow) => arrow.isBack) ? 26 : 0; // arrows back
  const height = tallest * (BOX.height + BOX.gapY) + below;
  const width = layers.length * (BOX.width + BOX.gapX) - BOX.gapX + 4;
  const x = (column) => 2 + column * (BOX.width + BOX.gapX);
  const y = (column, i) => (height - below - layers[column].length * (BOX.height + BOX.gapY)) / 2 + i * (BOX.height + BOX.gapY) + BOX.gapY / 2;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", class: "graph" },
    svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto-start-reverse" }, svg("path", { d: "M0 0L8 4L0 8z", class: "tip" }))));
  for (const { from, to, isBack } of arrows) {
    const x1 = x(from[0]) + BOX.width;
    const y1 = y(...from) + BOX.height / 2;
    const y2 = y(...to) + BOX.height / 2;
    const path = isBack ? `M${x(from[0]) + BOX.width / 2} ${y(...from) + BOX.height}C${x(from[0]) + BOX.width / 2} ${height - 2} ${x(to[0]) + BOX.width / 2} ${height - 2} ${x(to[0]) + BOX.width / 2} ${y(...to) + BOX.height + 2}`
      : `M${x1} ${y1}C${x1 + BOX.gapX / 2} ${y1} ${x(to[0]) - BOX.gapX / 2} ${y2} ${x(to[0]) - 2} ${y2}`;
    picture.append(svg("path", { d: path, class: `arrow${isBack ? " back" : ""}`, "marker-end": "url(#arrow)" }));
  }
  layers.forEach((layer, column) => layer.forEach((box, i) => {
    const group = svg("g", { class: `box ${box.kind}` },
      svg("title", {}, box.text),
      svg("rect", { x: x(column), y: y(column, i), width: BOX.width, height: BOX.height, rx: box.kind === "lock" ? 4 : 15 }),
      svg("text", { x: x(column) + BOX.width / 2, y: y(column, i) + BOX.height / 2 + 4, "text-anchor": "middle" }, short(box.text)));
    picture.append(group);
  }));
  const hasCircle = arrows.some((arrow) => arrow.isBack);
  const words = `${plural(lock.queue_length, "client")} ${lock.queue_length === 1 ? "waits" : "wait"} for ${lock.name}, held by ${lock.holders.map((holder) => holder.client_id).slice(0, CLIENTS).join(", ") || "nobody"}.`;
  picture.setAttribute("aria-label", words + (hasCircle ? " There is a circle of waits." : ""));
  return [h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Who waits for whom" }, picture),
    hasCircle && h("p", { class: "problem" }, "There is a circle: these clients may wait for each other."),
    lock.queue_length > CLIENTS && h("p", { class: "muted" }, `Only the first ${CLIENTS} of ${lock.queue_length} waiting clients are drawn.`)].filter(Boolean);
}

// Shows the graph in `place`; first of this lock alone, then with what its holders wait for.
export async function waitGraph(place, lock, signal) {
  if (lock.holders.length === 0 && lock.waiters.length === 0) {
    place.replaceChildren(h("p", { class: "muted" }, "Nobody holds this lock and nobody waits for it."));
    return;
  }
  let others = kept.but === lock.name ? kept.locks : [];
  place.replaceChildren(...draw(lock, others));
  try {
    others = await contendedLocks(lock.name, signal);
  } catch { /* without the right to list, the graph has this lock only */ }
  if (!signal.aborted) place.replaceChildren(...draw(lock, others));
}
