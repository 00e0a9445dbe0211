// Client of Holdfast, a distributed lock service whose grants carry fence tokens. index.d.ts describes what is public.

export { Holdfast } from "./client.js";
export {
  Closed, Denied, HoldfastError, Invalid, LimitReached, LockLost, NotAcquired, NotHeld, OutcomeUnknown, ServiceError,
  Unreachable, WaitTimeout,
} from "./errors.js";
export { Lock } from "./lock.js";
export { CORRECTNESS, EFFICIENCY } from "./request.js";
export { Watch } from "./watch.js";
