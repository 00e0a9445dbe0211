// What all pages read: the cluster, its figures and their recent history, polled while the page is visible.

import { connection, request, requestOf, learnMembers, isMemberPage } from "./api.js";

const CLUSTER_MS = 2000;
const STATS_MS = 1000;
const POINTS = 120;
const RATES = ["acquire_attempts", "contended", "grants", "releases", "expired", "renewal_failures"];

const listeners = { cluster: new Set(), stats: new Set(), tick: new Set() };

export const live = {
  cluster: null, clusterError: null, stats: null, statsError: null, history: [], whoami: null,
  on(what, listener) {
    listeners[what].add(listener);
    return () => listeners[what].delete(listener);
  },
};

function tell(what) {
  for (const listener of listeners[what]) listener();
}

// The leader knows the lag of all members, other nodes only their own.
async function readCluster() {
  const cluster = await request("/api/v1/cluster");
  learnMembers(cluster.members);
  const leader = cluster.members.find((m) => m.role === "leader");
  if (leader && leader.id !== cluster.node && leader.client_address && isMemberPage()) {
    try {
      const there = await requestOf(`${location.protocol}//${leader.client_address}`, "/api/v1/cluster");
      cluster.members = there.members;
    } catch { /* the view of this node is good enough */ }
  }
  return cluster;
}

function addPoint(stats, before, seconds) {
  const isSame = before && before.leader === stats.leader && before.term === stats.term && before.uptime_ms <= stats.uptime_ms;
  const point = {};
  for (const key of RATES) point[key] = isSame ? Math.max(0, stats.totals[key] - before.totals[key]) / seconds : null;
  for (const key of ["acquire", "commit", "wait"]) {
    point[`${key}_p50`] = stats.latency_ms[key].p50;
    point[`${key}_p99`] = stats.latency_ms[key].p99;
  }
  live.history.push(point);
  if (live.history.length > POINTS) live.history.shift();
}

function poll(read, ms) {
  (async () => {
    for (;;) {
      if (!document.hidden && !connection.needsToken) await read();
      await new Promise((resolve) => setTimeout(resolve, ms));
    }
  })();
}

export async function pollCluster() {
  try {
    live.cluster = await readCluster();
    live.clusterError = null;
  } catch (error) {
    live.cluster = null;
    live.clusterError = error;
  }
  tell("cluster");
}

let statsAt = 0;
export async function pollStats() {
  const before = live.stats;
  try {
    const stats = await request("/api/v1/stats");
    addPoint(stats, before, Math.max(0.1, (performance.now() - statsAt) / 1000));
    statsAt = performance.now();
    live.stats = stats;
    live.statsError = null;
  } catch (error) {
    live.stats = null;
    live.statsError = error;
  }
  tell("stats");
}

export function forget() {
  live.cluster = live.stats = live.whoami = null;
  live.history.length = 0;
}

export function pollAll() {
  poll(pollCluster, CLUSTER_MS);
  poll(pollStats, STATS_MS);
  setInterval(() => tell("tick"), 500);
}
