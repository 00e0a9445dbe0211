// What an acquire requests: names, mode, TTL, wait; and the paths and fields of its messages.

import { Invalid } from "./errors.js";

export const CORRECTNESS = "CORRECTNESS";
export const EFFICIENCY = "EFFICIENCY";
const LONGEST_MS = 2 ** 31; // longer than anything that the service accepts

/** Of tokens, which have more bits than the operators of numbers. */
export function xorOf(tokens) {
  return Number(tokens.reduce((all, token) => all ^ BigInt(token), 0n));
}

/** A duration in ms, rounded. */
export function milliseconds(value, what, least = 0) {
  if (typeof value !== "number" || !(value >= least) || value > LONGEST_MS) {
    throw new Invalid(`${what} is ${String(value)}, and must be a number of ms, at least ${least}`, `invalid_${what}`);
  }
  return Math.round(value);
}

/** Part of a path. */
export function encodeName(name) {
  if (typeof name !== "string" || name === "") {
    throw new Invalid("the name of a lock must be a string that is not empty", "invalid_name");
  }
  try {
    return encodeURIComponent(name);
  } catch {
    throw new Invalid("the name of a lock has half of a surrogate pair, which UTF-8 cannot encode", "invalid_name");
  }
}

const OPTIONS = {
  exclusive: ["ttl", "wait", "signal", "tier", "metadata", "maxHold", "lockDelay", "detectDeadlock", "trace", "shared"],
  semaphore: ["ttl", "wait", "signal", "tier", "metadata", "maxHold", "lockDelay", "detectDeadlock", "trace", "permits"],
  multi: ["ttl", "wait", "signal", "tier", "metadata", "maxHold", "lockDelay", "detectDeadlock", "trace"],
  election: ["ttl", "wait", "signal", "metadata", "maxHold", "lockDelay", "trace", "value"],
};

/** An unknown option is an error: a misspelt `wait` would wait without limit. */
function checkOptions(options, kind) {
  if (typeof options !== "object" || options === null) {
    throw new Invalid(`the options must be an object, and are ${String(options)}`, "invalid_options");
  }
  for (const key of Object.keys(options)) {
    if (!OPTIONS[kind].includes(key)) {
      throw new Invalid(`the option "${key}" is unknown here; there are: ${OPTIONS[kind].join(", ")}`, "invalid_options");
    }
  }
}

export class Request {
  /** @param kind exclusive, semaphore, multi or election */
  constructor(kind, names, options, more = {}) {
    checkOptions(options, kind);
    this.names = [...names];
    this.isMulti = kind === "multi";
    this.mode = this.isMulti ? "exclusive" : kind === "exclusive" && options.shared ? "shared" : kind;
    this.ttl = options.ttl === undefined ? null : milliseconds(options.ttl, "ttl", 1000); // null: that of the session
    this.wait = options.wait === undefined || options.wait === Infinity ? null : milliseconds(options.wait, "wait");
    this.tier = options.tier ?? CORRECTNESS;
    this.metadata = options.metadata;
    this.maxHold = options.maxHold === undefined ? null : milliseconds(options.maxHold, "maxHold", 100);
    this.lockDelay = milliseconds(options.lockDelay ?? 0, "lockDelay");
    this.detectDeadlock = options.detectDeadlock ?? false;
    this.trace = options.trace ?? "";
    this.limit = more.limit;
    this.permits = options.permits ?? 1;
    this.value = options.value ?? "";
    this.#path = this.isMulti ? "" : encodeName(this.names[0]);
    if (this.tier !== CORRECTNESS && this.tier !== EFFICIENCY) {
      throw new Invalid(`tier is "${String(this.tier)}", and must be ${CORRECTNESS} or ${EFFICIENCY}`, "invalid_tier");
    }
    if (this.isMulti) {
      this.names.forEach(encodeName);
    }
    Object.freeze(this);
  }

  #path;

  get text() {
    return this.names.join(", ");
  }

  path(verb) {
    if (this.isMulti) {
      return `/api/v1/multilock/${verb}`;
    }
    if (this.mode === "election" && verb !== "renew") {
      return `/api/v1/elections/${this.#path}/${verb === "acquire" ? "campaign" : "resign"}`;
    }
    return `/api/v1/locks/${this.#path}/${verb}`;
  }

  acquireBody(sessionId, owner, requestId) {
    return {
      session_id: sessionId,
      owner,
      request_id: requestId,
      wait_timeout_ms: this.wait ?? -1,
      ...(this.isMulti ? { names: this.names } : {}),
      ...(!this.isMulti && this.mode !== "election" ? { mode: this.mode } : {}),
      ...(this.mode === "semaphore" ? { limit: this.limit, permits: this.permits } : {}),
      ...(this.mode === "election" ? { value: this.value } : {}),
      ...(this.tier !== CORRECTNESS ? { tier: this.tier } : {}),
      ...(this.ttl !== null ? { ttl_ms: this.ttl } : {}),
      ...(this.metadata !== undefined ? { metadata: this.metadata } : {}),
      ...(this.maxHold !== null ? { max_hold_ms: this.maxHold } : {}),
      ...(this.lockDelay > 0 ? { lock_delay_ms: this.lockDelay } : {}),
      ...(this.detectDeadlock ? { detect_deadlock: true } : {}),
      ...(this.trace !== "" ? { trace: this.trace } : {}),
    };
  }

  tokenBody(sessionId, token) {
    return { session_id: sessionId, fencing_token: token, ...(this.isMulti ? { names: this.names } : {}) };
  }
}
