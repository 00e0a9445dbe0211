// The clock without CLOCK_BOOTTIME (docs/CLIENTS.md, C1.1).

import assert from "node:assert/strict";
import { test } from "node:test";

import { ElapsedClock, sleep } from "../lib/clock.js";

function clockOf() {
  const machine = { monotonic: 5000, wall: 1_700_000_000_000 };
  const clock = new ElapsedClock(() => machine.monotonic, () => machine.wall);
  const pass = (monotonic, wall = monotonic) => {
    const before = clock.now();
    machine.monotonic += monotonic;
    machine.wall += wall;
    return clock.now() - before;
  };
  return { clock, pass, machine };
}

test("time_counts_once_when_both_clocks_run", () => {
  const { pass } = clockOf();
  assert.equal(pass(1000), 1000);
  assert.equal(pass(1), 1);
});

test("a_suspend_counts_although_the_monotonic_clock_stops", () => {
  const { pass } = clockOf();
  assert.equal(pass(0, 60_000), 60_000);
  assert.equal(pass(1000), 1000);
});

test("a_step_of_the_wall_clock_back_neither_stops_it_nor_hides_a_later_suspend", () => {
  const { pass } = clockOf();
  assert.equal(pass(10, 10 - 3_600_000), 10);
  assert.equal(pass(0, 60_000), 60_000);
  assert.equal(pass(0, 50_000), 50_000);
  assert.equal(pass(10, 10 - 20_000), 10);
  assert.equal(pass(0, 15_000), 15_000);
});

test("a_step_of_the_wall_clock_forward_counts_which_is_safe", () => {
  assert.equal(clockOf().pass(10, 3_600_010), 3_600_010);
});

test("whole_ms_of_the_wall_clock_do_not_add_up", () => {
  const { clock, machine } = clockOf();
  const began = clock.now();
  for (let turn = 0; turn < 10_000; turn += 1) {
    machine.monotonic += 0.3;
    machine.wall = 1_700_000_000_000 + Math.floor(turn * 0.3);
    clock.now();
  }
  assert.ok(Math.abs(clock.now() - began - 3000) < 3, `${clock.now() - began}`);
});

test("the_clock_of_the_machine_never_goes_back_and_a_sleep_is_never_short", async () => {
  const clock = new ElapsedClock();
  const began = clock.now();
  await sleep(clock, 30);
  assert.ok(clock.now() >= began + 30);
  const ending = new AbortController();
  const long = sleep(clock, 3_600_000, ending.signal);
  ending.abort();
  await long;
});
