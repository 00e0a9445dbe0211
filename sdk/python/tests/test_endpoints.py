"""Rotation and circuit breaker (docs/CLIENTS.md, C6), with the time as an argument."""

import pytest

from holdfast.endpoints import OPEN_MAX_MS, Endpoints, parse
from holdfast.errors import Invalid


def fail(endpoints, endpoint, times, now_ms=0):
    for _ in range(times):
        endpoints.begun(endpoint)
        endpoints.failed(endpoint, "refused", now_ms)


def test_addresses_are_parsed_or_refused():
    assert parse("h:1") == ("h", 1) and parse("[::1]:65535") == ("::1", 65535)
    for wrong in ("h", "h:", ":1", "h:0", "h:65536", "h:x"):
        with pytest.raises(Invalid):
            parse(wrong)
    with pytest.raises(Invalid):
        Endpoints([])


def test_a_failed_node_is_avoided_and_a_used_one_is_used_again():
    e = Endpoints(["a:1", "b:1"])
    a, b = e.all
    e.begun(b)
    e.succeeded(b)
    assert e.pick(0) is b
    fail(e, b, 1)
    assert e.pick(10 ** 6) is a


def test_three_failures_open_the_circuit_and_one_request_probes_it():
    e = Endpoints(["a:1"])
    (a,) = e.all
    fail(e, a, 2)
    assert not a.open
    fail(e, a, 1)
    assert a.open and e.all_open(0) and e.pick(0) is None
    later = a.not_before_ms
    assert 125 <= later <= 250
    assert not e.all_open(later) and e.pick(later) is a
    e.begun(a)
    assert e.pick(later) is None, "one probe at a time"
    e.succeeded(a)
    assert not a.open and e.pick(later) is a


def test_the_rest_of_an_open_circuit_is_limited():
    e = Endpoints(["a:1"])
    fail(e, e.all[0], 5000)
    assert e.all[0].not_before_ms <= OPEN_MAX_MS
