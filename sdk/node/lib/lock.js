// A lock that was granted. The token is in the handle (C5.6).

import { EventEmitter } from "node:events";
import { inspect } from "node:util";

import { asyncDispose } from "./dispose.js";
import { LockLost } from "./errors.js";
import { LOST } from "./held.js";

export class Lock extends EventEmitter {
  #locks;
  #held;
  #loss = new AbortController();

  constructor(locks, held) {
    super();
    this.#locks = locks;
    this.#held = held;
    held.observer = {
      jeopardy: () => this.#emitSoon("jeopardy"),
      safe: () => this.#emitSoon("safe"),
      lost: (error) => {
        this.#loss.abort(error);
        this.#emitSoon("lost", error);
      },
      revokeRequested: (revocation) => this.#emitSoon("revokeRequested", revocation),
    };
    if (held.state === LOST) { // while the handle was made
      held.observer.lost(held.loss());
    }
  }

  /** Listeners run on a turn of their own: one that throws stops nothing of the client (C2.7). */
  #emitSoon(event, ...values) {
    setImmediate(() => this.emit(event, ...values));
  }

  get name() {
    return this.#held.name;
  }

  get fenceToken() {
    return this.#held.token;
  }

  get slot() {
    return this.#held.slot ?? null;
  }

  get signal() {
    return this.#loss.signal;
  }

  get held() {
    return this.#locks.safeFor(this.#held) > 0;
  }

  get safeFor() {
    return this.#locks.safeFor(this.#held);
  }

  get inJeopardy() {
    return this.#locks.isInJeopardy(this.#held);
  }

  check() {
    this.#locks.check(this.#held);
  }

  async release() {
    await this.#locks.release(this.#held);
  }

  async renew(ttl) {
    await this.#locks.renew(this.#held, ttl);
  }

  /** As release(), but a loss that a call has thrown already is not thrown again: it would hide that error. */
  async [asyncDispose]() {
    const wasThrown = this.#held.lossWasThrown;
    try {
      await this.release();
    } catch (error) {
      if (!(error instanceof LockLost && wasThrown)) {
        throw error;
      }
    }
  }

  [inspect.custom]() {
    return `Lock { name: ${inspect(this.name)}, state: '${this.#held.state}' }`;
  }
}
