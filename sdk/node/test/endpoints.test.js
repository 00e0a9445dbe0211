// Rotation and circuit breaker (docs/CLIENTS.md, C6), with the time as an argument.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Endpoints, OPEN_MAX_MS, parse } from "../lib/endpoints.js";
import { Invalid } from "../lib/errors.js";

function fail(endpoints, endpoint, times, now = 0) {
  for (let turn = 0; turn < times; turn += 1) {
    endpoints.begun(endpoint);
    endpoints.failed(endpoint, "refused", now);
  }
}

test("addresses_are_parsed_or_refused", () => {
  assert.deepEqual(parse("h:1"), { host: "h", port: 1 });
  assert.deepEqual(parse("[::1]:65535"), { host: "::1", port: 65535 });
  for (const wrong of ["h", "h:", ":1", "h:0", "h:65536", "h:x", "http://h:1", "::1:4653"]) {
    assert.throws(() => parse(wrong), Invalid, wrong);
  }
  assert.throws(() => new Endpoints([]), Invalid);
});

test("a_failed_node_is_avoided_and_a_used_one_is_used_again", () => {
  const endpoints = new Endpoints(["a:1", "b:1"]);
  const [a, b] = endpoints.all;
  endpoints.begun(b);
  endpoints.succeeded(b);
  assert.equal(endpoints.pick(0), b);
  assert.equal(endpoints.pick(0, b), a);
  fail(endpoints, b, 1);
  assert.equal(endpoints.pick(10 ** 6), a);
});

test("three_failures_open_the_circuit_and_one_request_probes_it", () => {
  const endpoints = new Endpoints(["a:1"]);
  const [a] = endpoints.all;
  fail(endpoints, a, 2);
  assert.ok(!a.isOpen);
  fail(endpoints, a, 1);
  assert.ok(a.isOpen && endpoints.allOpen(0) && endpoints.pick(0) === null);
  const later = a.notBefore;
  assert.ok(later >= 125 && later <= 250, `${later}`);
  assert.ok(!endpoints.allOpen(later) && endpoints.pick(later) === a);
  endpoints.begun(a);
  assert.equal(endpoints.pick(later), null, "one probe at a time");
  endpoints.succeeded(a);
  assert.ok(!a.isOpen && endpoints.pick(later) === a);
});

test("the_rest_of_an_open_circuit_is_limited", () => {
  const endpoints = new Endpoints(["a:1"]);
  fail(endpoints, endpoints.all[0], 5000);
  assert.ok(endpoints.all[0].notBefore <= OPEN_MAX_MS);
});
