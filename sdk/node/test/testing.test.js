// The fake: the real client on a cluster in memory, with a manual clock.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Closed, EFFICIENCY, Invalid, LockLost, NotAcquired, NotHeld, OutcomeUnknown, Unreachable, WaitTimeout } from "../lib/index.js";
import { FakeCluster } from "../lib/testing.js";

const fakeTest = (name, run) => test(name, () => run(new FakeCluster()));

fakeTest("clients_exclude_each_other_and_tokens_rise", async (fake) => {
  const [a, b] = [fake.client("a"), fake.client("b")];
  const lock = await a.lock("n");
  await assert.rejects(b.lock("n", { wait: 0 }), (error) => error instanceof NotAcquired && error.code === "held" && error.holder.client_id === "a");
  await lock.release();
  await lock.release();
  assert.throws(() => lock.check(), NotHeld);
  const later = await b.lock("n", { wait: 0 });
  assert.ok(later.fenceToken > lock.fenceToken);
  assert.deepEqual(fake.holders("n"), ["b"]);
});

fakeTest("a_connected_client_keeps_its_locks", async (fake) => {
  const lock = await fake.client("a", { sessionTtl: 30_000 }).lock("n", { ttl: 10_000 });
  await fake.advance(3_600_000);
  lock.check();
  assert.ok(lock.safeFor > 6000 && lock.safeFor < 10_000, `${lock.safeFor}`);
  assert.deepEqual(fake.holders("n"), ["a"]);
});

fakeTest("a_disconnected_client_loses_its_locks_by_the_clock", async (fake) => {
  const [a, b] = [fake.client("a"), fake.client("b")];
  const events = [];
  const lock = await a.lock("n", { ttl: 10_000 });
  for (const event of ["jeopardy", "safe", "lost"]) {
    lock.on(event, () => events.push(event));
  }
  fake.disconnect(a);
  await fake.advance(9_980);
  lock.check();
  assert.ok(lock.inJeopardy && !lock.signal.aborted);
  await fake.advance(10);
  assert.deepEqual(events, ["jeopardy", "lost"]);
  assert.ok(lock.signal.reason instanceof LockLost);
  assert.throws(() => lock.check(), LockLost);
  assert.equal(await b.tryLock("n"), null, "the service still has it: the client gave up first");
  await fake.advance(10);
  fake.connect(a);
  assert.ok((await b.lock("n", { wait: 0 })).fenceToken > lock.fenceToken);
  await fake.advance(60_000);
  assert.ok(!lock.held, "a loss is final");
  await assert.rejects(lock.release(), LockLost);
});

fakeTest("jeopardy_ends_with_a_confirmation", async (fake) => {
  const client = fake.client("a", { sessionTtl: 9000 });
  const lock = await client.lock("n");
  const events = [];
  lock.on("jeopardy", () => events.push("jeopardy")).on("safe", () => events.push("safe"));
  fake.disconnect(client);
  await fake.advance(7000);
  fake.connect(client);
  await fake.advance(3000);
  assert.deepEqual(events, ["jeopardy", "safe"]);
  lock.check();
});

fakeTest("a_lock_that_is_lost_alone_is_given_back", async (fake) => {
  const client = fake.client("a");
  const [short, long] = [await client.lock("short", { maxHold: 3_600_000 }), await client.lock("long")];
  await fake.advance(3_600_000 - 3605); // the margin of C1.4
  assert.equal(short.signal.reason.code, "max_hold");
  assert.deepEqual(fake.holders("short"), [], "before its end at the service");
  long.check();
});

fakeTest("a_lock_is_lost_on_demand", async (fake) => {
  const lock = await fake.client().lock("n");
  const lost = [];
  lock.on("lost", (error) => lost.push(error.code));
  await fake.lose(lock);
  assert.deepEqual(lost, ["forced"]);
  assert.deepEqual(fake.holders("n"), []);
  assert.throws(() => lock.check(), (error) => error instanceof LockLost && error.code === "forced");
});

fakeTest("a_revocation_is_reported_and_a_release_obeys_it", async (fake) => {
  const client = fake.client();
  const [first, second] = [await client.lock("n"), await client.lock("m")];
  first.on("revokeRequested", ({ reason, actor }) => {
    assert.equal(`${actor} ${reason}`, "test upgrade");
    void first.release();
  });
  await fake.revoke(first, 5000, "upgrade");
  await fake.revoke(second, 5000);
  assert.deepEqual(fake.holders("n"), []);
  assert.deepEqual(fake.holders("m"), ["test"]);
  await fake.advance(5000);
  assert.equal(second.signal.reason.code, "revoked");
});

fakeTest("waits_end_by_release_and_by_the_clock", async (fake) => {
  const [a, b] = [fake.client("a"), fake.client("b")];
  const lock = await a.lock("n");
  const late = assert.rejects(b.lock("n", { wait: 5000 }), WaitTimeout);
  await fake.advance(5000);
  await late;
  const waiting = b.lock("n");
  await fake.advance(3_600_000);
  assert.equal(fake.waiters("n"), 1);
  await lock.release();
  (await waiting).check();
});

fakeTest("an_aborted_wait_leaves_the_queue_with_the_reason", async (fake) => {
  const client = fake.client();
  const lock = await client.lock("n");
  const ending = new AbortController();
  const waiting = assert.rejects(client.lock("n", { signal: ending.signal }), /no longer needed/);
  await fake.advance(0);
  assert.equal(fake.waiters("n"), 1);
  ending.abort(new Error("no longer needed"));
  await waiting;
  await fake.advance(0);
  assert.equal(fake.waiters("n"), 0);
  await assert.rejects(client.lock("n", { signal: AbortSignal.abort() }), { name: "AbortError" });
  lock.check();
});

fakeTest("a_wait_that_was_cancelled_while_disconnected_is_withdrawn_later", async (fake) => {
  const [a, b] = [fake.client("a"), fake.client("b")];
  const lock = await a.lock("n");
  const ending = new AbortController();
  const waiting = assert.rejects(b.lock("n", { signal: ending.signal }));
  await fake.advance(0);
  fake.disconnect(b);
  ending.abort();
  await waiting;
  await lock.release();
  assert.deepEqual(fake.holders("n"), ["b"], "the grant that nobody waits for");
  fake.connect(b);
  await fake.advance(3000);
  assert.deepEqual(fake.holders("n"), []);
});

fakeTest("modes", async (fake) => {
  const client = fake.client();
  const shared = [await client.lock("s", { shared: true }), await client.lock("s", { shared: true, wait: 0 })];
  assert.equal(await client.tryLock("s"), null);
  await Promise.all(shared.map((lock) => lock.release()));
  const permits = [await client.semaphore("p", 2), await client.semaphore("p", 2)];
  assert.deepEqual(permits.map(({ slot }) => slot), [0, 1]);
  await assert.rejects(client.semaphore("p", 2, { wait: 0 }), NotAcquired);
  const both = await client.multiLock(["x", "y"]);
  assert.equal(both.name, "x, y");
  assert.equal(await client.tryLock("y"), null);
  await both.release();
  assert.ok(await client.tryLock("y"));
  assert.equal(await client.lead("cron", async (lead) => {
    await assert.rejects(client.campaign("cron", { wait: 0 }), NotAcquired);
    return lead.fenceToken > 0 && "done";
  }), "done");
  assert.deepEqual(fake.holders("cron"), []);
});

fakeTest("a_failover_loses_the_locks_of_the_tier_efficiency", async (fake) => {
  const client = fake.client();
  const [kept, lost] = [await client.lock("kept"), await client.lock("fast", { tier: EFFICIENCY })];
  await fake.changeLeader();
  assert.equal(lost.signal.reason.code, "epoch");
  assert.deepEqual(fake.holders("fast"), []);
  kept.check();
  assert.ok(await client.tryLock("fast", { tier: EFFICIENCY }));
});

fakeTest("a_lock_delay_follows_an_unclean_end", async (fake) => {
  const client = fake.client();
  await fake.lose(await client.lock("n", { lockDelay: 5000 }));
  await assert.rejects(client.lock("n", { wait: 0 }), { name: "NotAcquired", code: "delayed" });
  const waiting = client.lock("n");
  await fake.advance(4999);
  assert.equal(fake.waiters("n"), 1);
  await fake.advance(1);
  (await waiting).check();
});

fakeTest("a_disconnected_client_can_be_closed", async (fake) => {
  const client = fake.client();
  await client.lock("n");
  fake.disconnect(client);
  await client.close();
  assert.deepEqual(fake.holders("n"), []);
});

fakeTest("a_client_can_be_closed_while_its_node_rests", async (fake) => {
  for (let ms = 9000; ms < 12_500; ms += 10) { // its node rests for 12 ms or more after a keep-alive that failed
    const client = fake.client();
    await client.lock("n");
    fake.disconnect(client);
    await fake.advance(ms);
    await client.close();
    assert.deepEqual(fake.holders("n"), []);
  }
});

fakeTest("with_lock_releases_and_throws_what_counts", async (fake) => {
  const client = fake.client();
  await assert.rejects(client.withLock("n", () => Promise.reject(new RangeError("of the work"))), RangeError);
  assert.deepEqual(fake.holders("n"), []);
  await assert.rejects(client.withLock("n", async (lock) => fake.lose(lock)), LockLost);
  await assert.rejects(client.lead("e", async (lead) => {
    await fake.lose(lead);
    lead.signal.throwIfAborted();
  }), LockLost);
});

fakeTest("disposal_releases_and_reports_a_loss_once", async (fake) => {
  const client = fake.client();
  const lock = await client.lock("n");
  await lock[Symbol.asyncDispose]();
  assert.deepEqual(fake.holders("n"), []);
  const lost = await client.lock("n");
  await fake.lose(lost);
  await assert.rejects(lost[Symbol.asyncDispose](), LockLost);
  const known = await client.lock("n");
  await fake.lose(known);
  assert.throws(() => known.check(), LockLost);
  await known[Symbol.asyncDispose]();
  await client[Symbol.asyncDispose]();
  await assert.rejects(client.lock("n"), Closed);
});

fakeTest("max_hold_ends_a_hold", async (fake) => {
  const lock = await fake.client().lock("n", { maxHold: 60_000 });
  await fake.advance(59_000);
  lock.check();
  await fake.advance(1000);
  assert.equal(lock.signal.reason.code, "max_hold");
  assert.deepEqual(fake.holders("n"), []);
});

fakeTest("a_renewal_sets_the_ttl", async (fake) => {
  const client = fake.client();
  const lock = await client.lock("n", { ttl: 2000 });
  await lock.renew(20_000);
  assert.ok(lock.safeFor > 19_000);
  await Promise.all([lock.renew(5000), lock.renew(8000)]);
  assert.ok(lock.safeFor > 7000 && lock.safeFor < 8000, `${lock.safeFor}`);
  await assert.rejects(lock.renew(10), Invalid);
  await lock.release();
  await assert.rejects(lock.renew(8000), NotHeld);
  const leader = await client.campaign("e", { ttl: 2000 });
  await leader.renew(20_000);
  assert.ok(leader.safeFor > 19_000);
});

fakeTest("a_renewal_without_answer_counts_with_the_shorter_ttl", async (fake) => {
  const client = fake.client("a", { timeout: 1000 });
  const lock = await client.lock("n", { ttl: 20_000 });
  fake.disconnect(client);
  const renewal = assert.rejects(lock.renew(2000), OutcomeUnknown);
  await fake.advance(0);
  assert.ok(lock.safeFor < 2000);
  await fake.advance(1500);
  await renewal;
});

fakeTest("a_release_during_a_disconnection_is_repeated", async (fake) => {
  const client = fake.client("a", { timeout: 3000 });
  const lock = await client.lock("n");
  fake.disconnect(client);
  const release = assert.rejects(lock.release(), OutcomeUnknown);
  assert.ok(!lock.held, "from the call on");
  await fake.advance(3000);
  await release;
  fake.connect(client);
  await fake.advance(3000);
  assert.deepEqual(fake.holders("n"), []);
});

fakeTest("a_new_session_follows_a_lost_one", async (fake) => {
  const client = fake.client();
  const lost = await client.lock("n");
  fake.disconnect(client);
  await fake.advance(40_000);
  const early = assert.rejects(client.lock("m", { wait: 0 }), Unreachable);
  await fake.advance(20_000);
  await early;
  fake.connect(client);
  const again = client.lock("n");
  await fake.advance(3000);
  assert.ok((await again).fenceToken > lost.fenceToken);
  assert.throws(() => lost.check(), LockLost);
});

fakeTest("events_are_watched_and_a_watch_ends", async (fake) => {
  const client = fake.client("a");
  const watch = client.watch("w/");
  const seen = [];
  const reading = (async () => {
    for await (const event of watch) {
      seen.push(`${event.type} ${event.data.name}`);
    }
  })();
  await fake.advance(0);
  for (const name of ["w/1", "other", "w/2"]) {
    await (await client.lock(name)).release();
  }
  await fake.advance(0);
  assert.deepEqual(seen, ["granted w/1", "released w/1", "granted w/2", "released w/2"]);
  watch.close();
  await reading;
  const resumed = client.watch("w/", { lastId: watch.lastId });
  await (await client.lock("w/3")).release();
  assert.equal((await resumed.next()).value.data.name, "w/3");
  const pending = resumed.next();
  await pending;
  const last = resumed.next();
  await client.close();
  assert.deepEqual(await last, { done: true, value: undefined });
  assert.throws(() => client.watch(), Closed);
});

fakeTest("a_closed_client_holds_nothing_and_refuses", async (fake) => {
  const client = fake.client();
  const lock = await client.lock("n");
  const waiting = assert.rejects(client.lock("n"), Closed);
  await fake.advance(0);
  await client.close();
  await client.close();
  await waiting;
  assert.ok(!lock.held && lock.signal.reason.code === "closed");
  assert.deepEqual(fake.holders("n"), []);
  await assert.rejects(client.lock("n"), Closed);
});

fakeTest("wrong_arguments_are_refused_before_anything_is_sent", async (fake) => {
  const client = fake.client();
  const codes = {
    invalid_ttl: () => client.lock("n", { ttl: 30 }),
    invalid_wait: () => client.lock("n", { wait: NaN }),
    invalid_name: () => client.lock("\ud800"),
    invalid_tier: () => client.lock("n", { tier: "FAST" }),
    invalid_options: () => client.lock("n", { waits: 5 }),
    invalid_event_id: async () => client.watch("", { lastId: "x" }),
  };
  for (const [code, call] of Object.entries(codes)) {
    await assert.rejects(call(), (error) => error instanceof Invalid && error.code === code, code);
  }
});

fakeTest("the_names_of_a_multi_lock_are_an_array", async (fake) => {
  await assert.rejects(fake.client().multiLock("ab"), (error) => error instanceof Invalid && error.code === "invalid_names");
  assert.deepEqual(fake.holders("a"), []);
});
