// Errors. Each class has a stable `code`; an error of the service keeps the code of the service.

export class HoldfastError extends Error {
  constructor(message, code = "error", options = undefined) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** The lock was not granted. `holder` describes the present holder, if the service named it. */
export class NotAcquired extends HoldfastError {
  constructor(message, code = "held", answer = {}) {
    super(message, code);
    this.holder = answer.holder ?? null;
    this.queueLength = answer.queue_length ?? 0;
  }
}

/** It was not free within the time of the wait. */
export class WaitTimeout extends NotAcquired {
  constructor(message, code = "timeout", answer = {}) {
    super(message, code, answer);
  }
}

/** The lock is no longer held, or not certainly. Stop the work that it protects. */
export class LockLost extends HoldfastError {
  constructor(message, code = "lost") {
    super(message, code);
  }
}

/** The handle was released. */
export class NotHeld extends HoldfastError {
  constructor(message, code = "released") {
    super(message, code);
  }
}

/** No node answered in time. Nothing was done. */
export class Unreachable extends HoldfastError {
  constructor(message, code = "unreachable") {
    super(message, code);
  }
}

/** No node answered in time. The request may have been done. */
export class OutcomeUnknown extends HoldfastError {
  constructor(message, code = "outcome_unknown") {
    super(message, code);
  }
}

/** The credentials are missing, wrong, or lack the right. */
export class Denied extends HoldfastError {
  constructor(message, code = "denied") {
    super(message, code);
  }
}

/** An argument is wrong. */
export class Invalid extends HoldfastError {
  constructor(message, code = "invalid") {
    super(message, code);
  }
}

/** A limit or quota of the service was reached. Nothing was done. `retryAfter`: ms, if the service named it. */
export class LimitReached extends HoldfastError {
  constructor(message, code = "limit", answer = {}) {
    super(message, code);
    this.retryAfter = answer.retry_after_ms ?? null;
  }
}

/** The client was closed. */
export class Closed extends HoldfastError {
  constructor(message = "the client was closed; make a new one", code = "closed") {
    super(message, code);
  }
}

/** A fence has seen a higher token: the lock was lost. Stop the work; nothing was written. */
export class StaleToken extends HoldfastError {
  constructor(resource, token, highest) {
    super(`${resource}: token ${token} is stale, token ${highest} was used here`, "stale_token");
    Object.assign(this, { resource, token, highest });
  }
}

/** Any other refusal of the service. `code` is that of the service. */
export class ServiceError extends HoldfastError {}

/** A call of a session that has ended: all its locks are lost (C2.5). */
export const SESSION_GONE = ["session_expired", "session_not_found"];
const BY_STATUS = { 400: Invalid, 401: Denied, 403: Denied, 414: Invalid, 429: LimitReached };

/** The error for an error answer of the service. */
export function fromAnswer(status, answer) {
  const error = answer.error;
  if (typeof error !== "object" || error === null) {
    return new ServiceError(`the endpoint answered ${status} without an error of Holdfast; is it a Holdfast node?`, "protocol");
  }
  const kind = SESSION_GONE.includes(error.code) ? LockLost : BY_STATUS[status] ?? ServiceError;
  return new kind(String(error.message ?? ""), String(error.code ?? "error"), error);
}
