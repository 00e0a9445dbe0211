// The events of the cluster as they happen. Pausing keeps the page still; what comes meanwhile is counted.

import { h, clockTime, count, plural, setText, state } from "./dom.js";
import { nameIn, watch } from "./api.js";

const KEPT = 500; // lines in the document
const MAX_RATE = 200; // events a second
const FRAME_MS = 200;

const WORDS = {
  granted: "granted", reentered: "entered again", queued: "queued", wait_ended: "wait ended", detached: "waiter disconnected",
  renewal_failed: "renewal failed", released: "released", expired: "expired", forced: "forced", revoked: "revoked",
  revoke_requested: "revoke requested", delayed: "lock-delay", session_opened: "session opened", session_closed: "session closed",
  session_expired: "session expired", leader_changed: "leader of an election", proclaimed: "proclaimed", fence_rejected: "fence rejected",
  epoch: "new leader of the cluster", upgraded: "state upgraded", long_held: "held too long",
};
const BAD = new Set(["renewal_failed", "expired", "forced", "revoked", "session_expired", "fence_rejected", "long_held"]);

function detailsOf(event) {
  return [event.reason, event.ended && event.ended !== event.type && `ended: ${event.ended}`, event.actor_id && `by ${event.actor_id}`, event.text, event.value,
    event.gives_up_at && `gives up at ${clockTime(new Date(event.gives_up_at))}`,
    event.delayed_until && `until ${clockTime(new Date(event.delayed_until))}`].filter(Boolean).join(", ");
}

function line(event) {
  return h("li", { class: BAD.has(event.type) ? "bad" : "" },
    h("time", { datetime: event.at, title: event.at }, clockTime(new Date(event.at))),
    h("span", { class: "what" }, WORDS[event.type] || event.type),
    event.name ? h("a", { href: `#/lock/${nameIn(event.name)}` }, event.name) : h("span", {}),
    h("span", { class: "who" }, event.client_id || ""), h("span", { class: "more" }, detailsOf(event)));
}

export function show(main, { query }) {
  let isPaused = false;
  let waiting = [];
  let skipped = 0;
  let stream = null;
  const prefix = h("input", { type: "search", id: "event-prefix", placeholder: "prefix", value: query.get("prefix") || "" });
  const pause = h("button", { type: "button", id: "pause", "aria-pressed": "false" }, "Pause");
  const summary = h("p", { class: "summary", id: "event-state", role: "status" }, "connecting");
  const list = h("ol", { class: "events", id: "events", "aria-label": "Events, newest first" });
  const empty = state("empty", "Waiting for events", "What clients and operators do appears here at once.");
  main.append(h("div", { class: "headline" }, h("h1", {}, "Events"), summary, h("span", { class: "grow" }),
    h("label", { class: "hidden", for: "event-prefix" }, "Prefix"), prefix, pause), empty, list);

  function note(text) {
    list.prepend(h("li", { class: "note" }, text));
  }

  function flush() {
    if (isPaused) {
      setText(summary, `paused, ${plural(waiting.length + skipped, "event")} since`);
      return;
    }
    if (waiting.length + skipped === 0) return;
    empty.hidden = true;
    list.prepend(...waiting.slice(-KEPT).reverse().map(line));
    if (skipped > 0) note(`${count(skipped)} events are not shown: there were more than ${MAX_RATE} a second. A prefix narrows them.`);
    waiting = [];
    skipped = 0;
    while (list.childElementCount > KEPT) list.lastElementChild.remove();
  }

  function follow() {
    if (stream) stream.close();
    stream = watch(prefix.value, MAX_RATE, {
      event: (type, event) => {
        if (waiting.length >= KEPT) skipped++;
        else waiting.push(event);
      },
      skipped: (events) => { skipped += events; },
      gap: (text) => note(`Some events are missing. ${text}`),
      state: (text, error) => {
        if (text === "denied") {
          empty.hidden = false;
          empty.replaceWith(state("denied", "This principal may not follow events", error.message));
        }
        if (!isPaused) setText(summary, { live: "live", waiting: "reconnecting", denied: "denied" }[text]);
      },
    });
  }

  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    setText(pause, isPaused ? "Go on" : "Pause");
    if (!isPaused) setText(summary, "live");
    flush();
  });
  let timer = 0;
  prefix.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      list.replaceChildren();
      waiting = [];
      history.replaceState(null, "", `#/events?${new URLSearchParams({ prefix: prefix.value })}`);
      follow();
    }, 200);
  });
  const flushing = setInterval(flush, FRAME_MS);
  follow();
  return () => {
    clearInterval(flushing);
    clearTimeout(timer);
    stream.close();
  };
}
