// The fake behaves as the service does: one script runs on both, and refusals, grants and events are compared.

import assert from "node:assert/strict";
import { test } from "node:test";

import { EFFICIENCY } from "../lib/index.js";
import { FakeCluster } from "../lib/testing.js";
import { makeCluster, waitUntil } from "./cluster.js";

/** Refusals, grants and events of a short life, without times. */
async function run(first, second, forceUnlock) {
  const watch = first.watch("s/");
  const seen = [];
  const reading = (async () => {
    for await (const { type, data } of watch) {
      const { name, client_id: client, mode, part, ended, reason, value, vacant } = data;
      seen.push({ type, name, client, mode, part, ended, reason, value, vacant });
    }
  })();
  await waitUntil(() => watch.lastId !== null, "the watch has begun");
  const outcomes = [];
  /** A grant is released. */
  const note = async (call) => {
    try {
      const lock = await call;
      outcomes.push(lock.slot);
      await lock.release();
    } catch (error) {
      outcomes.push(`${error.name} ${error.code}`);
    }
  };
  const [wait, names] = [0, ["s/x", "s/y"]];
  const lock = await first.lock("s/n", { lockDelay: 60_000, metadata: { a: 1 } });
  await note(second.lock("s/n", { wait }));
  await note(second.lock("s/n", { wait, shared: true }));
  await note(second.semaphore("s/n", 2, { wait }));
  await note(second.campaign("s/n", { wait }));
  await note(second.multiLock(["s/free", "s/n"], { wait }));
  await note(second.lock("s/n", { wait, tier: EFFICIENCY }));
  await note(second.semaphore("s/p", 2, { wait, permits: 3 }));
  const refusal = await second.lock("s/n", { wait }).catch((error) => error);
  outcomes.push(Object.keys(refusal.holder).sort(), refusal.holder.metadata, refusal.queueLength);
  const permit = await first.semaphore("s/p", 2);
  await note(second.semaphore("s/p", 2, { wait }));
  await note(second.semaphore("s/p", 3, { wait }));
  await note(second.semaphore("s/p", 2, { wait, permits: 2 }));
  await permit.release();
  const both = await first.multiLock(names);
  await note(second.lock("s/y", { wait }));
  await both.release();
  await first.lead("s/e", () => note(second.campaign("s/e", { wait })), { value: "v1" });
  const readers = [await first.lock("s/r", { shared: true }), await second.lock("s/r", { shared: true, wait })];
  await note(first.lock("s/r", { wait }));
  for (const reader of readers) {
    await reader.release();
  }
  await forceUnlock(lock);
  await note(second.lock("s/n", { wait }));
  await waitUntil(() => !lock.held, "the loss is reported");
  outcomes.push(lock.signal.reason.code);
  await (await second.lock("s/last")).release();
  await waitUntil(() => seen.at(-1)?.type === "released" && seen.at(-1).name === "s/last", "all events");
  watch.close();
  await reading;
  return { outcomes, seen };
}

test("the_fake_answers_and_reports_as_the_service_does", async (t) => {
  const fake = new FakeCluster();
  const expected = await run(fake.client("first"), fake.client("second"), (lock) => fake.lose(lock));
  const cluster = await makeCluster(t, { nodes: 1 });
  const real = await run(cluster.client({ clientId: "first" }), cluster.client({ clientId: "second" }), async () => {
    const answer = await cluster.request("POST", "/api/v1/locks/s%2Fn/force-unlock", { actor_id: "test", reason: "test" });
    assert.equal(answer.status, 200);
  });
  assert.deepEqual(expected.outcomes, real.outcomes);
  assert.deepEqual(expected.seen, real.seen);
});
