// The client on a real cluster of three nodes: exclusion, waits, modes, watch, the end of the process.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { inspect } from "node:util";

import { Closed, EFFICIENCY, Invalid, LockLost, NotAcquired, NotHeld, Unreachable, WaitTimeout } from "../lib/index.js";
import { PATIENCE_MS, allowed, makeCluster, waitUntil } from "./cluster.js";

let cluster;
const ends = [];
before(async () => {
  cluster = await makeCluster({ after: (end) => ends.push(end) });
});
after(async () => {
  for (const end of ends) {
    await end();
  }
});

const holds = async (name) => {
  const { status, body } = await cluster.request("GET", `/api/v1/locks/${name}`);
  return status === 200 && body.held;
};

test("two_clients_exclude_each_other", async () => {
  const [first, second] = [cluster.client({ clientId: "first" }), cluster.client()];
  const lock = await first.lock("wallet:user_123", { ttl: 30_000 });
  lock.check();
  assert.ok(lock.held && lock.safeFor > 0 && lock.safeFor < 30_000 && !lock.inJeopardy);
  assert.ok(Number.isSafeInteger(lock.fenceToken));
  await assert.rejects(second.lock("wallet:user_123", { wait: 0 }),
    (error) => error instanceof NotAcquired && error.code === "held" && error.holder.client_id === "first");
  assert.equal(await second.tryLock("wallet:user_123"), null);
  await lock.release();
  assert.throws(() => lock.check(), NotHeld);
  const next = await second.tryLock("wallet:user_123");
  assert.ok(next.fenceToken > lock.fenceToken);
});

test("two_handles_of_a_client_exclude_each_other", async () => {
  const client = cluster.client();
  await client.withLock("own", async () => {
    await assert.rejects(client.lock("own", { wait: 200 }), WaitTimeout);
  });
});

test("release_is_idempotent", async () => {
  const lock = await cluster.client().lock("twice");
  await Promise.all([lock.release(), lock.release()]);
  assert.ok(!(await holds("twice")));
});

test("a_waiter_gets_the_lock_when_it_is_released", async () => {
  const [first, second] = [cluster.client(), cluster.client()];
  const lock = await first.lock("handed");
  const waiting = second.lock("handed", { wait: PATIENCE_MS });
  await cluster.queueOf("handed", 1);
  await lock.release();
  const next = await waiting;
  next.check();
  assert.ok(next.fenceToken > lock.fenceToken);
});

test("an_aborted_wait_leaves_the_queue", async () => {
  const client = cluster.client();
  const lock = await client.lock("left");
  const ending = new AbortController();
  const waiting = assert.rejects(client.lock("left", { signal: ending.signal }), { name: "AbortError" });
  await cluster.queueOf("left", 1);
  ending.abort();
  await waiting;
  await cluster.queueOf("left", 0);
  lock.check();
});

test("shared_semaphore_multi_lock_and_election", async () => {
  const [first, second] = [cluster.client(), cluster.client()];
  const shared = [await first.lock("s", { shared: true }), await second.lock("s", { shared: true, wait: 0 })];
  assert.equal(await second.tryLock("s"), null);
  await Promise.all(shared.map((lock) => lock.release()));
  const permits = [await first.semaphore("pool", 2), await second.semaphore("pool", 2, { wait: 0 })];
  assert.deepEqual(permits.map(({ slot }) => slot).sort(), [0, 1]);
  await assert.rejects(second.semaphore("pool", 2, { wait: 0 }), NotAcquired);
  const both = await first.multiLock(["m1", "m2"]);
  assert.equal(both.name, "m1, m2");
  assert.equal(await second.tryLock("m2"), null);
  await both.renew(20_000);
  await both.release();
  await (await second.tryLock("m2")).release();
  await first.lead("cron", async (lead) => {
    lead.check();
    await assert.rejects(second.campaign("cron", { value: "host-2", wait: 0 }), NotAcquired);
  }, { value: "host-1" });
  await second.lead("cron", () => {}, { wait: 0 });
});

test("a_lock_of_the_tier_efficiency_is_held_and_released", async () => {
  const client = cluster.client();
  const lock = await client.lock("fast", { tier: EFFICIENCY });
  lock.check();
  assert.equal(await client.tryLock("fast", { tier: EFFICIENCY }), null);
  await lock.release();
  assert.ok(await client.tryLock("fast", { tier: EFFICIENCY }));
});

test("a_renewal_sets_the_ttl", async () => {
  const lock = await cluster.client().lock("renewed", { ttl: 2000 });
  await lock.renew(20_000);
  assert.ok(lock.safeFor > 10_000);
  const leader = await cluster.client().campaign("renewed-leader", { ttl: 2000 });
  await leader.renew(20_000);
  assert.ok(leader.safeFor > 10_000);
});

test("a_watch_yields_events_in_order_and_ends", async () => {
  const client = cluster.client();
  await client.withLock("w/before", () => {});
  const watch = client.watch("w/");
  const seen = [];
  const reading = (async () => {
    for await (const { type, data } of watch) {
      seen.push(`${type} ${data.name}`);
    }
  })();
  await waitUntil(async () => {
    await client.withLock("w/1", () => {});
    return seen.includes("released w/1");
  }, "the first events");
  watch.close();
  await reading;
  assert.ok(seen.every((event) => event.endsWith("w/1")), seen.join());
});

test("names_of_any_characters_are_sent_as_they_are", async () => {
  const client = cluster.client();
  for (const name of ["a/b", "ä € 😀", "%2F?#&=+", "it's (a) *!~"]) {
    await client.withLock(name, (lock) => assert.equal(lock.name, name));
    await client.multiLock([name, `${name}2`]).then((lock) => lock.release());
  }
});

test("a_wrong_name_is_an_error_with_the_code_of_the_service", async () => {
  await assert.rejects(cluster.client().lock("a//b", { wait: 0 }), (error) => error instanceof Invalid && error.code.startsWith("invalid"));
});

test("without_a_node_a_call_fails_with_the_reason", async () => {
  const client = cluster.client({ endpoints: "127.0.0.1:1", timeout: 500 });
  await assert.rejects(client.lock("x"), (error) => error instanceof Unreachable && error.message.includes("127.0.0.1:1 (connect ECONNREFUSED"));
});

test("a_closed_client_holds_nothing_and_refuses", async () => {
  const client = cluster.client();
  const lock = await client.lock("closed");
  await client.close();
  await client.close();
  assert.ok(!(await holds("closed")));
  assert.ok(!lock.held);
  await assert.rejects(client.lock("closed"), Closed);
});

test("no_secret_is_in_what_is_printed", async () => {
  const client = cluster.client({ token: "hf_secret", timeout: 1000 });
  const lock = await client.lock("printed");
  const printed = inspect([client, lock, client.watch("x")], { depth: 20, showHidden: true });
  assert.ok(!printed.includes("hf_secret") && !printed.includes(String(lock.fenceToken)), printed);
});

test("check_is_right_in_a_blocked_event_loop", async () => {
  const client = cluster.client({ sessionTtl: 1500 });
  const lock = await client.lock("blocked");
  const listened = new Promise((resolve) => lock.once("lost", resolve));
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1600); // no timer and no keep-alive runs
  assert.throws(() => lock.check(), LockLost);
  assert.ok(lock.signal.aborted && lock.signal.reason instanceof LockLost);
  await listened;
  await assert.rejects(lock.release(), LockLost);
});

/** Runs a module of a few lines in a process of its own; resolves with its exit status. */
async function runProcess(lines) {
  const text = `import { Holdfast } from ${JSON.stringify(new URL("../lib/index.js", import.meta.url).href)};
    const client = new Holdfast({ endpoints: ${JSON.stringify(cluster.endpoints)} });
    ${lines}`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", text], { stdio: ["ignore", "inherit", "inherit"] });
  const late = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  const status = await new Promise((resolve) => child.once("exit", (code, signal) => resolve(signal ?? code)));
  clearTimeout(late);
  return status;
}

test("nothing_keeps_the_process_alive_after_close", async () => {
  const began = performance.now();
  assert.equal(await runProcess(`
    const lock = await client.lock("process", { signal: AbortSignal.timeout(60000) });
    const watch = client.watch("process");
    const reading = watch.next();
    const waiting = client.lock("process").catch((error) => error);
    await lock.renew(20000);
    void lock.release();
    await (await waiting).release();
    await client.close();
    await reading;`), 0);
  assert.ok(performance.now() - began < allowed(10_000), "no timer of the client is left");
  assert.ok(!(await holds("process")));
});
