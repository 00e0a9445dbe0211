// The first page: is the cluster well, who leads, what is it doing.

import { h, badge, count, duration, milliseconds, plural, rate, sectionOf, setText, state } from "./dom.js";
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
    health.replaceChildren(h("h2", {}, title), h("p", {}, text));
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
