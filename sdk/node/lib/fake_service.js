// The service of the fake: sessions, queues and grants in memory, by the paths and messages of the real one. Time is an argument.

import { randomUUID } from "node:crypto";

import { FakeEvents } from "./fake_events.js";
import { CORRECTNESS, EFFICIENCY, xorOf } from "./request.js";

const UNCLEAN = ["expired", "session_expired", "forced", "revoked", "max_hold"]; // a lock-delay follows (S6.5)

const ok = (body) => ({ status: 200, body });
const refuse = (status, code, message) => ({ status, body: { error: { code, message } } });

/** A request: it waits, then it holds. */
class Waiter {
  constructor({ kind, session, names, body, answer }, now) {
    Object.assign(this, { session, names, body, answer, since: now });
    this.mode = kind === "elections" ? "election" : (body.mode ?? "exclusive");
    this.class = this.mode === "shared" ? "exclusive" : this.mode; // exclusive and shared are one (S6.3)
    this.tier = body.tier ?? CORRECTNESS;
    this.until = body.wait_timeout_ms < 0 ? Infinity : now + body.wait_timeout_ms;
  }

  shown(name) {
    const { session, names, body, mode, tier } = this;
    const part = names.length > 1 ? { part: names.indexOf(name) + 1, parts: names.length } : {};
    return { name, client_id: session.clientId, owner: body.owner, mode, tier, ...part };
  }
}

class Grant {
  constructor(waiter, token, now) {
    const { session, names, body, mode, tier } = waiter;
    Object.assign(this, { waiter, session, names, body, mode, tier, token, since: now });
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

  why(now) {
    return now >= this.session.ends ? "session_expired" : now >= this.revokedAt ? "revoked" : now >= this.holdUntil ? "max_hold" : "expired";
  }

  holder(now) {
    const { session, body, mode, since, ends } = this;
    const iso = (at) => new Date(at).toISOString();
    return {
      client_id: session.clientId, owner: body.owner, mode, since: iso(since), expires_at: iso(ends), expires_in_ms: Math.max(ends - now, 0),
      metadata: body.metadata ?? null,
    };
  }
}

export class FakeService {
  sessions = new Map();
  grants = [];
  queue = [];
  epoch = 1;
  #tokens = 0;
  #delayed = new Map(); // name: until when nobody gets it
  #events = new FakeEvents();

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

  requestRevocation(grant, at, reason, now) {
    grant.revokedAt = at;
    for (const name of grant.names) {
      this.#events.emit("revoke_requested", now, grant.waiter.shown(name), {
        session: grant.session.id, fencing_token: grant.token, actor_id: "test", text: reason, revoked_at: new Date(at).toISOString(),
      });
    }
  }

  /** The locks of the tier EFFICIENCY are gone (S10.2). */
  changeLeader(now) {
    this.epoch += 1;
    this.grants = this.grants.filter(({ tier }) => tier !== EFFICIENCY);
    this.#events.emit("epoch", now, {}, { everyone: true, leader_epoch: this.epoch });
    this.#grantNext(now);
  }

  // --- time ---

  /** The next moment at which something ends. */
  get nextEnd() {
    const ends = [...this.sessions.values(), ...this.grants].map((one) => one.ends);
    return Math.min(Infinity, ...ends, ...this.queue.map((waiter) => waiter.until), ...this.#delayed.values());
  }

  sweep(now) {
    for (const grant of this.grants.filter(({ ends }) => now >= ends)) {
      this.end(grant, grant.why(now), now);
    }
    for (const session of [...this.sessions.values()].filter(({ ends }) => now >= ends)) {
      this.#endSession(session, "session_expired", now);
    }
    for (const waiter of this.queue.filter(({ until }) => now >= until)) {
      this.#leave(waiter, "timeout", now);
    }
    for (const [name] of [...this.#delayed].filter(([, until]) => now >= until)) {
      this.#delayed.delete(name);
    }
    this.#grantNext(now);
  }

  end(grant, ended, now) {
    if (!this.grants.includes(grant)) {
      return;
    }
    const { session, waiter, tier, mode, body } = grant;
    this.grants = this.grants.filter((other) => other !== grant);
    session.ended.set(grant.token, ended);
    session.done.set(body.request_id, { reason: ended === "released" ? "already_released" : "expired", ended });
    const type = { forced: "forced", revoked: "revoked" }[ended] ?? (UNCLEAN.includes(ended) ? "expired" : "released");
    for (const name of grant.names) {
      this.#events.emit(type, now, waiter.shown(name), { ended });
      if (ended !== "released") {
        this.#events.emit("lost", now, waiter.shown(name), { session: session.id, fencing_token: grant.token, ended });
      }
      if (mode === "election") {
        this.#events.emit("leader_changed", now, { name, mode, tier }, { value: "", vacant: true });
      }
      if (UNCLEAN.includes(ended) && body.lock_delay_ms > 0) {
        this.#delayed.set(name, now + body.lock_delay_ms);
        this.#events.emit("delayed", now, { name, mode, tier }, { delayed_until: new Date(now + body.lock_delay_ms).toISOString() });
      }
    }
    this.#grantNext(now);
  }

  // --- requests ---

  /** A promise of the answer. */
  async handle(method, path, text, now) {
    this.sweep(now);
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
      return this.#acquire(new Waiter({ kind, session, names, body }, now), now);
    }
    const grant = this.grants.find((one) => one.token === body.fencing_token && one.session === session);
    const ended = session.ended.get(body.fencing_token);
    const outcome = grant !== undefined ? { reason: "ok" } : ended === undefined ? { reason: "not_owner" } : { reason: "expired", ended };
    if (verb === "renew") {
      if (grant !== undefined) {
        Object.assign(grant, { confirmed: now, ttl: body.ttl_ms ?? grant.ttl });
      }
      return ok({ renewed: grant !== undefined, leader_epoch: this.epoch, ...outcome });
    }
    if (grant !== undefined) {
      this.end(grant, "released", now);
    } else if (ended === "released") {
      Object.assign(outcome, { reason: "already_released", ended: undefined });
    }
    return ok({ [verb === "resign" ? "resigned" : "released"]: grant !== undefined, ...outcome });
  }

  #session(method, [id, verb], body, now) {
    if (method === "POST" && id === undefined) {
      const session = { id: randomUUID(), clientId: body.client_id, ttl: body.ttl_ms, confirmed: now, done: new Map(), ended: new Map() };
      Object.defineProperty(session, "ends", { get: () => session.confirmed + session.ttl });
      this.sessions.set(session.id, session);
      this.#events.emit("session_opened", now, { client_id: session.clientId });
      return ok({ session_id: session.id, ttl_ms: session.ttl, keepalive_ms: Math.floor(session.ttl / 3), leader_epoch: this.epoch });
    }
    const session = this.sessions.get(id);
    if (method === "DELETE") {
      if (session !== undefined) {
        this.#endSession(session, "session_closed", now);
      }
      return ok({ closed: true });
    }
    if (session === undefined || verb !== "keepalive") {
      return refuse(404, "session_not_found", "there is no such session");
    }
    session.confirmed = now;
    return ok({ alive: true, session_id: id, leader_epoch: this.epoch, ...this.#listOf(session, body) });
  }

  /** What a session holds, if a keep-alive names other tokens. */
  #listOf(session, { lock_count: count, lock_xor: xor }) {
    const held = this.grants.filter((grant) => grant.session === session);
    if (count === undefined || (count === held.length && xor === xorOf(held.map(({ token }) => token)))) {
      return {};
    }
    const locks = held.flatMap(({ names, tier, token }) => names.map((name) => ({ name, tier, fencing_token: token })));
    return { locks, next_cursor: null };
  }

  #endSession(session, why, now) {
    this.sessions.delete(session.id);
    this.queue.filter((waiter) => waiter.session === session).forEach((waiter) => this.#leave(waiter, "cancelled", now));
    this.grants.filter((grant) => grant.session === session).forEach((grant) => this.end(grant, why, now));
    this.#events.emit(why, now, { client_id: session.clientId });
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
      waiter.answer = (answer) => resolve(ok(answer));
      const conflict = waiter.names.map((name) => this.#conflict(waiter, name)).find((why) => why !== null);
      if (conflict === "wrong_tier") {
        resolve(refuse(409, "wrong_tier", `${waiter.names.join(", ")}: in use in the other tier`));
      } else if (conflict !== undefined) {
        this.#refuse(waiter, conflict, now);
      } else {
        this.#enqueue(waiter, now);
      }
    });
  }

  /** Why it cannot even wait: another tier, class or limit of the name (S6.3). */
  #conflict({ class: kind, tier, body }, name) {
    const others = [...this.grants.map(({ waiter }) => waiter), ...this.queue].filter(({ names }) => names.includes(name));
    const differs = (isOther) => others.some(isOther);
    return differs((other) => other.tier !== tier) ? "wrong_tier"
      : kind === "semaphore" && body.permits > body.limit ? "permits_exceed_limit"
        : differs((other) => other.class !== kind) ? "mode_mismatch"
          : differs((other) => other.body.limit !== body.limit) ? "limit_mismatch" : null;
  }

  #enqueue(waiter, now) {
    this.queue.push(waiter);
    this.#grantNext(now);
    if (!this.queue.includes(waiter)) {
      return;
    }
    if (waiter.body.wait_timeout_ms === 0) {
      this.queue = this.queue.filter((other) => other !== waiter);
      this.#refuse(waiter, waiter.names.some((name) => this.#delayed.has(name)) ? "delayed" : "held", now);
    } else {
      waiter.names.forEach((name) => this.#events.emit("queued", now, waiter.shown(name)));
    }
  }

  #refuse(waiter, reason, now) {
    const holder = this.grants.find(({ names }) => names.some((name) => waiter.names.includes(name)));
    waiter.answer({ acquired: false, reason, holder: holder?.holder(now) ?? null, queue_length: this.waiters(waiter.names[0]) });
  }

  #leave(waiter, reason, now) {
    this.queue = this.queue.filter((other) => other !== waiter);
    this.#refuse(waiter, reason, now);
    waiter.names.forEach((name) => this.#events.emit("wait_ended", now, waiter.shown(name), { reason }));
    this.#grantNext(now);
  }

  /** Strict queues (S6.1): grants what is first in all of its queues and fits. */
  #grantNext(now) {
    const blocked = new Set([...this.#delayed].filter(([, until]) => now < until).map(([name]) => name));
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
    for (const name of grant.names) {
      this.#events.emit("granted", now, waiter.shown(name));
      if (grant.mode === "election") {
        this.#events.emit("leader_changed", now, waiter.shown(name), { value: grant.body.value ?? "", vacant: false });
      }
    }
    waiter.answer(this.#grantBody(grant));
  }

  #grantBody(grant) {
    return {
      [grant.mode === "election" ? "elected" : "acquired"]: true,
      fencing_token: grant.token,
      leader_epoch: this.epoch,
      tier: grant.tier,
      waited_ms: grant.waited,
      slot: grant.slot,
    };
  }

  /** Calls `deliver` with the text of each event after `lastId`. Returns the function that ends it. */
  subscribe(path, lastId, deliver) {
    const { pathname, searchParams } = new URL(path, "http://fake");
    const session = /^\/api\/v1\/sessions\/([^/]+)\/events$/.exec(pathname)?.[1] ?? null;
    return this.#events.subscribe({ session, prefix: searchParams.get("prefix") ?? "", lastId }, deliver);
  }
}
