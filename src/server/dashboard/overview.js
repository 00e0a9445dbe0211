// The first page: is the cluster well, who leads, what is it doing.

import { h, badge, bytes, count, duration, milliseconds, now, plural, rate, sectionOf, setText, state } from "./dom.js";
import { live } from "./live.js";
import { plot } from "./plot.js";

function healthOf(cluster) {
  const silent = cluster.members.filter((m) => !m.healthy);
  const leader = cluster.members.find((m) => m.id === cluster.leader);
  const voters = cluster.members.filter((m) => m.voter);
  if (!cluster.serving || !leader) {
    return ["bad", "No leader", "This node reaches no leader with a majority, so no lock is granted and none is ended. Held locks stay held."];
  }
  if (silent.length > 0) {
    const names = silent.map((m) => `node ${m.id}`).join(", ");
    const spare = Math.ceil(voters.length / 2) - 1 - silent.filter((m) => m.voter).length;
    return ["warn", `${names[0].toUpperCase()}${names.slice(1)} ${silent.length === 1 ? "does" : "do"} not answer`,
      spare > 0 ? `Locks work. ${plural(spare, "more node")} may fail.` : "Locks work, but no other node may fail. Start the missing nodes."];
  }
  return ["good", "All nodes answer", `Node ${leader.id} leads in term ${cluster.term}.`];
}

const DAY_MS = 86400000;
const CERTIFICATE_DAYS = 14;
const LAG = 1000; // entries

// What else is not well, each with what to do.
function problemsOf(cluster, stats) {
  const found = [];
  const late = cluster.members.filter((m) => m.healthy && m.lag !== null && m.lag > LAG);
  if (late.length) found.push(`${late.map((m) => `Node ${m.id}`).join(", ")} lags behind the leader by more than ${count(LAG)} entries: look at its disk and its network.`);
  if (cluster.state && cluster.state.bytes > 0.9 * cluster.state.max_bytes) found.push(`The state takes ${bytes(cluster.state.bytes)} of ${bytes(cluster.state.max_bytes)}: at the limit new locks are refused. Raise state-max, or find who creates them.`);
  if (cluster.certificate && Date.parse(cluster.certificate.expires_at) < now() + CERTIFICATE_DAYS * DAY_MS) found.push(`The certificate of node ${cluster.node} expires in ${duration(Date.parse(cluster.certificate.expires_at) - now())}: replace its file.`);
  if (cluster.efficiency && !cluster.efficiency.healthy) found.push(`The backend of the tier EFFICIENCY is not healthy${cluster.efficiency.problem ? `: ${cluster.efficiency.problem}` : "."}`);
  if (cluster.disk && cluster.disk.full) found.push(`The disk of node ${cluster.node} is full: free some space.`);
  if (stats && stats.long_held > 0) found.push(h("span", {}, stats.long_held === 1 ? "1 lock is held longer than its rule allows: " : `${count(stats.long_held)} locks are held longer than their rules allow: `, h("a", { href: "#/alerts" }, "show"), "."));
  return found;
}

function tile(title) {
  const figure = h("span", { class: "figure" }, "–");
  return { root: h("div", { class: "tile" }, h("span", { class: "name" }, title), figure), set: (text, kind) => { setText(figure, text); figure.className = `figure ${kind || ""}`; } };
}

function nodeRow(member, cluster) {
  const lag = member.id === cluster.leader ? "–" : member.lag === null ? "unknown" : member.lag === 0 ? "none" : plural(member.lag, "entry", "entries");
  return h("tr", { class: member.id === cluster.leader ? "leads" : "" },
    h("th", { scope: "row" }, `Node ${member.id}`),
    h("td", {}, member.healthy ? badge("good", "answers") : badge("bad", "silent")),
    h("td", {}, member.role === "leader" ? badge("accent", "leader") : member.role),
    h("td", { class: "number" }, lag),
    h("td", { class: "wide mono" }, member.client_address || "–"));
}

export function show(main) {
  const health = h("section", { class: "health", id: "health" });
  const tiles = {
    locks: tile("Locks in use"), holders: tile("Holders"), waiters: tile("Waiting"), sessions: tile("Sessions"),
    long: tile("Held too long"), oldest: tile("Oldest hold"),
  };
  const plots = {
    attempts: plot({ title: "Acquire requests per second", format: rate, series: ["all", "contended"] }),
    grants: plot({ title: "Grants and releases per second", format: rate, series: ["grants", "releases"] }),
    lost: plot({ title: "Expired and failed renewals per second", format: rate, series: ["expired", "failed"] }),
    acquire: plot({ title: "Acquire latency", format: milliseconds, series: ["p50", "p99"] }),
    commit: plot({ title: "Commit latency", format: milliseconds, series: ["p50", "p99"] }),
    wait: plot({ title: "Time in the queue", format: milliseconds, series: ["p50", "p99"] }),
  };
  const rows = h("tbody", {});
  const nodes = sectionOf("Nodes", h("div", { class: "scroll" }, h("table", { id: "nodes" },
    h("thead", {}, h("tr", {}, ["Node", "Health", "Role", "Lag", "Client address"].map((title, i) =>
      h("th", { scope: "col", class: ["", "", "", "number", "wide"][i] }, title)))), rows)));
  const figures = h("div", {}, h("div", { class: "tiles" }, Object.values(tiles).map((t) => t.root)),
    h("div", { class: "plots" }, Object.values(plots).map((p) => p.root)));
  const refused = h("div", {});
  main.append(h("h1", { class: "hidden" }, "Overview"), health, refused, figures, nodes);

  function drawCluster() {
    const { cluster, clusterError } = live;
    if (!cluster) {
      health.replaceChildren(clusterError ? state("error", "No node answers", clusterError.message) : state("loading", "Loading"));
      return;
    }
    const [kind, title, text] = healthOf(cluster);
    health.className = `health ${kind}`;
    const problems = problemsOf(cluster, live.stats);
    if (problems.length && kind === "good") health.className = "health warn";
    health.replaceChildren(h("h2", {}, problems.length && kind === "good" ? `All nodes answer. ${plural(problems.length, "problem")}:` : title), h("p", {}, text),
      problems.length ? h("ul", { class: "problems" }, problems.map((problem) => h("li", {}, problem))) : "");
    rows.replaceChildren(...cluster.members.map((member) => nodeRow(member, cluster)));
  }

  function drawStats() {
    const { stats, statsError, history } = live;
    figures.hidden = !stats;
    refused.replaceChildren();
    if (!stats) {
      if (statsError) {
        refused.append(statsError.status === 403 ? state("denied", "No figures for this principal", "Rates and latencies need the right to read all names of all tenants.")
          : state("error", "The figures are not available", statsError.message));
      }
      return;
    }
    tiles.locks.set(count(stats.locks));
    tiles.holders.set(count(stats.holders));
    tiles.waiters.set(count(stats.waiters));
    tiles.sessions.set(count(stats.sessions));
    tiles.long.set(count(stats.long_held), stats.long_held > 0 ? "bad" : "");
    tiles.oldest.set(stats.holders > 0 ? duration(stats.oldest_hold_ms) : "–");
    const of = (key) => history.map((point) => point[key]);
    plots.attempts.update([of("acquire_attempts"), of("contended")]);
    plots.grants.update([of("grants"), of("releases")]);
    plots.lost.update([of("expired"), of("renewal_failures")]);
    plots.acquire.update([of("acquire_p50"), of("acquire_p99")]);
    plots.commit.update([of("commit_p50"), of("commit_p99")]);
    plots.wait.update([of("wait_p50"), of("wait_p99")]);
  }

  drawCluster();
  drawStats();
  const stop = [live.on("cluster", drawCluster), live.on("stats", drawStats)];
  return () => stop.forEach((f) => f());
}
