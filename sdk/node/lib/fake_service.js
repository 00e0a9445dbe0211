// The service of the fake: sessions, queues and grants in memory, by the paths and messages of the real one. Time is an argument.

import { randomUUID } from "node:crypto";

const MAX_EVENTS = 10_000; // that a watch can resume from

const ok = (body) => ({ status: 200, body });
const refuse = (status, code, message) => ({ status, body: { error: { code, message } } });

class Grant {
  constructor(waiter, token, now) {
    Object.assign(this, { session: waiter.session, names: waiter.names, body: waiter.body, kind: waiter.kind, token });
    this.ttl = waiter.body.ttl_ms ?? waiter.session.ttl;
    this.confirmed = now;
    this.holdUntil = waiter.body.max_hold_ms ? now + waiter.body.max_hold_ms : Infinity;
    this.revokedAt = Infinity;
    this.waited = now - waiter.since;
    this.slot = undefined;
  }

  /** At the service, which has no margin. */
  get ends() {
    return Math.min(Math.max(this.confirmed, this.session.confirmed) + this.ttl, this.session.ends, this.holdUntil, this.revokedAt);
  }

  get mode() {
    return this.kind === "elections" ? "election" : (this.body.mode ?? "exclusive");
  }
}

export class FakeService {
  sessions = new Map();
  grants = [];
  queue = [];
  #tokens = 0;
  #events = []; // { id, number, type, data, session }
  #numbers = 0;
  #streams = new Set();

  // --- what a test does ---

  holders(name) {
    return this.grants.filter((grant) => grant.names.includes(name)).map((grant) => grant.session.clientId);
  }

  waiters(name) {
    return this.queue.filter((waiter) => waiter.names.includes(name)).length;
  }

  grantOf(token) {
    return this.grants.find((grant) => grant.token === token);
  }

  requestRevocation(grant, at, reason) {
    grant.revokedAt = at;
    const data = { fencing_token: grant.token, actor_id: "test", text: reason, revoked_at: new Date(at).toISOString() };
    this.#notify("revoke_requested", data, grant.names, grant.session, true);
  }

  // --- time ---

  /** The next moment at which something ends. */
  get nextEnd() {
    const ends = [...this.sessions.values(), ...this.grants].map((one) => one.ends);
    return Math.min(Infinity, ...ends, ...this.queue.map((waiter) => waiter.until));
  }

  sweep(now) {
    for (const grant of this.grants.filter(({ ends }) => now >= ends)) {
      this.end(grant, now >= grant.session.ends ? "session_expired"
        : now >= grant.revokedAt ? "revoked" : now >= grant.holdUntil ? "max_hold" : "expired", now);
    }
    for (const session of [...this.sessions.values()].filter(({ ends }) => now >= ends)) {
      this.#endSession(session, now);
    }
    for (const waiter of this.queue.filter(({ until }) => now >= until)) {
      this.#leave(waiter, "timeout", now);
    }
  }

  end(grant, ended, now) {
    this.grants = this.grants.filter((other) => other !== grant);
    grant.session.done.set(grant.body.request_id, { reason: ended === "released" ? "already_released" : "expired", ended });
    if (ended !== "released") {
      this.#notify("lost", { fencing_token: grant.token, ended }, grant.names, grant.session, true);
    }
    const type = { released: "released", forced: "forced", revoked: "revoked" }[ended] ?? "expired";
    this.#notify(type, { ended }, grant.names, grant.session);
    this.#grantNext(now);
  }

  // --- requests ---

  /** A promise of the answer. */
  async handle(method, path, text, now) {
    const body = text === "" ? {} : JSON.parse(text);
    const [kind, ...rest] = path.split("/").slice(3).map(decodeURIComponent);
    if (kind === "sessions") {
      return this.#session(method, rest, body, now);
    }
    const verb = rest.at(-1);
    const names = kind === "multilock" ? body.names : [rest[0]];
    const session = this.sessions.get(body.session_id);
    if (session === undefined) {
      return refuse(404, "session_not_found", "there is no such session");
    }
    if (verb === "acquire" || verb === "campaign") {
      return this.#acquire({ kind, session, names, body, since: now }, now);
    }
    const grant = this.grants.find((one) => one.token === body.fencing_token && one.session === session);
    if (verb === "renew") {
      if (grant === undefined) {
        return ok({ renewed: false, reason: "not_owner" });
      }
      Object.assign(grant, { confirmed: now, ttl: body.ttl_ms ?? grant.ttl });
      return ok({ renewed: true, reason: "ok", leader_epoch: 1 });
    }
    if (grant !== undefined) {
      this.end(grant, "released", now);
    }
    return ok({ released: grant !== undefined, reason: grant === undefined ? "not_owner" : "ok" });
  }

  #session(method, [id, verb], body, now) {
    if (method === "POST" && id === undefined) {
      const session = { id: randomUUID(), clientId: body.client_id, ttl: body.ttl_ms, confirmed: now, done: new Map() };
      Object.defineProperty(session, "ends", { get: () => session.confirmed + session.ttl });
      this.sessions.set(session.id, session);
      return ok({ session_id: session.id, ttl_ms: session.ttl, keepalive_ms: Math.floor(session.ttl / 3), leader_epoch: 1 });
    }
    const session = this.sessions.get(id);
    if (method === "DELETE") {
      if (session !== undefined) {
        this.#endSession(session, now);
      }
      return ok({ closed: true });
    }
    if (session === undefined || verb !== "keepalive") {
      return refuse(404, "session_not_found", "there is no such session");
    }
    session.confirmed = now;
    return ok({ alive: true, session_id: id, leader_epoch: 1 });
  }

  #endSession(session, now) {
    this.sessions.delete(session.id);
    this.queue.filter((waiter) => waiter.session === session).forEach((waiter) => this.#leave(waiter, "cancelled", now));
    this.grants.filter((grant) => grant.session === session).forEach((grant) => this.end(grant, "session_closed", now));
  }

  #acquire(waiter, now) {
    const { session, body } = waiter;
    const isSame = (other) => other.session === session && other.body.request_id === body.request_id;
    const waiting = this.queue.find(isSame);
    const granted = this.grants.find(isSame);
    const done = session.done.get(body.request_id);
    if (body.cancel) {
      session.done.set(body.request_id, { reason: "cancelled" });
      if (waiting !== undefined) {
        this.#leave(waiting, "cancelled", now);
      }
      if (granted !== undefined) {
        this.end(granted, "released", now);
      }
      return ok({ acquired: false, reason: "cancelled" });
    }
    if (granted !== undefined || done !== undefined) {
      return ok(granted === undefined ? { acquired: false, ...done } : this.#grantBody(granted));
    }
    return new Promise((resolve) => {
      if (waiting !== undefined) { // it attaches again (S7.1)
        waiting.answer({ acquired: false, reason: "superseded" });
        waiting.answer = (answer) => resolve(ok(answer));
        return;
      }
      const wait = body.wait_timeout_ms;
      Object.assign(waiter, { until: wait < 0 ? Infinity : now + wait, answer: (answer) => resolve(ok(answer)) });
      this.queue.push(waiter);
      this.#grantNext(now);
      if (wait === 0 && this.queue.includes(waiter)) {
        this.#leave(waiter, "held", now);
      }
    });
  }

  #leave(waiter, reason, now) {
    this.queue = this.queue.filter((other) => other !== waiter);
    const [holder] = this.grants.filter((grant) => grant.names.some((name) => waiter.names.includes(name)));
    waiter.answer({
      acquired: false,
      reason,
      holder: holder === undefined ? null : { client_id: holder.session.clientId },
      queue_length: this.waiters(waiter.names[0]),
    });
    this.#grantNext(now);
  }

  /** Strict queues (S6.1): grants what is first in all of its queues and fits. */
  #grantNext(now) {
    const blocked = new Set();
    for (const waiter of [...this.queue]) {
      if (waiter.names.every((name) => !blocked.has(name) && this.#fits(name, waiter))) {
        this.queue = this.queue.filter((other) => other !== waiter);
        this.#grant(waiter, now);
      } else {
        waiter.names.forEach((name) => blocked.add(name));
      }
    }
  }

  #fits(name, { body }) {
    const held = this.grants.filter((grant) => grant.names.includes(name));
    if (body.mode === "shared") {
      return held.every((grant) => grant.mode === "shared");
    }
    if (body.mode === "semaphore") {
      const used = held.reduce((sum, grant) => sum + grant.body.permits, 0);
      return held.every((grant) => grant.mode === "semaphore") && used + body.permits <= body.limit;
    }
    return held.length === 0;
  }

  #grant(waiter, now) {
    this.#tokens += 1024;
    const grant = new Grant(waiter, this.#tokens, now);
    if (grant.mode === "semaphore") {
      const used = this.grants.filter((other) => other.names[0] === grant.names[0]).map((other) => other.slot);
      grant.slot = 0;
      while (used.includes(grant.slot)) {
        grant.slot += 1;
      }
    }
    this.grants.push(grant);
    this.#notify("granted", {}, grant.names, grant.session);
    waiter.answer(this.#grantBody(grant));
  }

  #grantBody(grant) {
    return {
      [grant.kind === "elections" ? "elected" : "acquired"]: true,
      fencing_token: grant.token,
      leader_epoch: 1,
      waited_ms: grant.waited,
      slot: grant.slot,
    };
  }

  // --- events ---

  /** @param isOwn only for the stream of the session */
  #notify(type, data, names, session, isOwn = false) {
    for (const name of names) {
      this.#numbers += 1;
      const event = {
        number: this.#numbers,
        session: isOwn ? session.id : null,
        name,
        text: `id: ${this.#numbers}-0\nevent: ${type}\ndata: ${JSON.stringify({ type, name, client_id: session.clientId, ...data })}\n\n`,
      };
      this.#events.push(event);
      if (this.#events.length > MAX_EVENTS) {
        this.#events.shift();
      }
      this.#streams.forEach((stream) => stream(event));
    }
  }

  /** Calls `deliver` with the text of each event after `lastId`. Returns the function that ends it. */
  subscribe(path, lastId, deliver) {
    const query = new URL(path, "http://fake").searchParams;
    const session = query.get("session_id");
    const prefix = query.get("prefix") ?? "";
    const stream = (event) => {
      if (session === null ? event.session === null && event.name.startsWith(prefix) : event.session === session) {
        deliver(event.text);
      }
    };
    deliver(`id: ${this.#numbers}-0\nevent: ready\ndata: {}\n\n`);
    if (lastId !== undefined) {
      this.#events.filter((event) => event.number > Number(lastId.split("-")[0])).forEach(stream);
    }
    this.#streams.add(stream);
    return () => this.#streams.delete(stream);
  }
}
