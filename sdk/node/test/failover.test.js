// The client while nodes die and pause: a lock survives a failover, and a loss is found by the clock.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Caller } from "../lib/caller.js";
import { ElapsedClock } from "../lib/clock.js";
import { Broken } from "../lib/http.js";
import { LockLost } from "../lib/index.js";
import { Stream } from "../lib/stream.js";
import { PATIENCE_MS, allowed, makeCluster, waitUntil } from "./cluster.js";

/** The clock of the machine, which a test can advance. */
class ShiftedClock extends ElapsedClock {
  shift = 0;

  now() {
    return super.now() + this.shift;
  }
}

test("locks_waits_and_watches_survive_the_death_of_the_leader", async (t) => {
  const cluster = await makeCluster(t);
  const [client, other] = [cluster.client({ sessionTtl: 9000 }), cluster.client()];
  const watch = other.watch("kept");
  const seen = [];
  const reading = (async () => {
    for await (const { type } of watch) {
      seen.push(type);
    }
  })();
  await waitUntil(() => watch.lastId !== null, "the watch is ready");
  const lock = await client.lock("kept");
  let losses = 0;
  lock.on("lost", () => {
    losses += 1;
  });
  const waiting = other.lock("kept");
  await cluster.queueOf("kept", 1);
  const leader = await cluster.leader();
  await cluster.kill(leader);
  await cluster.leader(leader);
  const end = performance.now() + lock.safeFor;
  await waitUntil(() => performance.now() + lock.safeFor > end + 1000, "a keep-alive is confirmed by the new leader");
  lock.check();
  await lock.release();
  const next = await waiting;
  next.check();
  assert.ok(next.fenceToken > lock.fenceToken);
  assert.equal(losses, 0);
  await waitUntil(() => seen.length >= 4, "the watch was resumed");
  watch.close();
  await reading;
  assert.deepEqual(seen.filter((type) => type === "granted" || type === "released"), ["granted", "released", "granted"]);
});

test("a_watch_is_resumed_at_another_node_without_a_gap", async (t) => {
  const cluster = await makeCluster(t);
  const writer = cluster.client();
  const reader = cluster.client();
  const watch = reader.watch("w/", { lastId: "0-0" });
  const names = [];
  const reading = (async () => {
    for await (const { type, data } of watch) {
      if (type === "granted") {
        names.push(data.name);
      }
    }
  })();
  const written = [];
  for (const node of cluster.ids) { // one of them has the watch
    written.push(`w/${node}`);
    await writer.withLock(`w/${node}`, () => {});
    await waitUntil(() => names.length === written.length, "it arrived");
    await cluster.kill(node);
    written.push(`w/after-${node}`);
    await writer.withLock(`w/after-${node}`, () => {}, { wait: PATIENCE_MS });
    await waitUntil(() => names.length === written.length, "it arrived after the kill");
    await cluster.restart(node);
  }
  watch.close();
  await reading;
  assert.deepEqual(names, written);
});

test("keep_alives_leave_a_paused_node", async (t) => {
  const cluster = await makeCluster(t);
  const client = cluster.client({ sessionTtl: 4000 });
  const lock = await client.lock("moved");
  await cluster.pause(1);
  const until = performance.now() + 5000;
  await waitUntil(() => !lock.held || performance.now() > until, "more than a TTL has passed");
  lock.check();
  await cluster.resume(1);
});

test("without_the_cluster_a_lock_is_lost_in_time_and_for_good", async (t) => {
  const cluster = await makeCluster(t);
  const client = cluster.client({ sessionTtl: 2000, timeout: 2000 });
  const lock = await client.lock("paused");
  const events = [];
  lock.on("jeopardy", () => events.push("jeopardy")).on("lost", () => events.push("lost"));
  await cluster.pause(...cluster.ids);
  const [safeFor, began] = [lock.safeFor, performance.now()];
  assert.ok(safeFor > 0 && safeFor <= 2000);
  await new Promise((resolve) => lock.signal.addEventListener("abort", resolve));
  const took = performance.now() - began;
  assert.ok(took >= safeFor - 1, `${took} of ${safeFor} ms: not before its time`);
  assert.ok(took <= safeFor + allowed(500), `${took} of ${safeFor} ms: in time`);
  assert.throws(() => lock.check(), LockLost);
  await cluster.resume(...cluster.ids);
  await cluster.leader();
  const other = await client.lock("other", { wait: PATIENCE_MS });
  other.check();
  assert.throws(() => lock.check(), LockLost);
  await assert.rejects(lock.release(), LockLost);
  assert.deepEqual(events, ["jeopardy", "lost"]);
});

test("losses_on_one_cluster", async (t) => {
  const cluster = await makeCluster(t);

  await t.test("force_unlock_is_reported", async () => {
    const lock = await cluster.client().lock("forced");
    const lost = new Promise((resolve) => lock.once("lost", resolve));
    const { status } = await cluster.request("POST", "/api/v1/locks/forced/force-unlock", { actor_id: "operator", reason: "a test" });
    assert.equal(status, 200);
    assert.equal((await lost).code, "forced");
    assert.throws(() => lock.check(), (error) => error instanceof LockLost && error.code === "forced");
  });

  await t.test("a_revocation_is_reported_before_the_loss", async () => {
    const lock = await cluster.client().lock("revoked");
    const requested = new Promise((resolve) => lock.once("revokeRequested", resolve));
    const began = Date.now();
    await cluster.request("POST", "/api/v1/locks/revoked/revoke", { actor_id: "operator", reason: "a test", deadline_ms: 1000 });
    const { actor, reason, deadline } = await requested;
    assert.deepEqual([actor, reason], ["operator", "a test"]);
    assert.ok(Math.abs(deadline - began - 1000) < allowed(1000), String(deadline));
    await new Promise((resolve) => lock.signal.addEventListener("abort", resolve));
    assert.equal(lock.signal.reason.code, "revoked");
  });

  await t.test("check_needs_no_timer_and_a_late_answer_revives_nothing", async () => {
    const clock = new ShiftedClock();
    const client = cluster.client({ sessionTtl: 30_000 }, { clock });
    let losses = 0;
    const lock = await client.lock("jumped");
    lock.on("lost", () => {
      losses += 1;
    });
    lock.check();
    clock.shift = 31_000; // as after a pause of this process
    assert.throws(() => lock.check(), LockLost);
    await waitUntil(() => losses === 1, "the loss is reported");
    await assert.rejects(lock.release(), LockLost);
    await assert.rejects(client.withLock("block", () => {
      clock.shift += 31_000;
    }), LockLost);
    assert.equal(losses, 1);
  });

  await t.test("a_lock_that_is_lost_alone_is_given_back", async () => {
    const clock = new ShiftedClock();
    const [client, other] = [cluster.client({ sessionTtl: 15_000 }, { clock }), cluster.client()];
    const stays = await client.lock("stays");
    const lock = await client.lock("short", { ttl: 8000 });
    clock.shift = 8000;
    const later = await other.lock("short", { wait: PATIENCE_MS }); // keep-alives of the session would keep it
    assert.ok(later.fenceToken > lock.fenceToken);
    assert.throws(() => lock.check(), LockLost);
    stays.check();
  });

  await t.test("with_a_new_leader_locks_of_the_tier_efficiency_are_lost", async () => {
    const client = cluster.client({ sessionTtl: 15_000 });
    const [fast, safe] = [await client.lock("fast", { tier: "EFFICIENCY" }), await client.lock("safe")];
    const leader = await cluster.leader();
    await cluster.kill(leader);
    await waitUntil(() => fast.signal.aborted, "the loss is reported");
    assert.equal(fast.signal.reason.code, "epoch");
    safe.check();
    await cluster.restart(leader);
  });
});

test("a_keep_alive_finds_a_loss_that_no_stream_reported", async (t) => {
  const heard = Stream.prototype[Symbol.asyncIterator];
  t.after(() => { Stream.prototype[Symbol.asyncIterator] = heard; });
  Stream.prototype[Symbol.asyncIterator] = async function* hearNothing() {
    await new Promise((resolve) => setTimeout(resolve, PATIENCE_MS).unref());
  };
  const cluster = await makeCluster(t);
  const client = cluster.client({ sessionTtl: 3000 });
  const kept = [await client.lock("kept/c"), await client.lock("kept/e", { tier: "EFFICIENCY" })];
  const lose = async (name, tier) => {
    const gone = await client.lock(name, { tier });
    const { status } = await cluster.request("POST", `/api/v1/locks/${name}/force-unlock`, { actor_id: "operator", reason: "a test", now: true });
    assert.equal(status, 200);
    await waitUntil(() => !gone.held, "a keep-alive finds the loss");
    kept.forEach((lock) => lock.check());
    return gone.signal.reason.code;
  };
  assert.equal(await lose("gone", "CORRECTNESS"), "forced");
  assert.equal(await lose("gone", "EFFICIENCY"), "forced");
  const attempt = Caller.prototype.attempt;
  t.after(() => { Caller.prototype.attempt = attempt; });
  Caller.prototype.attempt = function answerNoRenewal(endpoint, request) {
    return request.path.endsWith("/renew") ? Promise.reject(new Broken("not answered")) : attempt.call(this, endpoint, request);
  };
  assert.equal(await lose("gone", "CORRECTNESS"), "unknown");
});
