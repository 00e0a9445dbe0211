// Requests that are repeated with the same bytes until they are answered (C4).

import { sleep } from "./clock.js";
import { jitter } from "./endpoints.js";
import { OutcomeUnknown, Unreachable, fromAnswer } from "./errors.js";
import { Broken, NotSent } from "./http.js";

export const RETRY_MS = 20;
export const RETRY_MAX_MS = 500;
export const ATTEMPT_MS = 2000;
const HEAD_MS = 5000; // until a stream has begun
const WAIT_SLICE_MS = 15_000; // a wait that gets no answer for so long is repeated: its node may be gone

/** The call was ended by its signal. Never leaves the package. */
export class Cancelled extends Error {}

export class Caller {
  #waits = new Map(); // endpoint: the controllers of the waits and streams that it has

  constructor({ clock, endpoints, transport }) {
    this.clock = clock;
    this.endpoints = endpoints;
    this.transport = transport;
  }

  /** Its connections, and the waits and streams on them, are not trusted any longer. */
  #failed(endpoint, why) {
    this.endpoints.failed(endpoint, why, this.clock.now());
    this.transport.closeIdle(endpoint);
    for (const wait of this.#waits.get(endpoint) ?? []) {
      wait.abort();
    }
  }

  /** Aborted with `signal`, and when the node fails for another request. `end` must be called. */
  #whileTrusted(endpoint, signal) {
    const ending = new AbortController();
    const abort = () => ending.abort();
    const waits = this.#waits.get(endpoint) ?? new Set();
    this.#waits.set(endpoint, waits.add(ending));
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) {
      abort();
    }
    return {
      signal: ending.signal,
      end() {
        signal?.removeEventListener("abort", abort);
        waits.delete(ending);
      },
    };
  }

  /** One sending to one node; its circuit is noted. */
  async attempt(endpoint, { waits = false, signal, ...request }) {
    const trust = waits ? this.#whileTrusted(endpoint, signal) : { signal, end() {} };
    this.endpoints.begun(endpoint);
    if (waits) {
      endpoint.probing = false; // a wait may be silent for long: it must not keep others from probing
    }
    try {
      const response = await this.transport.request(endpoint, { ...request, signal: trust.signal });
      this.endpoints.succeeded(endpoint);
      return response;
    } catch (error) {
      if (trust.signal?.aborted) {
        endpoint.probing = false; // nothing was learned
      } else if (!waits || error instanceof NotSent) {
        this.#failed(endpoint, error.message);
      }
      throw error;
    } finally {
      trust.end();
    }
  }

  /** Opens a stream at a node, not at `avoid` if there is another; its circuit is noted. Resolves with the node, too. */
  async open({ path, headers, signal, avoid }) {
    const endpoint = this.endpoints.pick(this.clock.now(), avoid);
    if (endpoint === null) {
      throw new NotSent("no node may be tried yet");
    }
    const trust = this.#whileTrusted(endpoint, signal);
    this.endpoints.begun(endpoint);
    endpoint.probing = false;
    try {
      const answer = await this.transport.open(endpoint, { path, headers, timeout: HEAD_MS, signal: trust.signal });
      this.endpoints.succeeded(endpoint);
      return { endpoint, end: trust.end, ...answer };
    } catch (error) {
      trust.end();
      if (!trust.signal.aborted) {
        this.#failed(endpoint, error.message);
      }
      throw error;
    }
  }

  /**
   * Until it is answered, `timeout` (and `wait`; null: no limit) has passed, or `signal` is aborted: then it throws Cancelled.
   * Resolves with the answer and `sent`, the first sending that may have been done (C1.6).
   */
  async call(method, path, body, { timeout, wait = 0, failsFast = true, signal }) {
    const request = { method, path, body: body === null ? "" : JSON.stringify(body), waits: wait !== 0, signal };
    const until = wait === null ? Infinity : this.clock.now() + timeout + wait;
    const slice = wait === 0 ? ATTEMPT_MS : WAIT_SLICE_MS;
    let sent = null;
    let avoid = null;
    for (let pause = RETRY_MS; ; pause = Math.min(pause * 2, RETRY_MAX_MS)) {
      const now = this.clock.now();
      if (now >= until || (failsFast && sent === null && this.endpoints.allOpen(now))) {
        break;
      }
      const endpoint = this.endpoints.pick(now, avoid);
      if (endpoint !== null && !signal?.aborted) {
        avoid = endpoint;
        try {
          const { status, body: answer } = await this.attempt(endpoint, { ...request, timeout: Math.min(until - now, slice) });
          if (status === 200) {
            return { body: answer, sent: sent ?? now };
          }
          if (status === 504) {
            sent ??= now;
          } else if (status !== 503) {
            throw fromAnswer(status, answer);
          }
        } catch (error) {
          if (error instanceof Broken) {
            sent ??= now;
          } else if (!(error instanceof NotSent)) {
            throw error;
          }
        }
      }
      await sleep(this.clock, jitter(pause), signal);
      if (signal?.aborted) {
        throw new Cancelled("cancelled");
      }
    }
    if (sent === null) {
      throw new Unreachable(`no node answered: ${this.endpoints.describe()}; check that the endpoints are right and the nodes run`);
    }
    throw new OutcomeUnknown(`no node answered, and the request may have been done: ${this.endpoints.describe()}`);
  }
}
