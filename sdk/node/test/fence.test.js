// The fence in memory.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Invalid, LimitReached, MemoryFence, StaleToken } from "../lib/index.js";

test("a_fence_refuses_lower_tokens", () => {
  const fence = new MemoryFence();
  fence.guard("a", 10);
  fence.guard("a", 10);
  fence.guard("b", 1);
  fence.guard("a", 11);
  assert.throws(() => fence.guard("a", 10), (error) => error instanceof StaleToken && error.code === "stale_token" && error.highest === 11);
  for (const wrong of [0, -1, 1.5, 2 ** 53, "10", NaN]) {
    assert.throws(() => fence.guard("a", wrong), Invalid, String(wrong));
  }
  assert.throws(() => fence.guard("", 1), Invalid);
});

test("a_fence_has_a_limit_of_resources", () => {
  const fence = new MemoryFence();
  for (let i = 0; i < 65_536; i += 1) {
    fence.guard(`r${i}`, 1);
  }
  assert.throws(() => fence.guard("one more", 1), LimitReached);
  fence.guard("r7", 2);
});
