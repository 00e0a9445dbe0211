// The arithmetic of S5 (docs/CLIENTS.md, C1), with the times as arguments.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Life, LockLife } from "../lib/deadline.js";

const lockOf = (confirmed, ttl, more = {}) => new LockLife({ known: new Life(confirmed, ttl), ...more });

test("a_life_counts_from_the_sending_less_drift_and_margin", () => {
  assert.equal(new Life(1000, 30_000).safeUntil, 1000 + 30_000 - 30 - 5);
  assert.equal(new Life(0, 1001).safeUntil, 1001 - 2 - 5, "the drift is rounded up");
});

test("jeopardy_begins_when_a_third_is_left", () => {
  assert.equal(new Life(0, 3000).jeopardyAt, 3000 - 3 - 5 - 1000);
});

test("an_older_confirmation_changes_nothing", () => {
  assert.equal(new Life(500, 1000).confirm(400).confirmed, 500);
  assert.equal(new Life(500, 1000).confirm(600).confirmed, 600);
});

test("a_keep_alive_of_the_session_confirms_its_locks", () => {
  assert.equal(lockOf(0, 2000).safeUntil(new Life(1500, 30_000)), new Life(1500, 2000).safeUntil);
});

test("no_lock_outlives_its_session", () => {
  assert.equal(lockOf(0, 60_000).safeUntil(new Life(0, 10_000)), new Life(0, 10_000).safeUntil);
});

test("a_renewal_in_flight_counts_if_it_is_shorter", () => {
  const session = new Life(0, 60_000);
  const lock = lockOf(0, 10_000).renewalSent(2000, 1000);
  assert.equal(lock.safeUntil(session), new Life(1000, 2000).safeUntil);
  assert.equal(lock.ttl, 2000);
  const longer = lockOf(0, 2000).renewalSent(10_000, 1000);
  assert.equal(longer.safeUntil(session), new Life(0, 2000).safeUntil, "a longer TTL counts when it is confirmed");
  assert.equal(longer.renewalApplied().safeUntil(session), new Life(1000, 10_000).safeUntil);
});

test("an_unanswered_shorter_renewal_counts_as_long_as_the_lock_is_held", () => {
  const session = new Life(0, 60_000);
  const lock = lockOf(0, 10_000).renewalSent(2000, 1000).renewalUnanswered().renewalSent(20_000, 1500).renewalApplied();
  assert.equal(lock.safeUntil(session), new Life(1500, 2000).safeUntil);
  assert.equal(lock.ttl, 2000);
});

test("of_unanswered_renewals_the_earliest_and_shortest_count", () => {
  const lock = lockOf(0, 9000).renewalSent(5000, 100).renewalUnanswered().renewalSent(3000, 200).renewalUnanswered();
  assert.deepEqual({ ...lock.unanswered }, { confirmed: 100, ttl: 3000 });
});

test("a_refused_renewal_leaves_nothing", () => {
  const lock = lockOf(0, 9000);
  assert.deepEqual(lock.renewalSent(1000, 50).renewalRefused(), lock);
});

test("max_hold_ends_it_whatever_is_confirmed", () => {
  const lock = lockOf(0, 2000, { hold: new Life(0, 5000) }).confirm(4500);
  assert.equal(lock.safeUntil(new Life(4500, 30_000)), new Life(0, 5000).safeUntil);
});
