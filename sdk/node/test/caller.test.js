// Retries (docs/CLIENTS.md, C4), with a transport that answers from a list.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Caller, Cancelled } from "../lib/caller.js";
import { Endpoints } from "../lib/endpoints.js";
import { Denied, LimitReached, OutcomeUnknown, ServiceError, Unreachable } from "../lib/errors.js";
import { Broken, NotSent } from "../lib/http.js";

const ok = { status: 200, body: { acquired: true } };
const refused = (status, code, more) => ({ status, body: { error: { code, message: "no", ...more } } });

/** A clock that moves with each look. */
function callerOf(answers, { addresses = ["a:1", "b:1"], step = 5 } = {}) {
  const sent = [];
  const clock = {
    ms: 1000,
    now() {
      this.ms += step;
      return this.ms;
    },
    setTimer(callback) {
      const timer = setImmediate(callback);
      return () => clearImmediate(timer);
    },
  };
  const transport = {
    async request(endpoint, { body, signal }) {
      sent.push({ node: endpoint.text, body, at: clock.ms });
      const answer = answers.shift() ?? new NotSent("refused");
      if (answer instanceof Error) {
        throw answer;
      }
      return typeof answer === "function" ? answer(signal) : answer;
    },
    closeIdle() {},
  };
  const caller = new Caller({ clock, endpoints: new Endpoints(addresses), transport });
  return { caller, sent, call: (more) => caller.call("POST", "/x", { request_id: "r" }, { timeout: 3000, ...more }) };
}

test("a_retry_goes_elsewhere_with_the_same_bytes", async () => {
  const { call, sent } = callerOf([new Broken("gone"), refused(503, "unavailable"), ok]);
  assert.ok((await call()).body.acquired);
  assert.notEqual(sent[0].node, sent[1].node);
  assert.equal(new Set(sent.map(({ body }) => body)).size, 1);
});

test("the_first_sending_that_may_have_been_done_counts", async () => {
  const broken = callerOf([new NotSent("refused"), refused(503, "unavailable"), new Broken("gone"), refused(504, "outcome_unknown"), ok]);
  assert.equal((await broken.call()).sent, broken.sent[2].at);
  const unsent = callerOf([new NotSent("refused"), ok]);
  assert.equal((await unsent.call()).sent, unsent.sent[1].at);
});

test("other_errors_are_final_and_keep_their_code", async () => {
  const denied = callerOf([refused(403, "denied")]);
  await assert.rejects(denied.call(), (error) => error instanceof Denied && error.code === "denied" && denied.sent.length === 1);
  await assert.rejects(callerOf([refused(409, "wrong_tier")]).call(), (error) => error instanceof ServiceError && error.code === "wrong_tier");
  await assert.rejects(callerOf([refused(429, "quota_exceeded", { retry_after_ms: 70 })]).call(),
    (error) => error instanceof LimitReached && error.retryAfter === 70);
  await assert.rejects(callerOf([{ status: 404, body: {} }]).call(), (error) => error.code === "protocol");
});

test("nothing_was_done_or_the_outcome_is_unknown", async () => {
  await assert.rejects(callerOf([], { step: 50 }).call(), (error) => error instanceof Unreachable && /refused/.test(error.message));
  await assert.rejects(callerOf([new Broken("gone")], { step: 50 }).call(), OutcomeUnknown);
});

test("open_circuits_fail_at_once_with_the_reasons", async () => {
  const { caller, call, sent } = callerOf([], { addresses: ["a:1"] });
  for (let turn = 0; turn < 3; turn += 1) {
    caller.endpoints.failed(caller.endpoints.all[0], "connection refused", 2000);
  }
  await assert.rejects(call({ timeout: 60_000 }), (error) => error instanceof Unreachable && /a:1 \(connection refused\)/.test(error.message));
  assert.equal(sent.length, 0);
});

test("a_call_without_failing_fast_continues_while_circuits_are_open", async () => {
  const { caller, call } = callerOf([ok], { addresses: ["a:1"] });
  for (let turn = 0; turn < 3; turn += 1) {
    caller.endpoints.failed(caller.endpoints.all[0], "connection refused", 1000);
  }
  assert.ok((await call({ timeout: 60_000, failsFast: false })).body.acquired);
});

test("a_wait_keeps_no_probe_and_ends_when_its_node_fails", async () => {
  let begun;
  const hasBegun = new Promise((resolve) => {
    begun = resolve;
  });
  const silent = (signal) => new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new Broken("cancelled")));
    begun();
  });
  const { caller, call, sent } = callerOf([silent, new Broken("gone"), ok], { addresses: ["a:1"] });
  const [node] = caller.endpoints.all;
  for (let turn = 0; turn < 3; turn += 1) {
    caller.endpoints.failed(node, "refused", -(10 ** 6));
  }
  const wait = call({ wait: null });
  await hasBegun;
  assert.ok(node.mayTry(caller.clock.now()));
  await assert.rejects(caller.attempt(node, { method: "POST", path: "/keepalive", timeout: 1 }), Broken);
  assert.ok((await wait).body.acquired);
  assert.equal(sent.length, 3);
});

test("a_cancelled_call_ends_and_notes_no_failure", async () => {
  const ending = new AbortController();
  const silent = (signal) => new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new Broken("cancelled")));
    setImmediate(() => ending.abort());
  });
  const { caller, call } = callerOf([silent], { addresses: ["a:1"] });
  await assert.rejects(call({ wait: null, signal: ending.signal }), Cancelled);
  assert.equal(caller.endpoints.all[0].failures, 0);
});
