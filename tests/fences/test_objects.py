"""The fence for object stores, holdfast.fence.objects, on a stand-in for S3 (object_store.py)."""

import threading

import pytest

import holdfast
from holdfast.fence import FenceBusy, StaleToken, objects
from object_store import ObjectStore


@pytest.fixture
def server():
    with ObjectStore() as running:
        yield running


@pytest.fixture
def store(server):
    return objects.HttpStore(server.url)


def test_a_writer_that_was_stopped_past_its_ttl_is_refused(scenario, server, store):
    scenario.run("stale/objects", "Objects", server.url, lambda: store.read("bare")[0].decode(),
                 lambda: objects.get(store, "close/fenced").decode())


def test_equal_and_higher_tokens_are_accepted(store, server):
    assert objects.get(store, "a b") is None
    for token, data in ((5, b""), (5, b"line\nline"), (7, b"\0\xff" * 5000)):
        objects.put(store, "a b", data, token)
        assert objects.get(store, "a b") == data
    with pytest.raises(StaleToken) as stale:
        objects.put(store, "a b", b"old", 6)
    assert (stale.value.token, stale.value.highest) == (6, 7)
    assert list(server.objects) == ["/bucket/a%20b"]


def test_a_newer_writer_between_read_and_put_is_noticed(store, server):
    """Also if it writes the same content: the ETag of S3 is a checksum of the content, and the token is part of it."""
    for data in (b"same", b"other"):
        server.objects.clear()
        objects.put(store, "k", b"same", 5)

        def overtake(path):
            server.before_put = lambda path: None
            objects.put(store, "k", data, 6)

        server.before_put = overtake
        with pytest.raises(StaleToken):
            objects.put(store, "k", b"late", 5)
        assert objects.get(store, "k") == data


def test_of_two_first_writers_one_repeats(store, server):
    def overtake(path):
        server.before_put = lambda path: None
        objects.put(store, "k", b"first", 4)

    server.before_put = overtake
    objects.put(store, "k", b"second", 5)
    assert objects.get(store, "k") == b"second"


def test_a_newer_first_writer_is_not_overwritten(store, server):
    def overtake(path):
        server.before_put = lambda path: None
        objects.put(store, "k", b"newer", 6)

    server.before_put = overtake
    with pytest.raises(StaleToken):
        objects.put(store, "k", b"late", 5)
    assert objects.get(store, "k") == b"newer"


def test_an_object_that_changes_all_the_time_ends_the_attempts(store, server):
    count = iter(range(1000))

    def change(path):
        server.objects[path] = b"holdfast-token 1\n%d" % next(count)

    server.before_put = change
    with pytest.raises(FenceBusy):
        objects.put(store, "k", b"x", 5)
    assert next(count) == objects.ATTEMPTS


@pytest.mark.parametrize("body", [b"", b"text", b"holdfast-token 5", b"holdfast-token \n", b"holdfast-token x\n", b"holdfast-token 0\n",
                                  b"holdfast-token 9007199254740992\n", b"holdfast-token " + b"5" * 5000 + b"\n"],
                         ids=lambda body: repr(body[:30]))
def test_an_object_without_a_token_is_not_overwritten(store, server, body):
    server.objects["/bucket/k"] = body
    with pytest.raises(objects.NotFenced):
        objects.put(store, "k", b"x", 5)
    with pytest.raises(objects.NotFenced):
        objects.get(store, "k")
    assert server.objects["/bucket/k"] == body


def test_a_store_that_fails_is_an_error(server):
    broken = objects.HttpStore(server.url)
    server.before_put = lambda path: 1 / 0
    server.handle_error = lambda *_: None
    with pytest.raises((OSError, holdfast.HoldfastError)):
        objects.put(broken, "k", b"x", 5)
    for token in (0, True, "5", 2 ** 53):
        with pytest.raises(holdfast.Invalid):
            objects.put(broken, "k", b"x", token)


def test_many_writers_write_in_the_order_of_tokens(store, server):
    seen = []

    def work(number):
        own = objects.HttpStore(server.url)
        for step in range(20):
            try:
                objects.put(own, "k", b"%d" % number, step * 4 + number + 1)
            except (StaleToken, FenceBusy):
                pass

    class Recorded(dict):
        def __setitem__(self, path, body):
            seen.append(int(body.split()[1]))
            super().__setitem__(path, body)

    server.objects = Recorded()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen and seen == sorted(seen)
