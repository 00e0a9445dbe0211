// Pages that are one table, read again every few seconds: hot prefixes, sessions, members, alerts, audit.

import { h, badge, bytes, count, duration, milliseconds, plural, rate, setText, state, table, when } from "./dom.js";
import { request, nameIn, queryOf } from "./api.js";
import { live } from "./live.js";

const AGAIN_MS = 5000;
const ROWS = 500; // of a table that is not virtual
const lockLink = (name) => h("a", { href: `#/lock/${nameIn(name)}` }, name);

// Reads and draws, and again after some seconds. `read(signal)` returns what `draw` shows. `absent`: the words
// for a node that does not have this route.
function refreshed(place, read, draw, absent) {
  const closing = new AbortController();
  let timer = 0;
  let isOpen = true;
  let generation = 0;
  place.replaceChildren(state("loading", "Loading"));
  async function again() {
    clearTimeout(timer);
    const mine = ++generation;
    try {
      const answer = await read(closing.signal);
      if (isOpen && mine === generation) place.replaceChildren(...[draw(answer)].flat().filter(Boolean));
    } catch (error) {
      if (!isOpen || error.name === "AbortError") return;
      if (error.status === 404 && absent) place.replaceChildren(state("empty", "Not available", absent));
      else if (error.status === 403) place.replaceChildren(state("denied", "This principal may not see this", error.message));
      else place.replaceChildren(state("error", "This could not be read", error.message));
    }
    if (isOpen && mine === generation) timer = setTimeout(again, document.hidden ? 4 * AGAIN_MS : AGAIN_MS);
  }
  again();
  return { again, close() { isOpen = false; clearTimeout(timer); closing.abort(); } };
}

function headline(main, title, ...more) {
  const place = h("div", {});
  main.append(h("div", { class: "headline" }, h("h1", {}, title), ...more), place);
  return place;
}

async function allPages(path, key, parameters, most, signal) {
  const rows = [];
  let cursor = null;
  do {
    const page = await request(path + queryOf({ ...parameters, limit: 1000, cursor }), { signal });
    rows.push(...page[key]);
    cursor = page.next_cursor;
  } while (cursor !== null && rows.length < most);
  return rows;
}

// --- hot prefixes -----------------------------------------------------------------

const HOT = { contention: "most contended", wait: "longest waits", hold: "longest holds", rate: "most requests" };

function hotCell(value, key) {
  if (value === null || value === undefined) return "–";
  if (key.endsWith("_ms")) return milliseconds(value);
  return key.includes("rate") || key.includes("per_second") ? rate(value) : count(value);
}

function hotTable(answer) {
  const rows = answer.prefixes || answer.rows || [];
  if (rows.length === 0) return state("empty", "Nothing yet", "Prefixes appear here when clients use locks. The leader counts since it leads.");
  const keys = Object.keys(rows[0]).filter((key) => key !== "prefix" && typeof rows[0][key] === "number");
  const title = (key) => key.replace(/_ms$/, "").replace(/_/g, " ");
  return [table("Hot prefixes", [{ title: "Prefix" }, ...keys.map((key) => ({ title: title(key), class: "number" }))],
    rows.map((row) => ({ cells: [h("a", { href: `#/locks?${new URLSearchParams({ prefix: row.prefix })}` }, row.prefix || "(all)"), ...keys.map((key) => hotCell(row[key], key))] }))),
  answer.since && h("p", { class: "muted" }, "Counted since ", when(answer.since), ", when this leader took over.")];
}

export function hot(main, { query }) {
  let by = query.get("by") in HOT ? query.get("by") : "contention";
  const select = h("select", { id: "by" }, Object.entries(HOT).map(([key, title]) => h("option", { value: key }, title)));
  select.value = by;
  const place = headline(main, "Hot prefixes", h("span", { class: "grow" }), h("label", { for: "by" }, "Show"), select);
  const page = refreshed(place, (signal) => request(`/api/v1/hot${queryOf({ by, limit: 50 })}`, { signal }), hotTable, "This node does not count prefixes.");
  select.addEventListener("change", () => {
    by = select.value;
    history.replaceState(null, "", `#/hot?by=${by}`);
    page.again();
  });
  return page.close;
}

// --- sessions -------------------------------------------------------------------

async function locksOf(session, signal) {
  const rows = await allPages("/api/v1/locks", "locks", {}, 20000, signal);
  return rows.filter((row) => row.holder && row.holder.client_id === session.client_id).map((row) => row.name).sort();
}

function sessionLocks(session) {
  const list = h("div", { class: "inner" });
  const details = h("details", {}, h("summary", {}, plural(session.entries, "name")), list);
  details.addEventListener("toggle", async () => {
    if (!details.open || list.childElementCount > 0) return;
    list.append(h("p", { class: "muted" }, "Loading"));
    try {
      const names = await locksOf(session, AbortSignal.timeout(10000));
      list.replaceChildren(names.length ? h("ul", {}, names.slice(0, 200).map((name) => h("li", {}, lockLink(name)))) : h("p", { class: "muted" }, "No lock names this client as its first holder; it may wait for one."));
    } catch (error) {
      list.replaceChildren(h("p", { class: "problem" }, error.message));
    }
  });
  return session.entries > 0 ? details : "none";
}

export function sessions(main) {
  const isPrivate = h("input", { type: "checkbox", id: "private" });
  const summary = h("p", { class: "summary", role: "status" });
  const place = headline(main, "Sessions", summary, h("span", { class: "grow" }), h("label", { class: "check" }, isPrivate, "Also those of locks without a session"));
  const page = refreshed(place, (signal) => allPages("/api/v1/sessions", "sessions", { private: isPrivate.checked ? "true" : "" }, ROWS, signal), (rows) => {
    setText(summary, plural(rows.length, "session"));
    if (rows.length === 0) return state("empty", "No sessions", "A session appears here when a client opens one.");
    if (place.querySelector("details[open]")) return Array.from(place.childNodes); // somebody reads it
    return table("Sessions", [{ title: "Client" }, { title: "Holds or waits for" }, { title: "Expires in", class: "number" }, { title: "TTL", class: "number wide" }, { title: "Session", class: "wide" }],
      rows.slice(0, ROWS).map((row) => ({ cells: [[row.client_id, row.private && badge("", "private")], sessionLocks(row),
        row.expires_in_ms === null ? "–" : duration(row.expires_in_ms), duration(row.ttl_ms), row.session_id ? h("span", { class: "mono" }, row.session_id) : "–"] })));
  });
  isPrivate.addEventListener("change", () => page.again());
  return page.close;
}

// --- members ----------------------------------------------------------------------

function clusterFacts(cluster) {
  const facts = [["Answered by", `node ${cluster.node}`], ["Term", count(cluster.term)], ["Epoch", count(cluster.epoch)]];
  if (cluster.state) facts.push(["State", `${bytes(cluster.state.bytes)} of ${bytes(cluster.state.max_bytes)}`]);
  if (cluster.certificate) facts.push(["Certificate", ["expires ", when(cluster.certificate.expires_at)]]);
  if (cluster.efficiency) facts.push(["Tier EFFICIENCY", `${cluster.efficiency.backend}, ${cluster.efficiency.healthy ? "healthy" : cluster.efficiency.problem || "not healthy"}`]);
  return h("dl", { class: "panel facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

export function members(main) {
  const place = headline(main, "Members");
  const draw = () => {
    const { cluster, clusterError } = live;
    if (!cluster) {
      place.replaceChildren(clusterError ? state("error", "No node answers", clusterError.message) : state("loading", "Loading"));
      return;
    }
    place.replaceChildren(clusterFacts(cluster), table("Members",
      [{ title: "Node" }, { title: "Role" }, { title: "Health" }, { title: "Lag", class: "number" }, { title: "Client address" }, { title: "Peer address", class: "wide" }],
      cluster.members.map((m) => ({ cells: [String(m.id), m.role, m.healthy ? badge("good", "answers") : badge("bad", "silent"),
        m.role === "leader" ? "–" : m.lag === null ? "unknown" : plural(m.lag, "entry", "entries"),
        h("span", { class: "mono" }, m.client_address || "unknown"), h("span", { class: "mono" }, m.peer_address)] }))),
    cluster.members_changing ? h("p", { class: "muted" }, "A change of the members is under way.") : "");
  };
  draw();
  return live.on("cluster", draw);
}

// --- held too long ------------------------------------------------------------------

function alertsTable(answer) {
  const rules = answer.alerts || answer.rules || [];
  if (rules.length === 0) return state("empty", "No rules", "A rule says how long locks with a prefix may be held: holdfast alert set PREFIX DURATION");
  return table("Rules", [{ title: "Prefix" }, { title: "Too long after", class: "number" }],
    rules.map((row) => ({ cells: [h("a", { href: `#/locks?${new URLSearchParams({ prefix: row.prefix })}` }, row.prefix || "(all names)"), duration(row.held_ms ?? row.duration_ms ?? row.after_ms)] })));
}

export function alerts(main) {
  const place = headline(main, "Held too long");
  const rules = h("div", {});
  const held = h("div", { id: "long-held" });
  place.append(h("h2", {}, "Locks past their rule"), held, h("h2", {}, "Rules"), rules);
  const first = refreshed(held, (signal) => allPages("/api/v1/locks", "locks", {}, 20000, signal), (rows) => {
    const late = rows.filter((row) => row.long_held).sort((a, b) => Date.parse(a.holder.since) - Date.parse(b.holder.since));
    if (late.length === 0) return state("empty", "None", "No lock is held longer than its rule allows.");
    return table("Locks past their rule", [{ title: "Lock" }, { title: "Holder" }, { title: "Since" }, { title: "Waiting", class: "number" }],
      late.slice(0, ROWS).map((row) => ({ cells: [lockLink(row.name), row.holder.client_id, when(row.holder.since), count(row.queue_length)] })));
  });
  const second = refreshed(rules, (signal) => request("/api/v1/alerts", { signal }), alertsTable, "This node has no such rules.");
  return () => { first.close(); second.close(); };
}

// --- audit ----------------------------------------------------------------------------

const ACTIONS = {
  FORCE_UNLOCK: "force-unlock", FORCE_UNLOCK_NOW: "force-unlock without delay", REVOKE: "revoke", REVOKE_TAKEN: "revoked at the deadline", RECOVER: "recovery",
  FENCE_RESET: "fence reset", POLICY: "policy", BOOTSTRAP: "bootstrap", RESCUE: "rescue", DENIED: "denied calls", PEER_REFUSED: "node refused",
  MEMBER_ADD: "member added", MEMBER_PROMOTE: "member promoted", MEMBER_DEMOTE: "member demoted", MEMBER_REMOVE: "member removed", TRANSFER: "leadership transferred",
  SETTING: "setting", ALERT_SET: "rule set", ALERT_REMOVE: "rule removed",
};

export function audit(main, { query }) {
  const name = h("input", { type: "search", id: "audit-name", placeholder: "name or prefix", value: query.get("name") || "" });
  const actor = h("input", { type: "search", id: "audit-actor", placeholder: "actor" });
  const action = h("select", { id: "audit-action" }, h("option", { value: "" }, "every action"), Object.entries(ACTIONS).map(([key, title]) => h("option", { value: key }, title)));
  const since = h("select", { id: "audit-since" }, [["", "all times"], [1, "last hour"], [24, "last day"], [168, "last week"]].map(([hours, title]) => h("option", { value: hours }, title)));
  const place = headline(main, "Audit", h("span", { class: "grow" }), h("div", { class: "filters" },
    h("label", { class: "hidden", for: "audit-name" }, "Name or prefix"), name, h("label", { class: "hidden", for: "audit-actor" }, "Actor"), actor,
    h("label", { class: "hidden", for: "audit-action" }, "Action"), action, h("label", { class: "hidden", for: "audit-since" }, "Time"), since));
  let records = [];
  const draw = () => {
    const from = since.value ? Date.now() - Number(since.value) * 3600000 : 0;
    const found = records.filter((r) => r.resource.startsWith(name.value) && r.actorId.includes(actor.value) && (!action.value || r.action === action.value) && Date.parse(r.createdAt) >= from);
    if (found.length === 0) return state("empty", records.length ? "No record matches" : "No records", records.length ? "Change the filters to see others." : "What operators do appears here, with the reason.");
    return [table("Audit", [{ title: "Time" }, { title: "Action" }, { title: "Name" }, { title: "Actor" }, { title: "Reason" }, { title: "Holders", class: "number wide" }],
      found.slice(-ROWS).reverse().map((r) => ({ cells: [when(r.createdAt), ACTIONS[r.action] || r.action,
        /^(FORCE|REVOKE)/.test(r.action) ? lockLink(r.resource) : r.resource, r.actorId, r.reason, count(r.holders)] }))),
    found.length > ROWS && h("p", { class: "muted" }, `The newest ${ROWS} of ${count(found.length)} records.`)];
  };
  const page = refreshed(place, async (signal) => { records = await allPages("/api/v1/audit", "records", {}, 10000, signal); }, draw);
  for (const filter of [name, actor, action, since]) filter.addEventListener("input", () => place.replaceChildren(...[draw()].flat().filter(Boolean)));
  return page.close;
}
