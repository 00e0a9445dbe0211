// The nodes, in rotation, with a circuit breaker for each (C6). No socket, no clock: the same rules as src/client/endpoints.h.

import { Invalid } from "./errors.js";

export const OPENS_AFTER = 3; // failures in a row
export const RETRY_MS = 25;
export const OPEN_MS = 250;
export const OPEN_MAX_MS = 2000;

/** Half of it to all of it. */
export function jitter(base) {
  return base * (0.5 + Math.random() / 2);
}

/** HOST:PORT or [IPV6]:PORT. */
export function parse(text) {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]/@]+)):([0-9]{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port < 1 || port > 65535) {
    throw new Invalid(`the endpoint "${text}" is not HOST:PORT or [IPV6]:PORT`, "invalid_endpoint");
  }
  return { host: match[1] ?? match[2], port };
}

class Endpoint {
  failures = 0; // in a row
  notBefore = 0;
  tried = 0; // number of its last attempt
  probing = false;
  why = "";

  constructor(text) {
    this.text = text;
    Object.assign(this, parse(text));
  }

  get isOpen() {
    return this.failures >= OPENS_AFTER;
  }

  mayTry(now) {
    return !this.probing && now >= this.notBefore;
  }
}

export class Endpoints {
  #attempts = 0;

  constructor(addresses) {
    this.all = addresses.map((text) => new Endpoint(text));
    if (this.all.length === 0) {
      throw new Invalid("no endpoint was given; name at least one node as HOST:PORT", "invalid_endpoint");
    }
  }

  /**
   * The one to try now: the fewest failures in a row, then the one used last, so that its connections serve again. Never `avoid`
   * unless it is the only one. null: none may be tried yet.
   */
  pick(now, avoid = null) {
    const free = this.all.filter((endpoint) => endpoint.mayTry(now));
    const others = free.filter((endpoint) => endpoint !== avoid);
    const [best] = (others.length > 0 ? others : free).sort((a, b) => a.failures - b.failures || b.tried - a.tried);
    return best ?? null;
  }

  begun(endpoint) {
    this.#attempts += 1;
    endpoint.tried = this.#attempts;
    endpoint.probing = endpoint.isOpen;
  }

  succeeded(endpoint) {
    Object.assign(endpoint, { failures: 0, notBefore: 0, probing: false, why: "" });
  }

  failed(endpoint, why, now) {
    endpoint.failures += 1;
    endpoint.why = why;
    endpoint.probing = false;
    const doubled = Math.min(endpoint.failures - OPENS_AFTER, 8);
    const rest = endpoint.isOpen ? Math.min(OPEN_MS * 2 ** doubled, OPEN_MAX_MS) : RETRY_MS;
    endpoint.notBefore = now + jitter(rest);
  }

  /** No circuit is closed and none may be probed: a call fails at once. */
  allOpen(now) {
    return this.all.every((endpoint) => endpoint.isOpen && !endpoint.mayTry(now));
  }

  describe() {
    return this.all.map((endpoint) => (endpoint.why ? `${endpoint.text} (${endpoint.why})` : endpoint.text)).join(", ");
  }
}
