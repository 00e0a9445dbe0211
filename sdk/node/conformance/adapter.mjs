// The adapter of the Node.js client for tests/conformance, whose README has the protocol.

import { readFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

import {
  Closed, Denied, Holdfast, Invalid, LimitReached, LockLost, MemoryFence, NotHeld, OutcomeUnknown, StaleToken, Unreachable,
  WaitTimeout,
} from "../lib/index.js";

const FEATURES = [
  "shared", "semaphore", "multi", "lead", "efficiency", "http", "max_hold", "lock_delay", "try_acquire", "renew", "cancel", "jeopardy", "safe",
  "revoke", "watch", "fence", "tls", "client_certificate", "token", "circuit",
];

const WORDS = [ // the special errors first
  [WaitTimeout, "timeout"], [LockLost, "lost"], [NotHeld, "released"], [Unreachable, "unreachable"], [OutcomeUnknown, "unknown"],
  [Denied, "denied"], [Invalid, "invalid"], [LimitReached, "limit"], [Closed, "closed"], [StaleToken, "stale"],
];
const CODES = { held: "held", delayed: "delayed", deadlock: "deadlock", mode_mismatch: "mismatch", limit_mismatch: "mismatch" };

class Unsupported extends Error {}

function wordOf(error) {
  if (error instanceof Unsupported) {
    return "unsupported";
  }
  if (error?.name === "AbortError") {
    return "cancelled";
  }
  return WORDS.find(([kind]) => error instanceof kind)?.[1] ?? CODES[error?.code] ?? "other";
}

/** At once, so that no line waits for the loop. */
function write(line) {
  const data = Buffer.from(`${JSON.stringify(line)}\n`);
  for (let sent = 0; sent < data.length;) {
    try {
      sent += writeSync(1, data, sent);
    } catch (error) {
      if (error.code !== "EAGAIN") {
        throw error;
      }
    }
  }
}

function safeMs(lock) {
  return Math.floor(lock.safeFor);
}

/** The arguments that are given, by the names of the client. */
function options(given, names) {
  return Object.fromEntries(Object.entries(names).filter(([from]) => given[from] !== undefined).map(([from, to]) => [to, given[from]]));
}

let client;
const fence = new MemoryFence();
const locks = new Map();
const watches = new Map();
const running = new Map();

function granted(handle, lock) {
  locks.set(handle, lock);
  lock.on("lost", (error) => write({ event: "lost", handle, why: error.code }));
  lock.on("jeopardy", () => write({ event: "jeopardy", handle }));
  lock.on("safe", () => write({ event: "safe", handle }));
  lock.on("revokeRequested", ({ deadline }) => write({ event: "revoke_requested", handle, deadline_ms: deadline - Date.now() }));
  const answer = { token: String(lock.fenceToken), safe_for_ms: safeMs(lock) };
  return lock.slot === null ? answer : { ...answer, slot: lock.slot };
}

async function acquire(given, signal) {
  const how = options(given, { ttl_ms: "ttl", max_hold_ms: "maxHold", lock_delay_ms: "lockDelay", tier: "tier", permits: "permits", value: "value" });
  how.wait = given.wait_ms === undefined || given.wait_ms === -1 ? Infinity : given.wait_ms;
  how.signal = signal;
  if (given.do === "lead") {
    return granted(given.handle, await client.campaign(given.name, how));
  }
  if (given.names !== undefined) {
    return granted(given.handle, await client.multiLock(given.names, how));
  }
  if (given.mode === "semaphore") {
    return granted(given.handle, await client.semaphore(given.name, given.limit, how));
  }
  return granted(given.handle, await client.lock(given.name, { ...how, shared: given.mode === "shared" }));
}

async function follow(handle, watch) {
  for await (const event of watch) {
    const more = { ...(event.id === null ? {} : { id: event.id }), ...(event.data.name === undefined ? {} : { name: event.data.name }) };
    write({ event: "watch", handle, type: event.type, ...more });
  }
}

const LOCK_ARGUMENTS = ["handle", "name", "names", "ttl_ms", "mode", "limit", "permits", "tier"];

// [arguments, function]
const COMMANDS = {
  open: [["endpoints", "session_ttl_ms", "timeout_ms", "client_id", "ca", "cert", "key", "server_name", "token_file", "tenant"], (given) => {
    const how = options(given, {
      endpoints: "endpoints", session_ttl_ms: "sessionTtl", timeout_ms: "timeout", client_id: "clientId", server_name: "serverName",
      token_file: "tokenFile", tenant: "tenant",
    });
    for (const file of ["ca", "cert", "key"]) {
      if (given[file] !== undefined) {
        how[file] = readFileSync(given[file]);
      }
    }
    client = new Holdfast(how);
  }],
  acquire: [[...LOCK_ARGUMENTS, "wait_ms", "max_hold_ms", "lock_delay_ms"], acquire],
  lead: [["handle", "name", "value", "ttl_ms", "wait_ms"], acquire],
  try_acquire: [LOCK_ARGUMENTS, async (given) => {
    const how = options(given, { ttl_ms: "ttl", tier: "tier" });
    if (given.names !== undefined || given.mode === "semaphore") {
      throw new Unsupported("tryLock is for one name");
    }
    const lock = await client.tryLock(given.name, { ...how, shared: given.mode === "shared" });
    return lock === null ? { acquired: false } : { acquired: true, ...granted(given.handle, lock) };
  }],
  cancel: [["command"], ({ command }) => running.get(command)?.abort()],
  check: [["handle"], ({ handle }) => {
    locks.get(handle).check();
    return { safe_for_ms: safeMs(locks.get(handle)) };
  }],
  token: [["handle"], ({ handle }) => ({ token: String(locks.get(handle).fenceToken) })],
  renew: [["handle", "ttl_ms"], async ({ handle, ttl_ms: ttl }) => {
    await locks.get(handle).renew(ttl);
    return { safe_for_ms: safeMs(locks.get(handle)) };
  }],
  release: [["handle"], ({ handle }) => locks.get(handle).release()],
  watch: [["handle", "prefix", "last_id"], ({ handle, prefix, last_id: lastId }) => {
    const watch = client.watch(prefix, { lastId });
    watches.set(handle, watch);
    follow(handle, watch).catch((error) => console.error(`the watch ${handle} ended: ${error}`));
  }],
  unwatch: [["handle"], ({ handle }) => watches.get(handle).close()],
  fence_check: [["resource", "token"], ({ resource, token }) => fence.guard(resource, Number(token))],
  close: [[], () => client.close().catch((error) => console.error(`close: ${error}`))], // its error is no result of this command
};

async function run(given) {
  const abort = new AbortController();
  running.set(given.id, abort);
  let answer;
  try {
    const [known, call] = COMMANDS[given.do] ?? [];
    const unknown = Object.keys(given).filter((key) => !["id", "do", ...(known ?? [])].includes(key));
    if (call === undefined || unknown.length > 0) {
      throw new Unsupported(`${given.do} ${unknown.join(", ")}`);
    }
    answer = { ok: true, ...(await call(given, abort.signal)) };
  } catch (error) {
    const word = wordOf(error);
    answer = { ok: false, error: word, code: String(error?.code ?? word), message: String(error?.message ?? error) };
  }
  running.delete(given.id);
  write({ id: given.id, ...answer });
}

write({ hello: 1, client: "node", clock: "larger", features: FEATURES });
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => void run(JSON.parse(line)));
lines.on("close", () => process.exit(0));
