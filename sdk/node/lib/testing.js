// A fake for tests of applications: the real client on a cluster in memory, with a manual clock.
//
//   const cluster = new FakeCluster();
//   const client = cluster.client("a");
//   const lock = await client.lock("job", { ttl: 10_000 });
//   await cluster.advance(60_000); // keep-alives arrive: still held
//   await cluster.lose(lock);      // or: cluster.disconnect(client); await cluster.advance(31_000);
//   assert.throws(() => lock.check(), LockLost);
//
// Time moves only by `advance`, also for timeouts and the end of a wait. Not part of the fake: deadlock detection, TLS and credentials.

import { Holdfast } from "./client.js";
import { Endpoints } from "./endpoints.js";
import { FakeService } from "./fake_service.js";
import { Broken, NotSent } from "./http.js";

const CONNECT_MS = 1000;

/** Callbacks and promises that are ready run first. */
async function settle() {
  for (let turn = 0; turn < 3; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}

class ManualClock {
  #now = 1_000_000;
  #timers = new Set();

  now() {
    return this.#now;
  }

  setTimer(callback, ms) {
    const timer = { at: this.#now + Math.max(ms, 1), callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  get next() {
    return Math.min(Infinity, ...[...this.#timers].map((timer) => timer.at));
  }

  /** Sets the time and runs what is due. */
  set(now) {
    this.#now = now;
    for (const timer of [...this.#timers].filter(({ at }) => at <= now).sort((a, b) => a.at - b.at)) {
      if (this.#timers.delete(timer)) {
        timer.callback();
      }
    }
  }
}

/** In place of the transport of http.js. While it is disconnected, requests do not leave and answers do not arrive. */
class FakeTransport {
  isConnected = true;
  #service;
  #clock;
  #backlog = [];

  constructor(service, clock) {
    this.#service = service;
    this.#clock = clock;
  }

  connect() {
    this.isConnected = true;
    this.#backlog.splice(0).forEach((deliver) => deliver());
  }

  #deliver(action) {
    if (this.isConnected) {
      action();
    } else {
      this.#backlog.push(action);
    }
  }

  request(endpoint, { method, path, body = "", timeout, signal }) {
    if (method === "DELETE") { // the end of the client
      this.connect();
    }
    return new Promise((resolve, reject) => {
      const isSent = this.isConnected;
      const error = isSent ? new Broken("no answer in time") : new NotSent("connecting timed out");
      const fail = () => settled(() => reject(error));
      const cancel = this.#clock.setTimer(fail, isSent ? timeout : Math.min(timeout, CONNECT_MS));
      const settled = (action) => {
        cancel();
        signal?.removeEventListener("abort", fail);
        action();
      };
      signal?.addEventListener("abort", fail);
      if (isSent) {
        this.#service.handle(method, path, body, this.#clock.now())
          .then((answer) => this.#deliver(() => settled(() => resolve(JSON.parse(JSON.stringify(answer))))), reject);
      }
    });
  }

  async open(endpoint, { path, headers, signal }) {
    const pieces = [];
    let wake = () => {};
    const end = this.#service.subscribe(path, headers["Last-Event-ID"], (text) => this.#deliver(() => {
      pieces.push(text);
      wake();
    }));
    signal?.addEventListener("abort", () => wake());
    async function* read() {
      try {
        while (!signal?.aborted) {
          yield* pieces.splice(0);
          if (pieces.length === 0 && !signal?.aborted) {
            await new Promise((resolve) => {
              wake = resolve;
            });
          }
        }
      } finally {
        end();
      }
    }
    return { status: 200, body: {}, pieces: read() };
  }

  reloadToken() {
    return false;
  }

  closeIdle() {}

  close() {}
}

/** A close needs no time to pass, also after failures. */
class FakeEndpoints extends Endpoints {
  isClosing = false;

  pick(now, avoid) {
    return this.isClosing ? this.all[0] : super.pick(now, avoid);
  }
}

class FakeClient extends Holdfast {
  #endpoints;

  constructor(options, parts) {
    super(options, parts);
    this.#endpoints = parts.endpoints;
  }

  close() {
    this.#endpoints.isClosing = true;
    return super.close();
  }
}

/** The service, its clock and its clients. */
export class FakeCluster {
  #service = new FakeService();
  #clock = new ManualClock();
  #transports = new WeakMap();

  client(clientId = "test", { sessionTtl, timeout } = {}) {
    const transport = new FakeTransport(this.#service, this.#clock);
    const endpoints = new FakeEndpoints(["fake:1"]);
    const client = new FakeClient({ clientId, sessionTtl, timeout }, { clock: this.#clock, transport, endpoints });
    this.#transports.set(client, transport);
    return client;
  }

  #transport(client) {
    const transport = this.#transports.get(client);
    if (transport === undefined) {
      throw new TypeError("this client was not made by this FakeCluster");
    }
    return transport;
  }

  /** Lets time pass: with keep-alives for connected clients, without for others. Listeners of losses have run afterwards. */
  async advance(ms) {
    const target = this.#clock.now() + ms;
    for (;;) {
      await settle();
      const next = Math.min(this.#clock.next, this.#service.nextEnd);
      if (next > target) {
        break;
      }
      this.#service.sweep(next);
      this.#clock.set(next);
    }
    this.#clock.set(target);
    await settle();
  }

  /** Nothing arrives from or at it any longer. */
  disconnect(client) {
    this.#transport(client).isConnected = false;
  }

  connect(client) {
    this.#transport(client).connect();
  }

  /** Ends the grant at the service now, as after a force-unlock. A connected client was notified afterwards. */
  async lose(lock, why = "forced") {
    const grant = this.#service.grantOf(lock.fenceToken);
    if (grant !== undefined) {
      this.#service.end(grant, why, this.#clock.now());
    }
    await settle();
  }

  /** An operator requests the lock and takes it after `ms`. */
  async revoke(lock, ms = 30_000, reason = "test") {
    const grant = this.#service.grantOf(lock.fenceToken);
    if (grant !== undefined) {
      this.#service.requestRevocation(grant, this.#clock.now() + ms, reason, this.#clock.now());
    }
    await settle();
  }

  /** A failover: locks of the tier EFFICIENCY are lost, others are not. */
  async changeLeader() {
    this.#service.changeLeader(this.#clock.now());
    await settle();
  }

  /** The client ids. */
  holders(name) {
    return this.#service.holders(name);
  }

  waiters(name) {
    return this.#service.waiters(name);
  }
}
