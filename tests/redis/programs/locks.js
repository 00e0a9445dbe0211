// Libraries of locks whose packages have no tests, each through its documented API. Not their own tests: those are
// in no package. LIBRARY names the library; mocha runs this file with Redis or Holdfast at 127.0.0.1:6379.
"use strict";

const assert = require("node:assert/strict");
const Redis = require("ioredis");

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// The smallest common API: acquire(key, ttl, patience) answers a handle, or null after `patience` ms; release(handle);
// extend(handle, ttl); `stored(key)` is the key of Redis.

// redlock 5 and its fork have one API.
function redlock(Redlock, ResourceLockedError) {
  return async (client) => {
    const manager = new Redlock([client], { retryCount: 0 });
    manager.on("error", () => {}); // a refusal, too
    return {
      stored: (key) => key,
      acquire: async (key, ttl, patience) => {
        const retry = { retryCount: Math.ceil(patience / 20), retryDelay: 20, retryJitter: 5 };
        try {
          return await manager.acquire([key], ttl, retry);
        } catch (error) {
          for (const attempt of await Promise.all(error.attempts))
            for (const reason of attempt.votesAgainst.values()) assert.ok(reason instanceof ResourceLockedError, reason);
          return null;
        }
      },
      release: (lock) => lock.release(),
      extend: (lock, ttl) => lock.extend(ttl),
      using: (key, ttl, routine) => manager.using([key], ttl, { automaticExtensionThreshold: ttl / 2 }, routine),
    };
  };
}

function semaphoreMutex(construct) {
  return async (client) => ({
    stored: (key) => `mutex:${key}`,
    acquire: async (key, ttl, patience) => {
      const wait = patience ? { acquireTimeout: patience, retryInterval: 20 } : { acquireAttemptsLimit: 1 };
      const mutex = construct(client, key, { lockTimeout: ttl, refreshInterval: 0, onLockLost: () => {}, ...wait });
      return (await mutex.tryAcquire()) ? mutex : null;
    },
    release: (mutex) => mutex.release(),
  });
}

const LIBRARIES = {
  redlock5: () => {
    const { default: Redlock, ResourceLockedError } = require("redlock5");
    return { lock: redlock(Redlock, ResourceLockedError) };
  },
  "sesamecare-redlock": () => {
    const { Redlock, ResourceLockedError } = require("@sesamecare-oss/redlock");
    return { lock: redlock(Redlock, ResourceLockedError) };
  },
  "microfleet-ioredis-lock": () => ({
    lock: async (client) => {
      const { createLock, LockAcquisitionError } = await import("@microfleet/ioredis-lock");
      return {
        stored: (key) => key,
        acquire: async (key, ttl, patience) => {
          const lock = createLock(client, { timeout: ttl, retries: Math.ceil(patience / 20), delay: 20, jitter: 1 });
          try {
            return await lock.acquire(key);
          } catch (error) {
            assert.ok(error instanceof LockAcquisitionError, error);
            assert.match(error.message, /could not acquire/i);
            return null;
          }
        },
        release: (lock) => lock.release(),
        extend: (lock, ttl) => lock.extend(ttl),
      };
    },
  }),
  "redis-semaphore": () => {
    const { Mutex, RedlockMutex, Semaphore, RedlockSemaphore, MultiSemaphore, RedlockMultiSemaphore } = require("redis-semaphore");
    return {
      lock: semaphoreMutex((client, key, options) => new Mutex(client, key, options)),
      redlock: semaphoreMutex((client, key, options) => new RedlockMutex([client], key, options)),
      semaphores: {
        Semaphore: (client, ...rest) => new Semaphore(client, ...rest),
        RedlockSemaphore: (client, ...rest) => new RedlockSemaphore([client], ...rest),
      },
      multi: {
        MultiSemaphore: (client, ...rest) => new MultiSemaphore(client, ...rest),
        RedlockMultiSemaphore: (client, ...rest) => new RedlockMultiSemaphore([client], ...rest),
      },
    };
  },
  "simple-redis-mutex": () => ({
    connect: async () => {
      const client = require("redis").createClient();
      await client.connect();
      return client;
    },
    disconnect: (client) => client.destroy(),
    lock: async (client) => {
      const { lock, tryLock } = require("simple-redis-mutex");
      return {
        stored: (key) => `@simple-redis-mutex:lock-${key}`,
        acquire: async (key, ttl, patience) => {
          if (patience === 0) {
            const [held, release] = await tryLock(client, key, { timeout: ttl });
            return held ? release : null;
          }
          return lock(client, key, { timeout: ttl, failAfter: patience, pollingInterval: 50 });
        },
        release: (release) => release(),
        token: (release) => release.fencingToken,
      };
    },
  }),
};

const library = LIBRARIES[process.env.LIBRARY]();
const connect = library.connect ?? (async () => new Redis());
const disconnect = library.disconnect ?? ((client) => client.disconnect());
let count = 0;

function locks(title, open) {
  describe(title, function () {
    this.timeout(20000);
    const clients = [];
    const plain = new Redis();
    let one, two, key;

    const another = async () => {
      clients.push(await connect());
      return open(clients.at(-1));
    };
    before(async () => {
      one = await another();
      two = await another();
    });
    beforeEach(() => {
      key = `${title} ${++count}`;
    });
    after(async () => {
      plain.disconnect();
      for (const client of clients) await disconnect(client);
    });

    it("acquires a free lock", async () => {
      assert.ok(await one.acquire(key, 5000, 0));
      const left = await plain.pttl(one.stored(key));
      assert.ok(left > 0 && left <= 5000, `PTTL is ${left}`);
    });

    it("refuses a lock that is held", async () => {
      assert.ok(await one.acquire(key, 5000, 0));
      assert.equal(await two.acquire(key, 5000, 0), null);
      assert.equal(await one.acquire(key, 5000, 0), null);
    });

    it("releases", async () => {
      await one.release(await one.acquire(key, 5000, 0));
      assert.equal(await plain.exists(one.stored(key)), 0);
      assert.ok(await two.acquire(key, 5000, 0));
    });

    it("acquires after the end of a lease of 200 ms, not before", async () => {
      const began = Date.now();
      assert.ok(await one.acquire(key, 200, 0));
      assert.ok(await two.acquire(key, 5000, 10000));
      assert.ok(Date.now() - began >= 195, `after ${Date.now() - began} ms`);
    });

    it("waits for the release", async () => {
      const held = await one.acquire(key, 15000, 0);
      let done = false;
      const waiting = two.acquire(key, 5000, 10000).then((handle) => ((done = true), handle));
      await pause(100);
      assert.ok(!done);
      await one.release(held);
      assert.ok(await waiting);
    });

    it("leaves the lock of the next holder alone", async () => {
      const old = await one.acquire(key, 100, 0);
      assert.ok(await two.acquire(key, 5000, 10000));
      await Promise.resolve(one.release(old)).catch(() => {}); // some report that the lock was lost
      assert.equal(await one.acquire(key, 5000, 0), null);
    });

    it("extends", async function () {
      if (!one.extend) this.skip();
      const held = await one.acquire(key, 500, 0);
      await one.extend(held, 10000);
      assert.ok((await plain.pttl(one.stored(key))) > 5000);
    });

    it("refuses to extend a lock that ended", async function () {
      if (!one.extend) this.skip();
      const old = await one.acquire(key, 100, 0);
      assert.ok(await two.acquire(key, 5000, 10000));
      await assert.rejects(async () => one.extend(old, 10000));
      assert.ok((await plain.pttl(one.stored(key))) <= 5000);
    });

    it("extends by itself while a routine runs", async function () {
      if (!one.using) this.skip();
      await one.using(key, 600, async (signal) => {
        const began = Date.now();
        while (Date.now() - began < 1500) {
          assert.equal(await two.acquire(key, 5000, 0), null);
          assert.ok(!signal.aborted);
          await pause(50);
        }
      });
      assert.ok(await two.acquire(key, 5000, 0));
    });

    it("gives each grant a higher token", async function () {
      if (!one.token) this.skip();
      let last = 0;
      for (let i = 0; i < 5; i++) {
        const held = await one.acquire(key, 5000, 0);
        assert.ok(one.token(held) > last);
        last = one.token(held);
        await one.release(held);
      }
    });

    it("never has two holders, with 8 clients", async () => {
      let inside = 0;
      let entered = 0;
      const work = async () => {
        const mine = await another();
        for (let round = 0; round < 4; round++) {
          const held = await mine.acquire(key, 10000, 15000);
          assert.ok(held, "not acquired in 15 s");
          assert.equal(++inside, 1, "two are inside");
          await pause(5);
          inside--;
          entered++;
          await mine.release(held);
        }
      };
      await Promise.all(Array.from({ length: 8 }, work));
      assert.equal(entered, 32);
    });
  });
}

function semaphores(title, make) {
  describe(title, function () {
    this.timeout(20000);
    const client = new Redis();
    const options = { lockTimeout: 5000, acquireAttemptsLimit: 1, retryInterval: 20, refreshInterval: 0, onLockLost: () => {} };
    const wait = (ms) => ({ acquireTimeout: ms, acquireAttemptsLimit: Infinity });
    const two = (key, more) => make(client, key, 2, { ...options, ...more });
    let key;
    beforeEach(() => {
      key = `${title} ${++count}`;
    });
    after(() => client.disconnect());

    it("has as many holders as its limit", async () => {
      assert.ok(await two(key).tryAcquire());
      assert.ok(await two(key).tryAcquire());
      assert.ok(!(await two(key).tryAcquire()));
    });

    it("is free after a release", async () => {
      const first = two(key);
      assert.ok(await first.tryAcquire());
      assert.ok(await two(key).tryAcquire());
      await first.release();
      assert.ok(await two(key).tryAcquire());
      assert.ok(!(await two(key).tryAcquire()));
    });

    it("waits for the release", async () => {
      const first = two(key);
      assert.ok(await first.tryAcquire());
      assert.ok(await two(key).tryAcquire());
      const waiting = two(key, wait(10000)).tryAcquire();
      await pause(100);
      await first.release();
      assert.ok(await waiting);
    });

    it("is free after the end of a lease of 200 ms, not before", async () => {
      const began = Date.now();
      assert.ok(await two(key, { lockTimeout: 200 }).tryAcquire());
      assert.ok(await two(key).tryAcquire());
      assert.ok(await two(key, { ...wait(10000), lockTimeout: 200 }).tryAcquire());
      assert.ok(Date.now() - began >= 195, `after ${Date.now() - began} ms`);
    });

    it("refreshes by itself", async () => {
      const lease = { lockTimeout: 1000, refreshInterval: 200 };
      const holders = [two(key, lease), two(key, lease)];
      for (const holder of holders) assert.ok(await holder.tryAcquire());
      const began = Date.now();
      while (Date.now() - began < 2500) {
        assert.ok(!(await two(key, { lockTimeout: 1000 }).tryAcquire()));
        await pause(50);
      }
      for (const holder of holders) await holder.release();
      assert.ok(await two(key).tryAcquire());
    });

    it("never has more holders than its limit, with 8 clients", async () => {
      let inside = 0;
      const work = async () => {
        for (let round = 0; round < 4; round++) {
          const held = two(key, { lockTimeout: 10000, ...wait(15000) });
          assert.ok(await held.tryAcquire(), "not acquired in 15 s");
          assert.ok(++inside <= 2, "three are inside");
          await pause(5);
          inside--;
          await held.release();
        }
      };
      await Promise.all(Array.from({ length: 8 }, work));
    });
  });
}

function multiSemaphores(title, make) {
  describe(title, function () {
    const client = new Redis();
    const options = { lockTimeout: 5000, acquireAttemptsLimit: 1, refreshInterval: 0, onLockLost: () => {} };
    after(() => client.disconnect());

    it("counts permits", async () => {
      const key = `${title} ${++count}`;
      const permits = (number) => make(client, key, 5, number, options);
      const three = permits(3);
      assert.ok(await three.tryAcquire());
      assert.ok(!(await permits(3).tryAcquire()));
      assert.ok(await permits(2).tryAcquire());
      assert.ok(!(await permits(1).tryAcquire()));
      await three.release();
      assert.ok(await permits(3).tryAcquire());
    });
  });
}

locks("lock", library.lock);
if (library.redlock) locks("redlock", library.redlock);
for (const [name, make] of Object.entries(library.semaphores ?? {})) semaphores(name, make);
for (const [name, make] of Object.entries(library.multi ?? {})) multiSemaphores(name, make);
