// One lock: its holders with their deadlines, its queue in order, who waits for whom, what happened before.

import { h, badge, count, duration, learnClock, milliseconds, now, plural, sectionOf, setText, state, table, when } from "./dom.js";
import { request, nameIn, queryOf, watch } from "./api.js";
import { live } from "./live.js";
import { waitGraph } from "./graph.js";
import { address } from "./locks.js";
import { forceUnlock, revoke } from "./operate.js";

const QUEUE = 200; // waiters that are shown
const HISTORY = 50;
const REREAD_MS = 5000;
const GATHER_MS = 150; // events that come together are one reading
const MAX_RATE = 20; // events a second

const ENDS = {
  released: "released", session_closed: "session closed", expired: "expired", session_expired: "session expired",
  forced: "forced", revoked: "revoked", recovered: "ended by a recovery", max_hold: "held for its longest time",
};

function detail(name, value) {
  return value === null || value === undefined || value === "" || value === false ? [] : [h("dt", {}, name), h("dd", {}, value)];
}

// Text that counts down or up; the lock page draws them again twice a second.
function counting(read) {
  const element = h("span", { class: "counting" });
  element.draw = () => setText(element, read());
  element.draw();
  return element;
}

function holderCard(lock, holder, reread) {
  const token = holder.fencing_token;
  const expiry = holder.expires_at ? Date.parse(holder.expires_at) : null;
  const actions = token === undefined ? null : h("div", { class: "actions" },
    h("button", { type: "button", class: "danger force", onclick: () => forceUnlock(lock.name, holder, reread) }, "Force-unlock"),
    h("button", { type: "button", class: "revoke", onclick: () => revoke(lock.name, holder, reread) }, "Revoke"));
  return h("article", { class: `holder${holder.long_held ? " long" : ""}` },
    h("h3", {}, h("span", { class: "text" }, holder.client_id), holder.long_held && badge("bad", "held too long"), holder.revoked_at && badge("warn", "revoked")),
    h("div", { class: "clocks" },
      h("div", {}, h("span", { class: "name" }, "Held for"), counting(() => duration(now() - Date.parse(holder.since)))),
      h("div", {}, h("span", { class: "name" }, "Expires in"), counting(() => (expiry === null ? "never" : expiry <= now() ? "due now" : duration(expiry - now() + 999))))),
    h("dl", {}, detail("Fencing token", token !== undefined && h("span", { class: "mono" }, String(token))),
      detail("Since", when(holder.since)), detail("Owner", holder.owner), detail("Permits", holder.permits && count(holder.permits)),
      detail("Slot", holder.slot), detail("Entered", holder.depth > 1 && plural(holder.depth, "time")),
      detail("Multi-lock", holder.multilock_names && plural(holder.multilock_names, "name")),
      detail("Value", holder.value), detail("Ends at the latest", holder.hold_until && when(holder.hold_until)),
      detail("Revoked at", holder.revoked_at && when(holder.revoked_at)),
      detail("Session", holder.session_id && h("span", { class: "mono" }, holder.session_id)),
      detail("Lease", holder.lease_id && h("span", { class: "mono" }, holder.lease_id)),
      detail("Trace", holder.trace && h("span", { class: "mono" }, holder.trace)),
      detail("Metadata", holder.metadata !== null && holder.metadata !== undefined && h("code", {}, JSON.stringify(holder.metadata)))),
    actions);
}

function queueTable(lock) {
  if (lock.waiters.length === 0) return h("p", { class: "muted" }, "Nobody waits.");
  const columns = [{ title: "Place", class: "number" }, { title: "Client" }, { title: "Waits for", class: "number" }, { title: "Gives up" }, { title: "Through", class: "wide" }, { title: "Mode", class: "wide" }];
  const rows = lock.waiters.map((w) => ({ cells: [
    String(w.position),
    [w.client_id, w.owner && ` (${w.owner})`, w.detached && badge("warn", "disconnected")],
    w.since ? counting(() => duration(now() - Date.parse(w.since))) : "–",
    w.gives_up_at ? when(w.gives_up_at) : "never", `node ${w.node}`, w.mode] }));
  const more = lock.queue_length - lock.waiters.length;
  return [table("Queue", columns, rows), more > 0 && h("p", { class: "muted" }, `and ${plural(more, "more client")} behind these.`)];
}

function endOf(hold) {
  if (hold.held) return badge("accent", "holds it now");
  if (!hold.ended || hold.ended === "unknown") return h("span", { class: "muted" }, "how it ended is not recorded");
  return [ENDS[hold.ended] || hold.ended, hold.actor_id && ` by ${hold.actor_id}`, hold.reason && `: ${hold.reason}`];
}

function historyTable(answer) {
  const rows = answer.holds.map((hold) => ({ cells: [
    when(hold.acquired_at), [hold.client_id, hold.owner && ` (${hold.owner})`], hold.fencing_token === undefined ? "–" : String(hold.fencing_token),
    hold.held_ms === null || hold.held_ms === undefined ? "–" : milliseconds(hold.held_ms), hold.waited_ms ? milliseconds(hold.waited_ms) : "–", endOf(hold)] }));
  return rows.length === 0 ? h("p", { class: "muted" }, "No hold is recorded.")
    : table("History", [{ title: "From" }, { title: "Holder" }, { title: "Token", class: "number wide" }, { title: "Held for", class: "number" }, { title: "Waited", class: "number" }, { title: "How it ended" }], rows);
}

function statusOf(lock) {
  if (lock.held) return [badge("accent", lock.holder_count > 1 ? plural(lock.holder_count, "holder") : "held"), lock.long_held && badge("bad", "held too long")];
  if (lock.delayed_until) return [badge("warn", "lock-delay"), h("span", { class: "muted" }, " free at ", when(lock.delayed_until))];
  return [badge("good", "free")];
}

export function show(main, { rest: name }) {
  const headline = h("div", { class: "headline" });
  const holders = h("div", { class: "holders", id: "holders" });
  const queue = h("div", { id: "queue" });
  const graph = h("div", { id: "graph" });
  const past = h("div", { id: "history" });
  const queueTitle = h("span", {}, "Queue");
  const body = h("div", { class: "lock" }, sectionOf("Holder", holders), sectionOf(queueTitle, queue), sectionOf("Who waits for whom", graph), sectionOf("History", past));
  const failure = h("div", {});
  main.append(headline, failure, body);
  body.hidden = true;
  headline.append(h("h1", {}, name));
  failure.append(state("loading", "Loading"));

  const closing = new AbortController();
  let isReading = false;
  let isAgain = false;
  let timer = 0;

  async function readHistory() {
    try {
      const answer = await request(`/api/v1/locks/${nameIn(name)}/history${queryOf({ limit: HISTORY })}`, { signal: closing.signal });
      if (!answer.holds) { // an older node takes the path for the name of a lock
        past.replaceChildren(h("p", { class: "muted" }, "This node does not record the history of locks."));
        return;
      }
      past.replaceChildren(...[historyTable(answer),
        answer.next_cursor && h("p", { class: "muted" }, `The newest ${HISTORY} holds. For others: `, h("code", {}, `holdfast history ${name}`)),
        answer.gaps && answer.gaps.length > 0 && h("p", { class: "problem" }, `Node ${answer.node} has no record of ${plural(answer.gaps.length, "period")} in between.`),
        answer.complete_since && h("p", { class: "muted" }, `Node ${answer.node} has everything since `, when(answer.complete_since), ".")].flat().filter(Boolean));
    } catch (error) {
      if (error.name === "AbortError") return;
      past.replaceChildren(h("p", { class: "muted" }, error.status === 404 ? "This node does not record the history of locks." : error.status === 403 ? `Not allowed: ${error.message}` : `The history is not available: ${error.message}`));
    }
  }

  function draw(lock) {
    lock.holders.forEach(learnClock);
    headline.replaceChildren(h("a", { href: address(), class: "back", "aria-label": "Back to the locks" }, "Locks"), h("h1", {}, lock.name), ...statusOf(lock).filter(Boolean),
      h("span", { class: "muted" }, [lock.mode, lock.limit ? `limit ${lock.limit}` : "", lock.tier === "EFFICIENCY" ? "tier EFFICIENCY" : "", lock.long_held_after_ms ? `too long after ${duration(lock.long_held_after_ms)}` : ""].filter(Boolean).join(", ")));
    failure.replaceChildren();
    body.hidden = false;
    holders.replaceChildren(...(lock.holders.length ? lock.holders.map((holder) => holderCard(lock, holder, read)) : [h("p", { class: "muted" }, "Nobody holds this lock.")]));
    if (lock.holder_count > lock.holders.length) holders.append(h("p", { class: "muted" }, `and ${plural(lock.holder_count - lock.holders.length, "more holder")}.`));
    setText(queueTitle, lock.queue_length ? `Queue of ${count(lock.queue_length)}` : "Queue");
    queue.replaceChildren(...[queueTable(lock)].flat().filter(Boolean));
    waitGraph(graph, lock, closing.signal);
  }

  async function read() {
    if (isReading) { isAgain = true; return; }
    isReading = true;
    clearTimeout(timer);
    try {
      draw(await request(`/api/v1/locks/${nameIn(name)}?limit=${QUEUE}`, { signal: closing.signal }));
      readHistory();
    } catch (error) {
      if (error.name === "AbortError") return;
      body.hidden = true;
      failure.replaceChildren(error.status === 403 ? state("denied", "This principal may not read this lock", error.message)
        : state("error", "The lock could not be read", error.message));
    }
    isReading = false;
    timer = setTimeout(read, isAgain ? GATHER_MS : REREAD_MS);
    isAgain = false;
  }

  const readSoon = () => {
    clearTimeout(timer);
    if (isReading) isAgain = true;
    else timer = setTimeout(read, GATHER_MS);
  };
  const stream = watch(name, MAX_RATE, {
    event: (type, event) => { if (event.name === name && type !== "fence_rejected") readSoon(); },
    skipped: readSoon,
    gap: read,
    state: (text) => { if (text === "live" && !isReading) read(); },
  });
  const stop = live.on("tick", () => { for (const element of main.querySelectorAll(".counting")) element.draw(); });
  read();
  return () => {
    closing.abort();
    clearTimeout(timer);
    stream.close();
    stop();
  };
}
