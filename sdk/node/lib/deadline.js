// How long a lock or session is certainly held: the arithmetic of S5 (docs/CLIENTS.md, C1). Pure: times are arguments, in ms of
// one clock, and all objects are immutable. The same rules as src/client/deadline.h.

export const MARGIN_MS = 5;
export const RATE = 1000; // clocks of two machines differ by at most 1/RATE

export class Life {
  /** @param confirmed the sending of the last confirmed message */
  constructor(confirmed, ttl) {
    this.confirmed = confirmed;
    this.ttl = ttl;
    Object.freeze(this);
  }

  get safeUntil() {
    return this.confirmed + this.ttl - Math.ceil(this.ttl / RATE) - MARGIN_MS;
  }

  get jeopardyAt() {
    return this.safeUntil - Math.floor(this.ttl / 3);
  }

  /** An older confirmation changes nothing. */
  confirm(sent) {
    return sent > this.confirmed ? new Life(sent, this.ttl) : this;
  }
}

/** The deadlines that a lock may have at the service while renewals that set a TTL are unanswered (C1.7). */
export class LockLife {
  /**
   * @param known the newest answer
   * @param inFlight the renewal that may still be answered
   * @param unanswered earlier ones: earliest sending, shortest TTL
   * @param hold max_hold as the TTL; nothing confirms it
   */
  constructor({ known, inFlight = null, unanswered = null, hold = null }) {
    Object.assign(this, { known, inFlight, unanswered, hold });
    Object.freeze(this);
  }

  #with(changes) {
    return new LockLife({ ...this, ...changes });
  }

  #possible() {
    return [this.known, this.inFlight, this.unanswered].filter((life) => life !== null);
  }

  /** The shortest that the service may apply. */
  get ttl() {
    return Math.min(...this.#possible().map((life) => life.ttl));
  }

  safeUntil(session) {
    const own = this.#possible().map((life) => life.confirm(session.confirmed).safeUntil);
    return Math.min(...own, session.safeUntil, this.hold === null ? Infinity : this.hold.safeUntil);
  }

  jeopardyAt(session) {
    const own = this.#possible().map((life) => life.confirm(session.confirmed).jeopardyAt);
    const hold = this.hold === null ? Infinity : this.hold.safeUntil - Math.floor(this.known.ttl / 2);
    return Math.min(...own, session.jeopardyAt, hold);
  }

  /** Counts for whichever TTL the service has. */
  confirm(sent) {
    return this.#with({
      known: this.known.confirm(sent),
      inFlight: this.inFlight?.confirm(sent) ?? null,
      unanswered: this.unanswered?.confirm(sent) ?? null,
    });
  }

  renewalSent(ttl, sent) {
    return this.#with({ inFlight: new Life(sent, ttl) });
  }

  renewalApplied() {
    const sent = this.inFlight;
    return this.#with({ inFlight: null, known: new Life(this.known.confirmed, sent.ttl) }).confirm(sent.confirmed);
  }

  renewalRefused() {
    return this.#with({ inFlight: null });
  }

  /** It may be applied at any later time. */
  renewalUnanswered() {
    const sent = this.inFlight;
    const earlier = this.unanswered ?? sent;
    const merged = new Life(Math.min(sent.confirmed, earlier.confirmed), Math.min(sent.ttl, earlier.ttl));
    return this.#with({ inFlight: null, unanswered: merged });
  }
}
