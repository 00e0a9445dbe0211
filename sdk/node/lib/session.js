// The session of a client: opened with the first lock, kept alive, lost by the clock (C2, C3).

import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";

import { RETRY_MAX_MS, RETRY_MS } from "./caller.js";
import { sleep } from "./clock.js";
import { Life } from "./deadline.js";
import { HoldfastError, SESSION_GONE } from "./errors.js";
import { Broken, NotSent } from "./http.js";
import { EFFICIENCY, xorOf } from "./request.js";
import { Stream } from "./stream.js";

const EARLY = 64; // losses that are remembered for grants whose answer was not read yet
const REASON_MS = 500; // for how long renewals are sent that find reasons, and how long one may take

/** One session; after its loss it is not opened again. */
export class Session {
  id = "";
  life = new Life(0, 0);
  isOpen = false;
  why = ""; // it ended
  epoch = 0;
  held = new Map(); // by token
  waiting = new Map(); // AbortController of an acquire: the TTL that it may get at any moment
  #caller;
  #clock;
  #giveUp;
  #early = new Map(); // token: why it was lost
  #every = 0;
  #sent = 0; // of the last keep-alive
  #mayCheck = true; // the next keep-alive may have tokens
  #isFindingReasons = false; // of what was not listed
  #ending = new AbortController();
  #hurry = new AbortController(); // ends the pause before the next keep-alive
  #cancelTimer = () => {};

  /** @param giveUp is called for a lock that is lost by the clock while the session lives: the service may still have it */
  constructor(caller, number, giveUp) {
    this.#caller = caller;
    this.#clock = caller.clock;
    this.#giveUp = giveUp;
    this.number = number;
    setMaxListeners(0, this.signal); // each background release has one
  }

  /** Aborted when the session has ended. */
  get signal() {
    return this.#ending.signal;
  }

  async open(clientId, ttl, timeout) {
    const body = { client_id: clientId, ttl_ms: ttl, request_id: randomUUID() };
    const answer = await this.#caller.call("POST", "/api/v1/sessions", body, { timeout: Math.min(timeout, ttl / 2) });
    this.id = answer.body.session_id;
    this.life = new Life(answer.sent, answer.body.ttl_ms ?? ttl);
    this.epoch = answer.body.leader_epoch;
    this.#every = answer.body.keepalive_ms ?? Math.floor(ttl / 3);
    this.#sent = answer.sent;
    this.isOpen = true;
    this.tick();
    this.#keepAlive();
    this.#listen();
  }

  async close(timeout) {
    this.lose("closed");
    await this.#caller.call("DELETE", `/api/v1/sessions/${this.id}`, null, { timeout, failsFast: false });
  }

  // --- what it holds ---

  add(held) {
    this.held.set(held.token, held);
    if (this.#early.has(held.token)) {
      this.loseLock(held, this.#early.get(held.token));
    }
    this.hurry();
  }

  remove(held) {
    this.held.delete(held.token);
  }

  /** A deadline or the shortest TTL may have changed. */
  hurry() {
    this.tick();
    this.#hurry.abort();
  }

  lose(why) {
    if (!this.isOpen) {
      return;
    }
    this.isOpen = false;
    this.why = why;
    this.#cancelTimer();
    for (const held of this.held.values()) {
      held.lose(why);
    }
    this.held.clear();
    for (const call of this.waiting.keys()) {
      call.abort();
    }
    this.#ending.abort();
    this.#hurry.abort();
  }

  /** An answer that says that it has ended (C2.5). */
  noteRefusal(error) {
    if (SESSION_GONE.includes(error.code)) {
      this.lose(error.code);
    }
  }

  loseLock(held, why) {
    this.remove(held);
    held.lose(why);
  }

  /** Declares lost what is overdue (C2.3), and notes jeopardy. Sets the timer for the next deadline. */
  tick() {
    if (!this.isOpen) {
      return;
    }
    const now = this.#clock.now();
    if (now >= this.life.safeUntil) {
      this.lose("unconfirmed");
      return;
    }
    let next = this.life.safeUntil;
    for (const held of [...this.held.values()]) {
      const ends = held.life.safeUntil(this.life);
      const jeopardy = held.life.jeopardyAt(this.life);
      if (now >= ends) {
        this.loseLock(held, ends === held.life.hold?.safeUntil ? "max_hold" : "unconfirmed");
        this.#giveUp(held);
      } else {
        held.note(now >= jeopardy);
        next = Math.min(next, now >= jeopardy ? ends : jeopardy);
      }
    }
    if (this.isOpen) { // a listener of a loss may have closed the client
      this.#cancelTimer();
      this.#cancelTimer = this.#clock.setTimer(() => this.tick(), next - now);
    }
  }

  /** With a new leader, all locks of the tier EFFICIENCY are lost (S10.2). */
  noteEpoch(epoch) {
    if (epoch > this.epoch) {
      this.epoch = epoch;
      for (const held of [...this.held.values()]) {
        if (held.tier === EFFICIENCY && held.epoch < epoch) {
          this.loseLock(held, "epoch");
        }
      }
    }
  }

  // --- what it does by itself ---

  /** What the service reports: losses (C2.5) and revocations. */
  async #listen() {
    const path = `/api/v1/sessions/${this.id}/events`;
    const stream = new Stream(this.#caller, path, { signal: this.signal, showsReady: true });
    while (this.isOpen) {
      try {
        for await (const event of stream) {
          this.#noteEvent(event);
        }
      } catch (error) { // a node that does not know the session yet, or the session has gone
        if (!(error instanceof HoldfastError)) {
          throw error;
        }
        await sleep(this.#clock, RETRY_MAX_MS, this.signal);
      }
    }
  }

  #noteEvent({ type, data }) {
    if (type === "ready") { // a keep-alive at once finds what no stream reported (C3.8)
      this.#sent = -Infinity;
      this.#hurry.abort();
    } else if (type === "epoch") {
      this.noteEpoch(data.leader_epoch);
    } else if (type === "session_closed" || type === "session_expired") {
      this.lose(type);
    }
    const token = data.fencing_token;
    const held = this.held.get(token);
    if (type === "lost" && held !== undefined) {
      this.loseLock(held, String(data.ended ?? "lost"));
    } else if (type === "lost" && typeof token === "number") {
      if (this.#early.size >= EARLY) {
        this.#early.delete(this.#early.keys().next().value);
      }
      this.#early.set(token, String(data.ended ?? "lost"));
    } else if (type === "revoke_requested") {
      held?.observer?.revokeRequested({
        actor: data.actor_id ?? "",
        reason: data.text ?? "",
        deadline: data.revoked_at === undefined ? null : new Date(data.revoked_at),
      });
    }
  }

  #shortestTtl() {
    const ttls = [...this.held.values()].map((held) => held.life.ttl);
    return Math.min(this.life.ttl, ...ttls, ...this.waiting.values());
  }

  async #keepAlive() {
    let avoid = null;
    while (this.isOpen) {
      const ttl = this.#shortestTtl();
      const due = this.#sent + Math.min(this.#every, Math.floor(ttl / 3));
      const sent = this.#clock.now();
      if (sent < due) {
        this.#hurry = new AbortController();
        await sleep(this.#clock, due - sent, this.#hurry.signal);
        continue;
      }
      const endpoint = this.#caller.endpoints.pick(sent, avoid);
      if (endpoint !== null) {
        avoid = endpoint;
        if (await this.#keepAliveAt(endpoint, Math.min(Math.max(ttl / 6, 500), 2000))) {
          avoid = null;
          continue;
        }
      }
      await sleep(this.#clock, RETRY_MS, this.signal);
    }
  }

  /** One keep-alive, with the tokens that are held now (C3.6); more if the list of locks has several pages. */
  async #keepAliveAt(endpoint, timeout) {
    const believed = [...this.held.values()];
    const numbers = { lock_count: believed.length, lock_xor: xorOf(believed.map(({ token }) => token)) };
    const body = this.#mayCheck ? JSON.stringify(numbers) : "";
    const listed = new Set();
    let isConfirmed = false;
    for (let cursor = ""; ;) {
      const page = await this.#keepAliveOnce(endpoint, cursor, body, timeout);
      isConfirmed ||= page !== null;
      if (page?.locks === undefined) {
        return isConfirmed;
      }
      page.locks.forEach((row) => listed.add(row.fencing_token));
      if (page.next_cursor === null) {
        this.#compare(endpoint, believed, listed);
        return true;
      }
      cursor = `?cursor=${page.next_cursor}`;
    }
  }

  /** Each one is a new message and counts from its own sending (C1.6). Null: it was not confirmed. */
  async #keepAliveOnce(endpoint, cursor, body, timeout) {
    const path = `/api/v1/sessions/${this.id}/keepalive${cursor}`;
    const sent = this.#clock.now();
    let response;
    try {
      response = await this.#caller.attempt(endpoint, { method: "POST", path, body, timeout, signal: this.signal });
    } catch (error) {
      if (error instanceof Broken || error instanceof NotSent) {
        return null;
      }
      throw error;
    }
    this.tick();
    if (response.status === 200 && this.isOpen) {
      this.#mayCheck = true;
      this.#sent = sent;
      this.life = this.life.confirm(sent);
      this.noteEpoch(response.body.leader_epoch);
      this.tick();
      return response.body;
    }
    const code = response.body.error?.code;
    this.#mayCheck = code !== "field_unknown"; // a node of an earlier version (C3.9)
    if (SESSION_GONE.includes(code)) {
      this.lose("session_expired");
    }
    return null;
  }

  /** What was held at the sending, is not listed, and is not being released, has ended (C3.7). */
  #compare(endpoint, believed, listed) {
    const gone = believed.filter((held) => !listed.has(held.token) && this.held.get(held.token) === held);
    if (gone.length > 0 && !this.#isFindingReasons) { // otherwise the next keep-alive finds it
      void this.#loseAll(endpoint, gone);
    }
  }

  /** Each with the reason that its renewal reports, or `unknown` after REASON_MS. */
  async #loseAll(endpoint, gone) {
    const until = this.#clock.now() + REASON_MS;
    let answers = true;
    this.#isFindingReasons = true;
    for (const held of gone) {
      let why = "unknown";
      if (answers && this.held.get(held.token) === held && this.#clock.now() < until) {
        try {
          why = await this.#reasonOf(endpoint, held);
        } catch { // it was not answered
          answers = false;
        }
      }
      if (why !== null && this.held.get(held.token) === held) {
        this.loseLock(held, why);
      }
    }
    this.#isFindingReasons = false;
  }

  /** null: the service has it. */
  async #reasonOf(endpoint, held) {
    const body = JSON.stringify(held.request.tokenBody(this.id, held.token));
    const request = { method: "POST", path: held.request.path("renew"), body, timeout: REASON_MS, signal: this.signal };
    const { status, body: answer } = await this.#caller.attempt(endpoint, request);
    this.tick();
    if (SESSION_GONE.includes(answer.error?.code)) {
      this.lose("session_expired");
    }
    if (status !== 200) {
      return "unknown";
    }
    this.noteEpoch(answer.leader_epoch ?? 0);
    return answer.renewed ? null : String(answer.ended ?? "unknown");
  }
}
