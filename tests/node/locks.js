// Locks by the packages of others, ioredis and redlock (4 and 5), unchanged, against a cluster.
//
//   node locks.js SCENARIO PORT...
//
// A scenario ends with status 0, or with what it found wrong. tests/cluster/test_lock_node.py runs them, and
// says and hears lines where a test has to do something meanwhile.
"use strict";

const assert = require("node:assert/strict");
const readline = require("node:readline");
const Redis = require("ioredis");
const Redlock4 = require("redlock");
const { default: Redlock5, ResourceLockedError } = require("redlock5");

const ports = process.argv.slice(3).map(Number);
const clients = [];

function connect(port = ports[0]) {
  const client = new Redis({ host: "127.0.0.1", port });
  client.on("error", () => {}); // a node that was killed; ioredis comes back by itself
  clients.push(client);
  return client;
}

// null: the lock with that value is lost. (redlock 4 and 5 both have the value that they drew.)
const token = (client, key, lock) => client.call("HF.TOKEN", key, lock.value);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// A line for the test, and its next line for us.
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function tell(text) {
  console.log(text);
  return (await lines.next()).value;
}

// Whatever is within is alone, and its token is higher than all before it.
class Alone {
  inside = 0;
  last = 0;
  entered = 0;
  async enter(client, key, lock) {
    this.inside++;
    assert.equal(this.inside, 1, "two are inside");
    const mine = await token(client, key, lock);
    assert.ok(mine > this.last, `the token ${mine} does not rise above ${this.last}`);
    this.last = mine;
    this.entered++;
    this.inside--;
  }
}

const scenarios = {
  async commands_of_ioredis() {
    const a = connect();
    const b = connect(ports[1]);
    assert.equal(await a.set("js/a", "one", "PX", 30000, "NX"), "OK");
    assert.equal(await b.set("js/a", "two", "PX", 30000, "NX"), null);
    assert.equal(await b.get("js/a"), "one");
    // By EVALSHA, and by EVAL where the node does not know it.
    for (const client of [a, b]) {
      client.defineCommand("releaseOwn", {
        numberOfKeys: 1,
        lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
      });
    }
    assert.equal(await b.releaseOwn("js/a", "two"), 0);
    assert.equal(await b.releaseOwn("js/a", "one"), 1);
    assert.equal(await a.exists("js/a"), 0);
    const results = await a.pipeline().set("js/p", "x", "PX", 30000, "NX").get("js/p")
      .eval("return {KEYS[1], ARGV[1], 2.9, false}", 1, "k", "v").releaseOwn("js/p", "x").exec();
    assert.deepEqual(results, [[null, "OK"], [null, "x"], [null, ["k", "v", 2, null]], [null, 1]]);
    await assert.rejects(a.eval("return redis.call('geoadd', KEYS[1], 0, 0, 1)", 1, "js/l"), /Unknown Redis command/);
    await assert.rejects(a.eval("while true do end", 0), /LIMIT/);
    const listener = connect(ports[1]);
    await listener.subscribe("js/topic");
    const heard = new Promise((done) => listener.on("message", (channel, text) => done([channel, text])));
    await a.eval("return redis.call('publish', KEYS[1], ARGV[1])", 1, "js/topic", "hello");
    assert.deepEqual(await heard, ["js/topic", "hello"]);
  },

  async locks_of_redlock_4() {
    const a = new Redlock4([connect()], { retryCount: 0 });
    const b = new Redlock4([connect(ports[1])], { retryCount: 0 });
    const lock = await a.lock("js/four", 30000);
    const first = await token(clients[0], "js/four", lock);
    await assert.rejects(b.lock("js/four", 30000), Redlock4.LockError);
    await lock.extend(60000);
    assert.ok((await clients[1].pttl("js/four")) > 31000);
    // Somebody else's.
    const foreign = Object.assign(Object.create(Object.getPrototypeOf(lock)), lock, { value: "guess" });
    await assert.rejects(b.extend(foreign, 60000), Redlock4.LockError);
    await assert.rejects(b.unlock(foreign));
    assert.equal(await clients[1].exists("js/four"), 1);
    await lock.unlock();
    const next = await b.lock("js/four", 30000);
    assert.ok((await token(clients[0], "js/four", next)) > first);
    assert.equal(await token(clients[0], "js/four", lock), null);
    await next.unlock();
    // Several resources, all or none.
    const both = await a.lock(["js/x", "js/y"], 30000);
    await assert.rejects(b.lock(["js/z", "js/y"], 30000), Redlock4.LockError);
    assert.equal(await clients[0].exists("js/z"), 0);
    await both.unlock();
    assert.equal(await clients[0].exists("js/x", "js/y"), 0);
  },

  async locks_of_redlock_5() {
    const a = new Redlock5([connect()], { retryCount: 0 });
    const b = new Redlock5([connect(ports[1])], { retryCount: 40, retryDelay: 50, retryJitter: 20 });
    let lock = await a.acquire(["js/five"], 30000);
    const impatient = new Redlock5([clients[1]], { retryCount: 0 });
    const locked = await impatient.acquire(["js/five"], 30000).catch((error) => error);
    const votes = [...(await locked.attempts[0]).votesAgainst.values()];
    assert.ok(votes.every((error) => error instanceof ResourceLockedError));
    lock = await lock.extend(60000);
    assert.ok((await clients[1].pttl("js/five")) > 31000);
    setTimeout(() => lock.release(), 150);
    const next = await b.acquire(["js/five"], 30000); // waits for it by trying again
    await assert.rejects(lock.extend(1000)); // it is another's by now
    await next.release();
    // Kept alive by itself while the work goes on, longer than its TTL.
    await b.using(["js/using"], 1000, { automaticExtensionThreshold: 600 }, async (signal) => {
      await pause(1700);
      assert.equal(signal.aborted, false);
      assert.equal(await clients[0].exists("js/using"), 1);
    });
    assert.equal(await clients[0].exists("js/using"), 0);
  },

  async expiry_under_use() {
    const a = new Redlock5([connect()], { retryCount: 0 });
    const b = new Redlock5([connect(ports[1])], { retryCount: 100, retryDelay: 50 });
    const lost = await a.acquire(["js/short"], 1000);
    const mine = await token(clients[0], "js/short", lost);
    const next = await b.acquire(["js/short"], 30000);
    assert.ok((await token(clients[0], "js/short", next)) > mine);
    assert.equal(await token(clients[0], "js/short", lost), null);
    // Redlock 5 counts a lock that was not ours any more as not released.
    await assert.rejects(lost.release());
    assert.equal(await clients[0].exists("js/short"), 1);
    await next.release();
  },

  async twenty_clients_of_redlock_never_meet() {
    const alone = new Alone();
    const work = [];
    for (let i = 0; i < 20; i++) {
      const client = connect(ports[i % ports.length]);
      const redlock = new Redlock5([client], { retryCount: -1, retryDelay: 20, retryJitter: 15 });
      work.push((async () => {
        for (let n = 0; n < 3; n++) {
          const lock = await redlock.acquire(["js/many"], 30000);
          await alone.enter(client, "js/many", lock);
          await lock.release();
        }
      })());
    }
    await Promise.all(work);
    assert.equal(alone.entered, 60);
  },

  // The first port is that of a node that stays.
  async a_lock_outlives_the_leader() {
    const client = connect();
    const redlock = new Redlock5([client], { retryCount: 200, retryDelay: 50 });
    const lock = await redlock.acquire(["js/held"], 60000);
    const mine = await token(client, "js/held", lock);
    await tell("held"); // the test kills the leader
    const until = Date.now() + 30000;
    for (;;) {
      try {
        assert.equal(await client.set("js/held", "theirs", "PX", 30000, "NX"), null);
        break;
      } catch (error) {
        if (error instanceof assert.AssertionError || Date.now() > until) throw error;
        await pause(50);
      }
    }
    assert.equal(await token(client, "js/held", lock), mine);
    await lock.release();
    const next = await redlock.acquire(["js/held"], 30000);
    assert.ok((await token(client, "js/held", next)) > mine);
    await next.release();
  },
};

(async () => {
  await scenarios[process.argv[2]]();
  for (const client of clients) client.disconnect();
  lines.return();
  process.stdin.destroy();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
