// Requests to the cluster. One node answers; if it does not, the next member does. The token is a variable
// of this module: it is in no storage and in no cookie, and a reload forgets it.

const REQUEST_MS = 6000;
const SILENCE_MS = 40000; // the service sends a line every 15 s

let nodes = [location.origin];
let isMember = true; // this page's origin is a member's client address
let current = location.origin;
let token = "";
let tenant = "";
const listeners = new Set();

export const connection = { node: location.origin, state: "connecting", needsToken: false, signedIn: false };

export class ApiError extends Error {
  constructor(status, code, message, retries) {
    super(message);
    this.status = status;
    this.code = code;
    this.retries = retries; // another node may answer
  }
}

function report(change) {
  const before = JSON.stringify(connection);
  Object.assign(connection, change, { node: current });
  if (JSON.stringify(connection) !== before) for (const listener of listeners) listener(connection);
}

export function onConnection(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function signIn(newToken, newTenant) {
  token = newToken;
  tenant = newTenant || "";
  report({ needsToken: false, signedIn: token !== "" });
}

// The members of the last answer. The origin of this page stays in the list.
export function learnMembers(members) {
  const found = members.filter((m) => m.client_address).map((m) => `${location.protocol}//${m.client_address}`);
  isMember = found.includes(location.origin);
  nodes = [...new Set([location.origin, ...found])];
  if (!nodes.includes(current)) current = location.origin;
}

// Other members let this page in only if its own address is a member's.
export const isMemberPage = () => isMember;

function moveFrom(node) {
  if (current !== node) return; // another request has moved already
  const at = nodes.indexOf(node);
  current = nodes[(at + 1) % nodes.length];
  report({});
}

function headers(more) {
  const all = { ...more };
  if (token) all.Authorization = `Bearer ${token}`;
  if (tenant) all["Holdfast-Tenant"] = tenant;
  return all;
}

async function failureOf(response) {
  let code = "";
  let message = `The node answered with status ${response.status}.`;
  try {
    const body = await response.json();
    code = body.error.code;
    message = body.error.message;
  } catch { /* not JSON: a proxy */ }
  if (response.status === 401) report({ needsToken: true, signedIn: false });
  return new ApiError(response.status, code, message, response.status === 503 || response.status === 502);
}

const unreachable = () => new ApiError(0, "unreachable", "The node does not answer.", true);

async function once(node, path, options) {
  let response;
  try {
    const signals = [AbortSignal.timeout(options.within || REQUEST_MS)];
    if (options.signal) signals.push(options.signal);
    response = await fetch(node + path, {
      method: options.method || "GET",
      headers: headers(options.body ? { "Content-Type": "application/json" } : {}),
      body: options.body && JSON.stringify(options.body),
      signal: AbortSignal.any(signals),
      cache: "no-store", credentials: "omit", mode: "cors", redirect: "error", referrerPolicy: "no-referrer",
    });
    if (response.ok) return await response.json();
  } catch (error) {
    if (options.signal && options.signal.aborted) throw new DOMException("no longer needed", "AbortError");
    throw unreachable();
  }
  throw await failureOf(response);
}

// The answer of the first node that gives one. A write has a request_id, so it is done at most once.
export async function request(path, options = {}) {
  let last = null;
  for (let i = 0; i < nodes.length; i++) {
    const node = current;
    try {
      const answer = await once(node, path, options);
      report({ state: "live" });
      return answer;
    } catch (error) {
      if (!(error instanceof ApiError) || !error.retries) {
        if (error instanceof ApiError) report({ state: "live" });
        throw error;
      }
      last = error;
      moveFrom(node);
    }
  }
  report({ state: last.status === 0 ? "down" : "waiting" });
  throw last;
}

// From one node, without going on to another.
export const requestOf = (node, path, options = {}) => once(node, path, { within: 2000, ...options });

export function post(path, body) {
  const random = crypto.getRandomValues(new Uint8Array(12));
  const id = Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return request(path, { method: "POST", body: { ...body, request_id: `dashboard-${id}` } });
}

export const nameIn = (name) => encodeURIComponent(name);

export function queryOf(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

const pause = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
});

// Splits a stream of bytes into server-sent events.
async function readEvents(body, onEvent, onBytes) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onBytes();
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { type: "message", id: "", data: "" };
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) event.type = line.slice(7);
        else if (line.startsWith("id: ")) event.id = line.slice(4);
        else if (line.startsWith("data: ")) event.data = line.slice(6);
      }
      if (event.data) onEvent(event);
    }
  }
}

// Follows the events of names with a prefix, at any node, until it is closed: at most `maxRate` of them a second.
// `on.event(type, data)`; `on.skipped(count)`: more happened; `on.gap(text)`: events may be missing. After both, the
// state has to be read again. `on.state(text, error)`: "live", "waiting", "denied".
export function watch(prefix, maxRate, on) {
  const closing = new AbortController();
  const { signal } = closing;
  let lastId = "";

  async function follow(node) {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    const awake = () => { clearTimeout(timer); timer = setTimeout(() => silence.abort(), SILENCE_MS); };
    try {
      const response = await fetch(node + "/api/v1/watch" + queryOf({ prefix, reset: "false", max_rate: maxRate }), {
        headers: headers(lastId ? { "Last-Event-ID": lastId } : {}),
        signal: AbortSignal.any([signal, silence.signal]),
        cache: "no-store", credentials: "omit", mode: "cors", redirect: "error", referrerPolicy: "no-referrer",
      });
      if (!response.ok) throw await failureOf(response);
      await readEvents(response.body, (event) => {
        if (event.id) lastId = event.id;
        if (event.type === "ready") on.state("live");
        else if (event.type === "dropped") on.gap("This page read too slowly.");
        else if (event.type === "skipped") on.skipped(JSON.parse(event.data).events);
        else on.event(event.type, JSON.parse(event.data), event.id);
      }, awake);
    } finally {
      clearTimeout(timer);
    }
  }

  (async () => {
    for (let wait = 200; !signal.aborted; wait = Math.min(wait * 2, 4000)) {
      const node = current;
      try {
        await follow(node);
        wait = 100;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ApiError && error.status === 410) {
          lastId = "";
          on.gap("This node no longer has the events in between.");
          continue;
        }
        if (error instanceof ApiError && !error.retries) {
          on.state("denied", error);
          return;
        }
        moveFrom(node);
      }
      if (!signal.aborted) on.state("waiting");
      await pause(wait, signal);
    }
  })();
  return { close: () => closing.abort() };
}
