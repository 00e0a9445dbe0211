// Client of Holdfast, a distributed lock service whose grants carry fence tokens. index.d.ts describes what is public.

export { Holdfast } from "./client.js";
export { optionsFromEnv } from "./credentials.js";
export {
  Closed, Denied, HoldfastError, Invalid, LimitReached, LockLost, NotAcquired, NotHeld, OutcomeUnknown, ServiceError,
  StaleToken, Unreachable, WaitTimeout,
} from "./errors.js";
export { MemoryFence } from "./fence.js";
export { Lock } from "./lock.js";
export { CORRECTNESS, EFFICIENCY } from "./request.js";
export { Watch } from "./watch.js";
