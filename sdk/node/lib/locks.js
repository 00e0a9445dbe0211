// Acquire, renew, release, withdraw: the operations on locks (C4, C5).

import { randomUUID } from "node:crypto";

import { ATTEMPT_MS, Cancelled, RETRY_MS } from "./caller.js";
import { sleep } from "./clock.js";
import { Life, LockLife } from "./deadline.js";
import { Closed, LockLost, NotAcquired, NotHeld, OutcomeUnknown, ServiceError, Unreachable, WaitTimeout, fromAnswer } from "./errors.js";
import { HELD, Held, LOST, RELEASED } from "./held.js";
import { Broken, NotSent } from "./http.js";
import { milliseconds } from "./request.js";
import { Session } from "./session.js";

function refusal(request, answer) {
  const reason = String(answer.reason ?? "held");
  const holder = answer.holder?.client_id;
  const text = `${request.text} was not acquired: ${reason}${holder ? `; ${holder} holds it` : ""}`;
  return new (reason === "timeout" ? WaitTimeout : NotAcquired)(text, reason, answer);
}

/** The promise, or the reason of the signal if that is first. */
function unlessAborted(promise, signal) {
  if (signal === undefined) {
    return promise;
  }
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

export class Locks {
  #caller;
  #clock;
  #clientId;
  #sessionTtl;
  #timeout;
  #session = null;
  #opening = null;
  #sessions = 0;
  #owners = 0;
  #isClosed = false;

  constructor(caller, { clientId, sessionTtl, timeout }) {
    this.#caller = caller;
    this.#clock = caller.clock;
    this.#clientId = clientId;
    this.#sessionTtl = sessionTtl;
    this.#timeout = timeout;
  }

  // --- the session ---

  /** The open session that it belongs to; null: that one has ended. What is overdue is lost before this returns. */
  #sessionOf(held) {
    this.#session?.tick();
    return this.#session?.isOpen && this.#session.number === held.sessionNumber ? this.#session : null;
  }

  async #openSession() {
    this.#sessions += 1;
    const session = new Session(this.#caller, this.#sessions, (held) => void this.#releaseQuietly(held));
    await session.open(this.#clientId, this.#sessionTtl, this.#timeout);
    this.#session = session;
    return session;
  }

  async #needSession() {
    if (this.#isClosed) {
      throw new Closed();
    }
    this.#session?.tick();
    if (this.#session?.isOpen) {
      return this.#session;
    }
    this.#opening ??= this.#openSession().finally(() => {
      this.#opening = null;
    });
    const session = await this.#opening;
    if (this.#isClosed) {
      throw new Closed();
    }
    return session;
  }

  /** Throws if the session was not closed at the service. Here, nothing is held in any case. */
  async close() {
    this.#isClosed = true;
    await this.#opening?.catch(() => {});
    if (this.#session?.isOpen) {
      await this.#session.close(this.#timeout);
    }
  }

  // --- what is held ---

  /** ms for which it is certainly held, by the clock at this moment. */
  safeFor(held) {
    const session = this.#sessionOf(held);
    return held.state === HELD && session !== null ? Math.max(held.life.safeUntil(session.life) - this.#clock.now(), 0) : 0;
  }

  isInJeopardy(held) {
    const session = this.#sessionOf(held);
    return held.state !== HELD || session === null || this.#clock.now() >= held.life.jeopardyAt(session.life);
  }

  /** Throws unless it is held now, by the clock (C2.2). */
  check(held) {
    if (held.state === RELEASED) {
      throw new NotHeld(`${held.name} was released`);
    }
    if (this.safeFor(held) <= 0) {
      held.lose("unconfirmed");
      held.lossWasThrown = true;
      throw held.loss();
    }
  }

  // --- acquire ---

  async acquire(request, signal) {
    signal?.throwIfAborted();
    const session = await unlessAborted(this.#needSession(), signal);
    this.#owners += 1;
    const body = request.acquireBody(session.id, `h${this.#owners}`, randomUUID());
    const path = request.path("acquire");
    const ttl = request.ttl ?? session.life.ttl;
    const call = new AbortController();
    const abort = () => call.abort();
    signal?.addEventListener("abort", abort);
    session.waiting.set(call, ttl);
    session.hurry();
    try {
      const answer = await this.#caller.call("POST", path, body, { timeout: this.#timeout, wait: request.wait, signal: call.signal });
      if (!answer.body.acquired && !answer.body.elected) {
        throw refusal(request, answer.body);
      }
      const held = this.#granted(session, request, answer, ttl);
      if (signal?.aborted) {
        this.drop(held);
        throw signal.reason;
      }
      return held;
    } catch (error) {
      if (error instanceof Cancelled && !session.isOpen) {
        throw this.#isClosed ? new Closed() : new LockLost(`the session was lost while ${request.text} was waited for`, "session_lost");
      }
      session.noteRefusal(error);
      if (error instanceof Cancelled || error instanceof OutcomeUnknown) {
        void this.#withdraw(session, path, body);
      }
      throw error instanceof Cancelled ? signal.reason : error;
    } finally {
      session.waiting.delete(call);
      signal?.removeEventListener("abort", abort);
    }
  }

  #granted(session, request, { body: answer, sent }, ttl) {
    if (!Number.isSafeInteger(answer.fencing_token)) {
      throw new ServiceError(`the endpoint granted ${request.text} with a token that is not a whole number below 2^53`, "protocol");
    }
    const hold = request.maxHold === null ? null : new Life(sent + (answer.waited_ms ?? 0), request.maxHold);
    const held = new Held({
      request,
      sessionNumber: session.number,
      token: answer.fencing_token,
      life: new LockLife({ known: new Life(sent, ttl), hold }),
      slot: answer.slot,
      epoch: answer.leader_epoch ?? session.epoch,
      tier: answer.tier ?? request.tier,
    });
    session.tick();
    if (!session.isOpen) {
      throw new LockLost(`the session was lost before ${request.text} was granted`, "session_lost");
    }
    if (this.#clock.now() >= held.life.safeUntil(session.life)) {
      this.drop(held);
      throw new LockLost(`the grant of ${request.text} arrived after its TTL`, "unconfirmed");
    }
    session.noteEpoch(held.epoch);
    session.add(held);
    return held;
  }

  /** Until it is answered or the session has ended (C5.2). */
  async #withdraw(session, path, body) {
    await this.#untilAnswered(session, path, { ...body, cancel: true }).catch(() => {});
  }

  /** null: the session ended first, and with it what the request was about. */
  async #untilAnswered(session, path, body) {
    while (session.isOpen) {
      try {
        return await this.#caller.call("POST", path, body, { timeout: this.#timeout, failsFast: false, signal: session.signal });
      } catch (error) {
        if (!(error instanceof OutcomeUnknown || error instanceof Unreachable || error instanceof Cancelled)) {
          session.noteRefusal(error);
          throw error;
        }
      }
    }
    return null;
  }

  // --- release ---

  /** A grant that nobody waits for any longer (C5.3). */
  drop(held) {
    held.state = RELEASED;
    this.#session?.remove(held);
    void this.#releaseQuietly(held);
  }

  /** The service may have it, and the session would keep it alive (C2.6). A refusal changes nothing: it is not held here. */
  async #releaseQuietly(held) {
    await this.#release(held).catch(() => {});
  }

  async release(held) {
    if (held.state === RELEASED) {
      return;
    }
    this.#sessionOf(held);
    if (held.state === LOST) {
      held.lossWasThrown = true;
      throw held.loss();
    }
    held.state = RELEASED; // from here nothing renews it (C5.5)
    this.#session?.remove(held);
    const released = this.#release(held);
    released.catch(() => {}); // it may end after the deadline
    const deadline = new AbortController();
    const late = sleep(this.#clock, this.#timeout, deadline.signal).then(() => {
      throw new OutcomeUnknown(`the release of ${held.name} is not answered yet; it is repeated until the session ends`);
    });
    late.catch(() => {});
    try {
      await Promise.race([released, late]);
    } finally {
      deadline.abort();
    }
  }

  async #release(held) {
    const session = this.#session;
    if (session === null || session.number !== held.sessionNumber) {
      return;
    }
    const body = held.request.tokenBody(session.id, held.token);
    if (held.request.mode !== "election") {
      body.request_id = randomUUID();
    }
    const answer = await this.#untilAnswered(session, held.request.path("release"), body);
    const reason = answer?.body.reason;
    if (reason === "expired" || reason === "not_owner") {
      const ended = String(answer.body.ended ?? reason);
      throw new LockLost(`${held.name} was lost before its release: ${ended}`, ended);
    }
  }

  // --- renew ---

  /** Sets the TTL. */
  async renew(held, ttl) {
    const ttlMs = milliseconds(ttl, "ttl", 1000);
    const until = this.#clock.now() + this.#timeout;
    const earlier = held.renewing;
    const mine = (async () => {
      await earlier.catch(() => {});
      while (this.#clock.now() < until) {
        if (await this.#renewOnce(held, ttlMs)) {
          return;
        }
        await sleep(this.#clock, RETRY_MS);
      }
      throw new OutcomeUnknown(`the renewal of ${held.name} was not answered`);
    })();
    held.renewing = mine;
    await mine;
  }

  /** Throws if it is not held any more. */
  #needHeld(held) {
    const session = this.#sessionOf(held);
    if (held.state === RELEASED) {
      throw new NotHeld(`${held.name} was released`);
    }
    if (held.state === LOST || session === null) {
      held.lossWasThrown = true;
      throw held.loss();
    }
    return session;
  }

  /** Each attempt is a new message (C1.6). */
  async #renewOnce(held, ttl) {
    const session = this.#needHeld(held);
    const sent = this.#clock.now();
    const endpoint = this.#caller.endpoints.pick(sent);
    if (endpoint === null) {
      return false;
    }
    const body = JSON.stringify({ ...held.request.tokenBody(session.id, held.token), ttl_ms: ttl });
    held.life = held.life.renewalSent(ttl, sent);
    session.hurry();
    const request = { method: "POST", path: held.request.path("renew"), body, timeout: ATTEMPT_MS, signal: session.signal };
    let response;
    try {
      response = await this.#caller.attempt(endpoint, request);
    } catch (error) {
      held.life = error instanceof NotSent ? held.life.renewalRefused() : held.life.renewalUnanswered();
      if (!(error instanceof NotSent || error instanceof Broken)) {
        throw error;
      }
      return false;
    }
    session.tick();
    const { status, body: answer } = response;
    if (status === 200 && answer.renewed) {
      held.life = held.life.renewalApplied();
      session.noteEpoch(answer.leader_epoch ?? 0);
      session.hurry();
      this.#needHeld(held);
      return true;
    }
    held.life = status === 504 ? held.life.renewalUnanswered() : held.life.renewalRefused();
    if (status === 504 || status === 503) {
      return false;
    }
    if (status !== 200) {
      const refused = fromAnswer(status, answer);
      session.noteRefusal(refused);
      throw refused;
    }
    session.loseLock(held, String(answer.ended ?? "expired"));
    held.lossWasThrown = true;
    throw held.loss();
  }
}
