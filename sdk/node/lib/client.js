// The client of a cluster.

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

import { Caller } from "./caller.js";
import { ElapsedClock } from "./clock.js";
import { TokenSource } from "./credentials.js";
import { asyncDispose } from "./dispose.js";
import { Endpoints } from "./endpoints.js";
import { Closed, Invalid, NotAcquired } from "./errors.js";
import { Transport } from "./http.js";
import { Lock } from "./lock.js";
import { Locks } from "./locks.js";
import { Request, milliseconds } from "./request.js";
import { Watch } from "./watch.js";

const OPTIONS = [
  "endpoints", "clientId", "sessionTtl", "timeout", "connectTimeout", "token", "tokenFile", "tenant", "tls", "ca", "cert", "key", "passphrase",
  "serverName",
];

function transportOf({ tls, ca, cert, key, passphrase, serverName, token, tokenFile, tenant, connectTimeout = 1000 }) {
  const given = { ca, cert, key, passphrase, servername: serverName };
  const secure = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  if (tls === false && Object.keys(secure).length > 0) {
    throw new Invalid("tls is false, but options of TLS are given", "invalid_tls");
  }
  return new Transport({
    token: new TokenSource({ token, tokenFile }),
    tenant,
    tls: tls || Object.keys(secure).length > 0 ? { ...secure, rejectUnauthorized: true } : null,
    connectTimeout: milliseconds(connectTimeout, "connectTimeout", 1),
  });
}

export class Holdfast {
  #caller;
  #locks;
  #watches = new Set();
  #isClosed = false;
  #closing = null;

  /** @param parts for tests: clock, transport and endpoints in place of the real ones */
  constructor(options = {}, parts = {}) {
    for (const key of Object.keys(options)) {
      if (!OPTIONS.includes(key)) {
        throw new Invalid(`the option "${key}" is unknown; there are: ${OPTIONS.join(", ")}`, "invalid_options");
      }
    }
    const { endpoints = "127.0.0.1:4653", clientId, sessionTtl = 30_000, timeout = 10_000 } = options;
    const addresses = typeof endpoints === "string" ? endpoints.split(",").map((text) => text.trim()) : [...endpoints];
    this.#caller = new Caller({
      clock: parts.clock ?? new ElapsedClock(),
      endpoints: parts.endpoints ?? new Endpoints(addresses),
      transport: parts.transport ?? transportOf(options),
    });
    this.#locks = new Locks(this.#caller, {
      clientId: clientId ?? `${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`,
      sessionTtl: milliseconds(sessionTtl, "sessionTtl", 1000),
      timeout: milliseconds(timeout, "timeout", 1),
    });
  }

  async #acquire(request, signal) {
    return new Lock(this.#locks, await this.#locks.acquire(request, signal));
  }

  async lock(name, options = {}) {
    return this.#acquire(new Request("exclusive", [name], options), options.signal);
  }

  async tryLock(name, options = {}) {
    try {
      return await this.lock(name, { ...options, wait: 0 });
    } catch (error) {
      if (error instanceof NotAcquired) {
        return null;
      }
      throw error;
    }
  }

  async semaphore(name, limit, options = {}) {
    return this.#acquire(new Request("semaphore", [name], options, { limit }), options.signal);
  }

  async multiLock(names, options = {}) {
    if (!Array.isArray(names)) {
      throw new Invalid("the names of a multi-lock must be an array of strings", "invalid_names");
    }
    return this.#acquire(new Request("multi", names, options), options.signal);
  }

  async campaign(name, options = {}) {
    return this.#acquire(new Request("election", [name], options), options.signal);
  }

  async withLock(name, work, options = {}) {
    return this.#during(await this.lock(name, options), work);
  }

  async lead(name, work, options = {}) {
    return this.#during(await this.campaign(name, options), work);
  }

  /** The error of the work counts more than that of the release. */
  async #during(lock, work) {
    let result;
    try {
      result = await work(lock);
    } catch (error) {
      await lock.release().catch(() => {});
      throw error;
    }
    await lock.release();
    return result;
  }

  watch(prefix = "", { lastId = null, signal } = {}) {
    if (this.#isClosed) {
      throw new Closed();
    }
    const watch = new Watch(this.#caller, prefix, { lastId, signal, onEnd: (ended) => this.#watches.delete(ended) });
    this.#watches.add(watch);
    return watch;
  }

  close() {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close() {
    this.#isClosed = true;
    for (const watch of [...this.#watches]) {
      watch.close();
    }
    try {
      await this.#locks.close();
    } finally {
      this.#caller.transport.close();
    }
  }

  async [asyncDispose]() {
    await this.close();
  }
}

