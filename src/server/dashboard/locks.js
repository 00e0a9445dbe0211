// All locks, or those with a prefix: loaded in pages, then kept up to date by events.

import { h, badge, duration, learnClock, now, plural, setText, state, count } from "./dom.js";
import { request, nameIn, queryOf, watch } from "./api.js";
import { live } from "./live.js";
import { virtualRows } from "./rows.js";

const PAGE = 1000;
const MOST = 50000; // names that this page keeps
const EXACT = 20; // changed names that are read one by one; with more, the list is read again
const RELOAD_MS = 10000; // at most this often
const MAX_RATE = 1000; // events a second; above it, the list is read again instead

const SORTS = {
  name: { title: "name", isDown: false, key: (row) => row.name },
  age: { title: "age", isDown: true, key: (row) => (row.holder ? -Date.parse(row.holder.since) : -Infinity) },
  wait: { title: "wait", isDown: true, key: (row) => (row.waiting_since ? -Date.parse(row.waiting_since) : -Infinity) },
  queue: { title: "queue", isDown: true, key: (row) => row.queue_length },
};

let shown = null; // the page while it is shown
let last = "#/locks"; // its search and order

// Where to go back to from a lock.
export const address = () => last;

export function focusRows() {
  if (shown) shown.list.focus();
}

export function search(prefix) {
  if (shown) shown.search(prefix);
}

function holderText(row) {
  if (row.holder) return row.holder_count > 1 ? `${row.holder.client_id} and ${count(row.holder_count - 1)} more` : row.holder.client_id;
  if (row.delayed_until) return h("span", { class: "muted" }, "free after a lock-delay");
  return h("span", { class: "muted" }, row.queue_length > 0 ? "being granted" : "free");
}

const COLUMNS = [
  { title: "Lock", sort: "name", class: "name", cell: (row) => [h("span", { class: "text" }, row.name), row.long_held && badge("bad", "held too long"), row.mode !== "exclusive" && badge("", row.mode)] },
  { title: "Holder", class: "holder", cell: (row) => holderText(row) },
  { title: "Held for", sort: "age", class: "age number", cell: (row) => (row.holder ? duration(now() - Date.parse(row.holder.since)) : "–") },
  { title: "Expires in", class: "expiry number", cell: (row) => (row.holder && row.holder.expires_at ? duration(Date.parse(row.holder.expires_at) - now()) : "–") },
  { title: "Waiting", sort: "queue", class: "queue number", cell: (row) => (row.queue_length > 0 ? count(row.queue_length) : "–") },
  { title: "Waits for", sort: "wait", class: "wait number", cell: (row) => (row.waiting_since ? duration(now() - Date.parse(row.waiting_since)) : "–") },
];

// The row after an event. Approximate for several holders; the list is read again soon after.
function patched(row, event) {
  const next = row ? { ...row } : { name: event.name, mode: event.mode, tier: event.tier, held: false, long_held: false, holder: null, holder_count: 0, queue_length: 0, delayed_until: null };
  const isShared = next.holder_count > 1;
  switch (event.type) {
    case "granted":
      next.held = true;
      next.delayed_until = null;
      next.holder_count = event.mode === "exclusive" || event.mode === "election" ? 1 : next.holder_count + 1;
      if (next.holder_count === 1) next.holder = { client_id: event.client_id, since: event.at, expires_at: event.expires_at };
      break;
    case "released": case "expired": case "forced": case "revoked":
      next.holder_count = Math.max(0, next.holder_count - 1);
      next.long_held = false;
      if (!isShared) { next.held = false; next.holder = null; }
      break;
    case "queued": next.queue_length += 1; break;
    case "wait_ended": next.queue_length = Math.max(0, next.queue_length - 1); break;
    case "delayed": next.delayed_until = event.delayed_until; break;
    case "long_held": next.long_held = true; break;
    default: break;
  }
  return next;
}

class LockList {
  constructor(on) {
    this.on = on; // { rows(), progress(text), failed(error), stream(text) }
    this.rows = new Map();
    this.dirty = new Set();
    this.prefix = "";
    this.generation = 0;
    this.isPartial = false;
    this.stream = null;
    this.loadedAt = 0;
    this.isFlood = false; // events were skipped since the list was read
    this.timer = setInterval(() => this.settle(), 1000);
  }

  // Reads the list from its begin. Rows of before stay visible until the new ones are complete.
  async load(prefix, isQuiet) {
    const generation = ++this.generation;
    const rows = new Map();
    let cursor = null;
    if (!isQuiet) { this.rows = rows; this.dirty.clear(); }
    this.prefix = prefix;
    try {
      do {
        const page = await request(`/api/v1/locks${queryOf({ prefix, limit: PAGE, cursor })}`);
        if (generation !== this.generation) return;
        for (const row of page.locks) { learnClock(row.holder); rows.set(row.name, row); }
        cursor = page.next_cursor;
        if (!isQuiet) this.on.rows(cursor === null);
      } while (cursor !== null && rows.size < MOST);
    } catch (error) {
      if (generation === this.generation) this.on.failed(error);
      return;
    }
    this.isPartial = cursor !== null;
    this.rows = rows;
    this.loadedAt = performance.now();
    this.on.rows(true);
  }

  async open(prefix) {
    this.follow(prefix);
    await this.load(prefix, false);
  }

  follow(prefix) {
    if (this.stream) this.stream.close();
    this.on.stream("connecting");
    this.isFlood = false;
    this.stream = watch(prefix, MAX_RATE, {
      event: (type, event) => this.take(event),
      skipped: () => { this.isFlood = true; this.on.stream("flood"); },
      gap: () => this.load(this.prefix, true),
      state: (text) => { if (text === "live") this.on.stream("live"); else if (text === "waiting") this.on.stream("waiting"); },
    });
  }

  take(event) {
    if (!event.name || event.type === "fence_rejected" || event.type === "renewal_failed" || event.type === "proclaimed") return;
    const row = patched(this.rows.get(event.name), event);
    if (!row.held && row.queue_length === 0 && !row.delayed_until) this.rows.delete(event.name);
    else this.rows.set(event.name, row);
    this.dirty.add(event.name);
  }

  // Once a second: shows what events changed, then reads it, since an event does not say all.
  async settle() {
    if (this.isFlood) {
      if (this.loadedAt > 0 && performance.now() - this.loadedAt > RELOAD_MS) {
        this.isFlood = false;
        this.dirty.clear();
        this.loadedAt = performance.now();
        await this.load(this.prefix, true);
        if (!this.isFlood) this.on.stream("live");
      }
      return;
    }
    if (this.dirty.size === 0) return;
    this.on.rows(true);
    if (this.dirty.size <= EXACT) {
      const names = [...this.dirty];
      this.dirty.clear();
      await Promise.all(names.map((name) => this.read(name)));
      this.on.rows(true);
    } else if (performance.now() - this.loadedAt > RELOAD_MS) {
      this.dirty.clear();
      this.loadedAt = performance.now();
      await this.load(this.prefix, true);
    }
  }

  async read(name) {
    const generation = this.generation;
    try {
      const lock = await request(`/api/v1/locks/${nameIn(name)}?limit=1`);
      if (generation !== this.generation) return;
      const [holder] = lock.holders;
      learnClock(holder);
      const row = { ...lock, holder: holder || null, waiting_since: lock.waiters.length ? lock.waiters[0].since : null };
      if (lock.held || lock.queue_length > 0 || lock.delayed_until) this.rows.set(name, row);
      else this.rows.delete(name);
    } catch { /* the next reading of the list has it */ }
  }

  close() {
    clearInterval(this.timer);
    this.generation++;
    if (this.stream) this.stream.close();
  }
}

const STREAM_WORDS = {
  connecting: "connecting", live: "live", waiting: "reconnecting",
  flood: "too many events to follow each one: refreshed every 10 s; a prefix narrows it",
};

export function show(main, { query }) {
  let sort = query.get("sort") in SORTS ? query.get("sort") : "age";
  let isDown = query.has("down") ? query.get("down") === "1" : SORTS[sort].isDown;
  let prefix = query.get("prefix") || "";
  const input = document.getElementById("search");
  if (document.activeElement !== input) input.value = prefix;

  const summary = h("p", { class: "summary", id: "lock-count", role: "status" });
  const streaming = h("span", { class: "muted", id: "lock-stream" });
  const body = h("div", {});
  const select = h("select", { id: "sort" }, Object.entries(SORTS).map(([key, { title }]) => h("option", { value: key }, title)));
  const rows = virtualRows({ label: "Locks", columns: COLUMNS, open: (row) => { location.hash = `#/lock/${nameIn(row.name)}`; }, onSort: (key) => sortBy(key) });
  main.append(h("div", { class: "headline" }, h("h1", {}, "Locks"), summary, streaming,
    h("span", { class: "grow" }), h("label", { for: "sort" }, "Sort by"), select), body);
  body.append(state("loading", "Loading"));

  function remember() {
    const more = new URLSearchParams({ ...(prefix && { prefix }), sort, down: isDown ? "1" : "0" });
    last = `#/locks?${more}`;
    history.replaceState(null, "", last);
  }

  function sorted() {
    const { key } = SORTS[sort];
    const keyed = Array.from(list.rows.values(), (row) => [key(row), row]);
    const sign = isDown ? -1 : 1;
    keyed.sort(([a, x], [b, y]) => {
      if (a === b) return x.name < y.name ? -1 : 1;
      if (a === -Infinity || b === -Infinity) return a === -Infinity ? 1 : -1; // without a figure: last
      return a < b ? -sign : sign;
    });
    return keyed.map(([, row]) => row);
  }

  function draw(isComplete) {
    const total = list.rows.size;
    setText(summary, `${plural(total, "lock")}${prefix ? ` with the prefix ${prefix}` : ""}${isComplete ? "" : ", loading more"}${list.isPartial ? `; only the first ${count(MOST)} are shown, a prefix narrows it` : ""}`);
    if (total > 0) {
      if (!rows.root.isConnected) body.replaceChildren(rows.root);
      rows.update(sorted());
    } else if (isComplete) {
      body.replaceChildren(prefix ? state("empty", "No such lock", `No lock in use begins with "${prefix}". Free locks are not listed.`)
        : state("empty", "No locks are in use", "A lock appears here when a client holds it or waits for it."));
    }
  }

  const list = new LockList({
    rows: draw,
    failed: (error) => body.replaceChildren(error.status === 403 ? state("denied", "This principal may not list locks", error.message)
      : state("error", "The locks could not be read", error.message, h("button", { type: "button", onclick: () => list.open(prefix) }, "Try again"))),
    stream: (text) => setText(streaming, STREAM_WORDS[text]),
  });

  function sortBy(key) {
    isDown = key === sort ? !isDown : SORTS[key].isDown;
    sort = key;
    select.value = sort;
    rows.showSort(sort, isDown);
    remember();
    draw(true);
  }

  select.value = sort;
  select.addEventListener("change", () => { sort = select.value; isDown = SORTS[sort].isDown; rows.showSort(sort, isDown); remember(); draw(true); });
  rows.showSort(sort, isDown);
  shown = {
    list: rows,
    search(text) {
      prefix = text;
      remember();
      list.open(prefix);
    },
  };
  if (query.size > 0) last = location.hash;
  list.open(prefix);
  const stop = live.on("tick", () => { if (rows.root.isConnected) rows.refresh(); });
  return () => {
    stop();
    list.close();
    rows.close();
    shown = null;
  };
}

