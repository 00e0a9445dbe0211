// Types of the package holdfast. All durations are in ms.

declare global {
  interface SymbolConstructor {
    readonly asyncDispose: unique symbol;
  }
}

export type Tier = "CORRECTNESS" | "EFFICIENCY";
export const CORRECTNESS: "CORRECTNESS";
export const EFFICIENCY: "EFFICIENCY";

export interface HoldfastOptions {
  /** "HOST:PORT,HOST:PORT" or a list; several nodes of the cluster. Default: 127.0.0.1:4653. */
  endpoints?: string | readonly string[];
  /** Shown to others as the holder. Default: host name, process id and a random part. */
  clientId?: string;
  /** How long everything of this client outlives it; no lock outlives it longer, whatever its ttl. Default: 30,000. */
  sessionTtl?: number;
  /** Until a call without an answer fails. Default: 10,000. */
  timeout?: number;
  /** Default: 1,000. */
  connectTimeout?: number;
  /** Sent as `Authorization: Bearer`. */
  token?: string;
  /** Has the token; only its owner may read it. It is read again when a node refuses the token. */
  tokenFile?: string;
  tenant?: string;
  /** TLS with the authorities of Node.js. `ca`, `cert`, `key`, `passphrase` and `serverName` imply it. */
  tls?: boolean;
  /** PEM. */
  ca?: string | Uint8Array | Array<string | Uint8Array>;
  /** PEM, a client certificate. */
  cert?: string | Uint8Array;
  /** PEM, the key of `cert`. */
  key?: string | Uint8Array;
  passphrase?: string;
  /** The name in the certificates of the nodes, if it is not the host of the endpoint. */
  serverName?: string;
}

export interface AcquireOptions {
  /** How long the lock outlives the last sign of life of this client, at least 1,000. Default: the sessionTtl. */
  ttl?: number;
  /** 0 does not wait. Default: Infinity. */
  wait?: number;
  /** Aborting it ends the wait and leaves the queue. It does not release a lock that was granted. */
  signal?: AbortSignal;
  /** Any JSON. Others see it. */
  metadata?: unknown;
  /** The service ends the hold after this time, however often it is renewed. */
  maxHold?: number;
  /** After an unclean end, nobody gets the lock for this time. */
  lockDelay?: number;
  /** A W3C traceparent. Listings, events and the audit trail show it. */
  trace?: string;
}

export interface LockOptions extends AcquireOptions {
  shared?: boolean;
  tier?: Tier;
  /** Refuses the request with the code "deadlock" if its wait would never end. */
  detectDeadlock?: boolean;
}

export interface SemaphoreOptions extends AcquireOptions {
  permits?: number;
  tier?: Tier;
  detectDeadlock?: boolean;
}

export interface MultiLockOptions extends AcquireOptions {
  tier?: Tier;
  detectDeadlock?: boolean;
}

export interface CampaignOptions extends AcquireOptions {
  /** What others see of the leader. */
  value?: string;
}

export interface Revocation {
  actor: string;
  reason: string;
  /** When the lock is taken away, by the clock of the service; for people. */
  deadline: Date | null;
}

export interface LockEvents {
  /** No keep-alive was confirmed for so long that only a third of the TTL is left. */
  jeopardy: [];
  /** Confirmed again after jeopardy. */
  safe: [];
  /** Once. */
  lost: [error: LockLost];
  /** An operator requests the lock: release it. */
  revokeRequested: [revocation: Revocation];
}

/** A lock, a permit of a semaphore, several locks, or a leadership, that was granted. */
export class Lock {
  private constructor();
  /** Of a multi-lock, all names. */
  readonly name: string;
  /** Send it with every write; the resource refuses lower tokens. Below 2^53. Readable after a loss, too. */
  readonly fenceToken: number;
  /** Of a semaphore: fence with (resource, slot). Otherwise null. */
  readonly slot: number | null;
  /** Aborted on loss, with a LockLost as the reason; not on release. */
  readonly signal: AbortSignal;
  /** Certainly held, at this moment, by the clock. */
  readonly held: boolean;
  /** ms for which it is certainly held, if no keep-alive is confirmed meanwhile. */
  readonly safeFor: number;
  readonly inJeopardy: boolean;
  /** Call it directly before a side effect. Throws LockLost or NotHeld, computed from the clock at this moment. */
  check(): void;
  /** Idempotent. Rejects with LockLost if it was lost before. */
  release(): Promise<void>;
  /** Sets the TTL. The client keeps the lock alive by itself; this only changes how long it outlives its holder. */
  renew(ttl: number): Promise<void>;
  on<E extends keyof LockEvents>(event: E, listener: (...values: LockEvents[E]) => void): this;
  once<E extends keyof LockEvents>(event: E, listener: (...values: LockEvents[E]) => void): this;
  off<E extends keyof LockEvents>(event: E, listener: (...values: LockEvents[E]) => void): this;
  [Symbol.asyncDispose](): Promise<void>;
}

/** An event of the service, as docs/openapi.yaml describes it. */
export interface WatchEvent {
  /** null for events from which no watch can be resumed. */
  id: string | null;
  type: string;
  data: Record<string, unknown>;
}

export class Watch implements AsyncIterableIterator<WatchEvent> {
  private constructor();
  /** Resume here. */
  readonly lastId: string | null;
  next(): Promise<IteratorResult<WatchEvent, undefined>>;
  return(): Promise<IteratorResult<WatchEvent, undefined>>;
  close(): void;
  [Symbol.asyncIterator](): this;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A client of a cluster. One for a process is enough. */
export class Holdfast {
  constructor(options?: HoldfastOptions);
  /** Rejects with NotAcquired, or WaitTimeout, if it is not granted. */
  lock(name: string, options?: LockOptions): Promise<Lock>;
  /** Does not wait. null if it is not granted. */
  tryLock(name: string, options?: Omit<LockOptions, "wait">): Promise<Lock | null>;
  semaphore(name: string, limit: number, options?: SemaphoreOptions): Promise<Lock>;
  /** All names or none, under one token. */
  multiLock(names: readonly string[], options?: MultiLockOptions): Promise<Lock>;
  /** Becomes the leader of an election. The token is the epoch. */
  campaign(name: string, options?: CampaignOptions): Promise<Lock>;
  /** Runs `work` with the lock, and releases it. Rejects with LockLost if it was lost meanwhile. */
  withLock<T>(name: string, work: (lock: Lock) => T | Promise<T>, options?: LockOptions): Promise<T>;
  /** Runs `work` as the leader of an election, and resigns. Rejects with LockLost if it was lost meanwhile. */
  lead<T>(name: string, work: (lead: Lock) => T | Promise<T>, options?: CampaignOptions): Promise<T>;
  /** Events of names with this prefix, from now or after `lastId`. */
  watch(prefix?: string, options?: { lastId?: string | null; signal?: AbortSignal }): Watch;
  /** Closes the session: nothing is held here afterwards. Rejects if the service did not answer; then its TTL ends the session. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** The settings of the environment that libholdfast and the command line use, too: HOLDFAST_ENDPOINTS, HOLDFAST_CA and others. */
export function optionsFromEnv(env?: Record<string, string | undefined>): HoldfastOptions;

/** The guard of resources that live in the memory of this process. */
export class MemoryFence {
  /** Call it in the same turn of the event loop as the write. Throws StaleToken if a higher token was seen for the resource. */
  guard(resource: string, token: number): void;
}

/** The base of all errors of this package. `code` is stable; an error of the service keeps the code of the service. */
export class HoldfastError extends Error {
  readonly code: string;
}
/** The lock was not granted. */
export class NotAcquired extends HoldfastError {
  /** The present holder, if the service named it. */
  readonly holder: { client_id: string; [field: string]: unknown } | null;
  readonly queueLength: number;
}
/** It was not free within the time of the wait. */
export class WaitTimeout extends NotAcquired {}
/** The lock is no longer held, or not certainly. Stop the work that it protects. */
export class LockLost extends HoldfastError {}
/** The handle was released. */
export class NotHeld extends HoldfastError {}
/** No node answered in time. Nothing was done. */
export class Unreachable extends HoldfastError {}
/** No node answered in time. The request may have been done. */
export class OutcomeUnknown extends HoldfastError {}
/** The credentials are missing, wrong, or lack the right. */
export class Denied extends HoldfastError {}
/** An argument is wrong. */
export class Invalid extends HoldfastError {}
/** A limit or quota of the service was reached. Nothing was done. */
export class LimitReached extends HoldfastError {
  /** ms, if the service named it. */
  readonly retryAfter: number | null;
}
/** The client was closed. */
export class Closed extends HoldfastError {}
/** A fence has seen a higher token. Nothing was written. */
export class StaleToken extends HoldfastError {
  constructor(resource: string, token: number, highest: number);
  readonly resource: string;
  readonly token: number;
  readonly highest: number;
}
/** Any other refusal of the service. */
export class ServiceError extends HoldfastError {}
