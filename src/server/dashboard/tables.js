// Pages that are one table, read again every few seconds: hot prefixes, sessions, members, alerts, audit.

import { h, badge, bytes, count, duration, milliseconds, plural, rate, setText, state, table, when } from "./dom.js";
import { isMemberPage, request, requestOf, nameIn, queryOf } from "./api.js";
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

// Title of the choice, of the figure, and how the figure is written.
const HOT = {
  contention: ["most contended", "Contended acquires per second", rate],
  wait: ["most waiting", "Clients waiting, on average", rate],
  hold: ["most held", "Holders, on average", rate],
  rate: ["most requests", "Acquires per second", rate],
};

function shareBar(share) {
  const bar = h("progress", { max: "1", value: String(share), "aria-label": "Share of all" });
  return [bar, h("span", { class: "percent" }, `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`)];
}

function hotTable(answer) {
  if (answer.prefixes.length === 0) return state("empty", "Nothing yet", "Prefixes appear here when clients use locks. The leader counts since it leads.");
  const [, title, write] = HOT[answer.by];
  const hasTenants = new Set(answer.prefixes.map((row) => row.tenant)).size > 1;
  return [table("Hot prefixes", [{ title: "Prefix" }, ...(hasTenants ? [{ title: "Tenant" }] : []), { title, class: "number" }, { title: "Share" }, { title: "Too large by at most", class: "number wide" }],
    answer.prefixes.map((row) => ({ cells: [h("a", { href: `#/locks?${new URLSearchParams({ prefix: row.prefix })}` }, row.prefix), ...(hasTenants ? [row.tenant] : []),
      write(row.per_second), shareBar(row.share), row.error > 0 ? write(row.error) : "–"] }))),
  h("p", { class: "muted" }, `The mean of about the last ${duration(answer.window_ms)}. Node ${answer.leader} counts since `, when(answer.since), ", when it became the leader.")];
}

export function hot(main, { query }) {
  let by = query.get("by") in HOT ? query.get("by") : "contention";
  const select = h("select", { id: "by" }, Object.entries(HOT).map(([key, [title]]) => h("option", { value: key }, title)));
  select.value = by;
  const place = headline(main, "Hot prefixes", h("span", { class: "grow" }), h("label", { for: "by" }, "Show"), select);
  const page = refreshed(place, (signal) => request(`/api/v1/hot${queryOf({ by, limit: 50 })}`, { signal }), hotTable, "This node does not count prefixes: its version is older.");
  select.addEventListener("change", () => {
    by = select.value;
    history.replaceState(null, "", `#/hot?by=${by}`);
    page.again();
  });
  return page.close;
}

// --- sessions -------------------------------------------------------------------

function sessionLock(row) {
  const how = row.held ? ["holds it since ", when(row.holder.since)] : row.waiter.since ? ["waits since ", when(row.waiter.since)] : ["waits"];
  return h("li", {}, lockLink(row.name), h("span", { class: "muted" }, " ", how, row.tier === "CORRECTNESS" ? "" : `, ${row.tier}`));
}

// Operators see the ids of sessions, others how many names each has. `entries` has those of the session's own tier only.
function sessionLocks(session) {
  if (!session.session_id) return plural(session.entries, "name");
  const list = h("div", { class: "inner" });
  const details = h("details", {}, h("summary", {}, plural(session.entries, "name")), list);
  details.addEventListener("toggle", async () => {
    if (!details.open || list.childElementCount > 0) return;
    list.append(h("p", { class: "muted" }, "Loading"));
    try {
      const rows = await allPages(`/api/v1/sessions/${session.session_id}/locks`, "locks", {}, ROWS, AbortSignal.timeout(20000));
      list.replaceChildren(...[rows.length > 0 && h("ul", {}, rows.slice(0, ROWS).map(sessionLock)),
        rows.length >= ROWS && h("p", { class: "muted" }, `The first ${ROWS} names; holdfast sessions ${session.session_id} lists all.`),
        rows.length === 0 && h("p", { class: "muted" }, "None.")].filter(Boolean));
    } catch (error) {
      list.replaceChildren(h("p", { class: "problem" }, error.message));
    }
  });
  return details;
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
        row.expires_in_ms === null ? "–" : duration(row.expires_in_ms), row.ttl_ms === null ? "none" : duration(row.ttl_ms), row.session_id ? h("span", { class: "mono" }, row.session_id) : "–"] })));
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

// What each member says of itself. A member that does not answer this page may still answer the other members.
async function ownViews(cluster) {
  const views = new Map();
  await Promise.all(cluster.members.filter((m) => m.client_address).map(async (m) => {
    try {
      const began = performance.now();
      const own = m.id === cluster.node ? cluster : await requestOf(`${location.protocol}//${m.client_address}`, "/api/v1/cluster");
      views.set(m.id, { ...own, took: performance.now() - began });
    } catch { /* shown as unknown */ }
  }));
  return views;
}

function diskText(own) {
  if (!own || !own.disk) return "–";
  if (own.disk.full) return badge("bad", "full");
  return own.disk.free_bytes === undefined ? "–" : `${bytes(own.disk.free_bytes)} free`;
}

function sightOf(member, own, cluster) {
  if (!isMemberPage()) return "–";
  if (!own) return badge("warn", "does not answer this page");
  if (!own.serving) return badge("bad", "sees no leader");
  return own.leader === cluster.leader ? `node ${own.leader} leads` : badge("warn", `thinks node ${own.leader} leads`);
}

export function members(main) {
  const place = headline(main, "Members");
  let isOpen = true;
  let views = new Map();
  const draw = () => {
    const { cluster, clusterError } = live;
    if (!cluster) {
      place.replaceChildren(clusterError ? state("error", "No node answers", clusterError.message) : state("loading", "Loading"));
      return;
    }
    place.replaceChildren(clusterFacts(cluster), table("Members",
      [{ title: "Node" }, { title: "Role" }, { title: "Health" }, { title: "Lag", class: "number" }, { title: "What it sees" }, { title: "Disk", class: "number" }, { title: "Log write", class: "number" },
        { title: "Certificate", class: "wide" }, { title: "Client address" }, { title: "Peer address", class: "wide" }],
      cluster.members.map((m) => {
        const own = views.get(m.id);
        return { cells: [String(m.id), m.role, m.healthy ? badge("good", "answers") : badge("bad", "silent"),
          m.role === "leader" ? "–" : m.lag === null ? "unknown" : plural(m.lag, "entry", "entries"), sightOf(m, own, cluster), diskText(own),
          own && own.disk && own.disk.append_us !== undefined ? milliseconds(own.disk.append_us / 1000) : "–",
          own && own.certificate ? when(own.certificate.expires_at) : "–",
          h("span", { class: "mono" }, m.client_address || "unknown"), h("span", { class: "mono" }, m.peer_address)] };
      })),
    cluster.members_changing ? h("p", { class: "muted" }, "A change of the members is under way.") : "");
  };
  const readViews = async () => {
    if (live.cluster && isMemberPage()) views = await ownViews(live.cluster);
    if (isOpen) draw();
  };
  draw();
  readViews();
  const timer = setInterval(readViews, AGAIN_MS);
  const stop = live.on("cluster", draw);
  return () => { isOpen = false; clearInterval(timer); stop(); };
}

// --- held too long ------------------------------------------------------------------

const prefixText = (prefix) => (prefix === "*" || prefix === "" ? "every name" : prefix);

function longHeld(holds) {
  if (holds.length === 0) return state("empty", "None", "No lock is held longer than its rule allows.");
  return table("Locks past their rule", [{ title: "Lock" }, { title: "Holder" }, { title: "Held for", class: "number" }, { title: "Over the rule", class: "number" }, { title: "Waiting", class: "number" }, { title: "Rule", class: "wide" }],
    holds.sort((a, b) => b.over_ms - a.over_ms).map((row) => ({ cells: [lockLink(row.name), row.holder.client_id, duration(row.held_ms),
      badge("bad", duration(row.over_ms)), row.queue_length ? count(row.queue_length) : "–", `${prefixText(row.rule)}: ${duration(row.after_ms)}`] })));
}

function rulesTable(rules) {
  if (rules.length === 0) return state("empty", "No rules", "A rule says how long locks with a prefix may be held.", h("p", {}, h("code", {}, "holdfast alert set PREFIX DURATION")));
  return table("Rules", [{ title: "Prefix" }, { title: "Too long after", class: "number" }],
    rules.map((row) => ({ cells: [h("a", { href: `#/locks?${new URLSearchParams({ prefix: row.prefix === "*" ? "" : row.prefix })}` }, prefixText(row.prefix)), duration(row.after_ms)] })));
}

async function readAlerts(signal) {
  const holds = [];
  let page = null;
  do {
    page = await request(`/api/v1/alerts${queryOf({ limit: 1000, cursor: page && page.next_cursor })}`, { signal });
    holds.push(...page.holds);
  } while (page.next_cursor !== null && holds.length < ROWS);
  return { rules: page.rules, holds };
}

export function alerts(main) {
  const place = headline(main, "Held too long");
  const page = refreshed(place, readAlerts, (answer) => [
    h("div", { id: "long-held" }, longHeld(answer.holds)), h("h2", { class: "second" }, "Rules"), h("div", { id: "rules" }, rulesTable(answer.rules))],
  "This node has no such rules.");
  return page.close;
}

// --- audit ----------------------------------------------------------------------------

const ACTIONS = {
  FORCE_UNLOCK: "force-unlock", FORCE_UNLOCK_NOW: "force-unlock without delay", REVOKE: "revoke", REVOKE_TAKEN: "revoked at the deadline", RECOVER: "recovery",
  FENCE_RESET: "fence reset", POLICY: "policy", BOOTSTRAP: "bootstrap", RESCUE: "rescue", DENIED: "denied calls", PEER_REFUSED: "node refused",
  MEMBER_ADD: "member added", MEMBER_PROMOTE: "member promoted", MEMBER_DEMOTE: "member demoted", MEMBER_REMOVE: "member removed", TRANSFER: "leadership transferred",
  SETTING: "setting", ALERT_SET: "rule set", ALERT_REMOVE: "rule removed",
};

function auditRows(records) {
  return table("Audit", [{ title: "Time" }, { title: "Action" }, { title: "Name" }, { title: "Actor" }, { title: "Reason" }, { title: "Holders", class: "number wide" }],
    records.map((r) => ({ cells: [when(r.createdAt), ACTIONS[r.action] || r.action, /^(FORCE|REVOKE)/.test(r.action) ? lockLink(r.resource) : r.resource, r.actorId, r.reason, count(r.holders)] })));
}

// For a node of an earlier version, which has no filters.
const HOURS = { "1h": 1, "1d": 24, "7d": 168 };
async function searchedHere({ prefix, actor, action, since }, most, signal) {
  const all = await allPages("/api/v1/audit", "records", {}, 10000, signal);
  const from = since ? Date.now() - HOURS[since] * 3600000 : 0;
  const found = all.filter((r) => r.resource.startsWith(prefix) && (!actor || r.actorId === actor) && (!action || r.action === action) && Date.parse(r.createdAt) >= from).reverse();
  return { records: found.slice(0, most), isMore: found.length > most };
}

// The service filters; the newest records come first.
export function audit(main, { query }) {
  const prefix = h("input", { type: "search", id: "audit-name", placeholder: "Name or prefix", value: query.get("prefix") || "" });
  const actor = h("input", { type: "search", id: "audit-actor", placeholder: "Actor, whole" });
  const action = h("select", { id: "audit-action" }, h("option", { value: "" }, "every action"), Object.entries(ACTIONS).map(([key, title]) => h("option", { value: key }, title)));
  const since = h("select", { id: "audit-since" }, [["", "all times"], ["1h", "last hour"], ["1d", "last day"], ["7d", "last week"]].map(([value, title]) => h("option", { value }, title)));
  const place = headline(main, "Audit", h("span", { class: "grow" }), h("div", { class: "filters" },
    h("label", { class: "hidden", for: "audit-name" }, "Name or prefix"), prefix, h("label", { class: "hidden", for: "audit-actor" }, "Actor"), actor,
    h("label", { class: "hidden", for: "audit-action" }, "Action"), action, h("label", { class: "hidden", for: "audit-since" }, "Time"), since));
  let most = 100;
  const filters = () => ({ prefix: prefix.value, actor: actor.value, action: action.value, since: since.value });
  const isFiltered = () => Object.values(filters()).some(Boolean);
  const page = refreshed(place, async (signal) => {
    const records = [];
    let answer = null;
    try {
      do {
        answer = await request(`/api/v1/audit${queryOf({ order: "newest", ...filters(), limit: most - records.length, cursor: answer && answer.next_cursor })}`, { signal });
        records.push(...answer.records);
      } while (answer.next_cursor !== null && records.length < most);
    } catch (error) {
      if (error.status !== 400) throw error;
      return searchedHere(filters(), most, signal);
    }
    return { records, isMore: answer.next_cursor !== null, completeSince: answer.complete_since };
  }, ({ records, isMore, completeSince }) => {
    if (records.length === 0) return isFiltered() ? state("empty", "No record matches", "Change the filters to see others.") : state("empty", "No records", "What operators do appears here, with the reason.");
    return [auditRows(records), isMore && h("div", { class: "actions" }, h("button", { type: "button", onclick: () => { most += 200; page.again(); } }, "Show older records")),
      completeSince && h("p", { class: "muted" }, "Complete since ", when(completeSince), ".")];
  });
  let timer = 0;
  for (const filter of [prefix, actor, action, since]) {
    filter.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(page.again, 200);
    });
  }
  return () => { clearTimeout(timer); page.close(); };
}
