// `await using`, which Node.js 18 to 22 and TypeScript before 5.2 cannot read: the functions below are what a compiler makes of it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LockLost } from "../lib/index.js";
import { FakeCluster } from "../lib/testing.js";

/** `await using value = ...` in a block: as compilers do, the method is looked up at once and called at the end. */
function addDisposable(block, value) {
  const dispose = value[Symbol.asyncDispose];
  assert.equal(typeof dispose, "function", "the value must have the method when it is declared");
  block.push(() => dispose.call(value));
  return value;
}

/** The end of the block. An error of the block and one of a disposal become one SuppressedError. */
async function disposeAll(block, failed) {
  let error = failed;
  for (const dispose of block.reverse()) {
    try {
      await dispose();
    } catch (another) {
      error = error === null ? { error: another } : { error: Object.assign(new Error("suppressed"), { error: another, suppressed: error.error }) };
    }
  }
  if (error !== null) {
    throw error.error;
  }
}

async function using(work) {
  const block = [];
  let failed = null;
  try {
    await work((value) => addDisposable(block, value));
  } catch (error) {
    failed = { error };
  }
  await disposeAll(block, failed);
}

test("a_block_releases_its_locks_and_closes_its_client", async () => {
  const fake = new FakeCluster();
  await using(async (declare) => {
    const client = declare(fake.client());
    const lock = declare(await client.lock("n"));
    lock.check();
    assert.deepEqual(fake.holders("n"), ["test"]);
  });
  assert.deepEqual(fake.holders("n"), []);
});

test("a_block_whose_lock_is_lost_throws_once", async () => {
  const fake = new FakeCluster();
  const client = fake.client();
  await assert.rejects(using(async (declare) => {
    await fake.lose(declare(await client.lock("n")));
  }), (error) => error instanceof LockLost && error.code === "forced");
  await assert.rejects(using(async (declare) => {
    const lock = declare(await client.lock("n"));
    await fake.lose(lock);
    lock.check();
  }), (error) => error instanceof LockLost, "the loss that check() threw is not thrown again");
  await assert.rejects(using(async (declare) => {
    const lock = declare(await client.lock("n"));
    await fake.lose(lock);
    throw new RangeError("of the block");
  }), (error) => error.suppressed instanceof RangeError && error.error instanceof LockLost);
  await client.close();
});
