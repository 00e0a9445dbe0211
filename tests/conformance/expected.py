"""Compares an answer with what a scenario expects of it."""

MARGIN_MS = 5
RATE = 1000


def longest_ms(ttl_ms):
    """The most that is certainly left of a TTL, directly after its sending (C1.4)."""
    return ttl_ms - (ttl_ms + RATE - 1) // RATE - MARGIN_MS


def differs(wanted, value, token_of):
    """None, or how it differs. `token_of`: the token of a handle, as a number."""
    if not isinstance(wanted, dict):
        return None if value == wanted and isinstance(value, type(wanted)) else f"is {value!r}, and must be {wanted!r}"
    for kind, limit in wanted.items():
        if kind == "one_of":
            good = value in limit
        elif kind == "above":
            good = value is not None and int(value) > token_of(limit)
        elif kind == "same_as":
            good = value is not None and int(value) == token_of(limit)
        elif not isinstance(value, int) or isinstance(value, bool):
            good = False
        elif kind == "min":
            good = value >= limit
        elif kind == "max":
            good = value <= limit
        elif kind == "within_ttl_ms":
            good = 0 < value <= longest_ms(limit)
        else:
            raise ValueError(f"the expectation {kind!r} is unknown")
        if not good:
            return f"is {value!r}, and must be {kind} {limit!r}"
    return None


def problem(expect, answer, token_of):
    """None, or what is wrong with an answer. Without an error it must be ok."""
    expect = dict(expect or {})
    if "error" not in expect and not answer["ok"]:
        return f"is the error {answer['error']} ({answer.get('code')}: {answer.get('message')})"
    if "error" in expect and answer["ok"]:
        return f"is ok, and must be the error {expect['error']!r}"
    for field, wanted in expect.items():
        wrong = differs(wanted, answer.get(field), token_of)
        if wrong is not None:
            return f"{field} {wrong}"
    return None
