"""`holdfast top`: what is held and waited for now, with keys on a terminal."""

import contextlib
import json
import os
import re
import signal
import threading

import pytest

from cli_support import cluster, good, one_cluster, run_cli  # noqa: F401  (fixtures)
from harness import PROGRAM, wait_until
from test_cli_terminal import Terminal

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def locks(cluster):
    """Two locks with queues, one without, held throughout."""
    first = cluster.nodes[1]
    with contextlib.ExitStack() as stack:
        for name in ("top/two", "top/one", "top/none"):
            assert first.acquire(name, client=f"holds-{name[4:]}", ttl_ms=600000).status == 200
        for number, (name, length) in enumerate((("top/one", 1), ("top/two", 1), ("top/two", 2))):
            thread = threading.Thread(
                target=first.request, args=("POST", f"/api/v1/locks/{name}/acquire", {
                    "client_id": f"waits-{number}", "wait_timeout_ms": -1}, 600))
            thread.start()
            stack.callback(thread.join)
            wait_until(lambda n=name, q=length: first.show(n).json["queue_length"] == q, "it waits")
        yield
        for _ in range(3):
            for name in ("top/two", "top/one", "top/none"):
                run_cli(cluster, "force-unlock", name, "--reason", "end of the test", "--now")


class Screen(Terminal):
    """`holdfast top` on a terminal. What was drawn last is a list of lines."""

    def __init__(self, cluster, *arguments):
        super().__init__(cluster, PROGRAM, "top", *arguments, term="xterm")

    def see(self, pattern):
        """Waits for a screen that matches, and gives its lines."""
        while True:
            drawn = self.expect(r"(?s)\x1b\[H(.*?)\x1b\[J")[1]
            text = ESCAPES.sub("", drawn)
            if re.search(pattern, text, re.S):
                return text.replace("\r", "").split("\n")


def order(lines):
    return [line.split()[0] for line in lines if line.startswith("top/")]


def test_locks_that_are_held_and_waited_for_are_shown_without_any_event(cluster, locks):
    text = good(cluster, "top", "--once", "top/")
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.startswith("top/")}
    assert list(rows) == ["top/two", "top/one", "top/none"]
    assert rows["top/two"][2] == "holds-two" and rows["top/two"][4] == "2"
    assert rows["top/one"][4] == "1" and rows["top/none"][4] == "0" and rows["top/none"][5] == "-"
    assert "serving  leader: node" in text and "members: 3 of 3 healthy" in text
    assert re.search(r"held \d+  waiting 3  sessions \d+", text)


def test_json_has_the_figures_and_the_locks(cluster, locks):
    found = json.loads(good(cluster, "top", "--once", "--json", "--sort", "age", "top/"))
    assert found["sort"] == "age" and found["serving"] is True and found["leader"] in (1, 2, 3)
    assert found["waiting"] == 3 and found["healthy_members"] == 3 and not found["more_names"]
    names = found["names"]
    assert [row["name"] for row in names] == ["top/two", "top/one", "top/none"]
    assert [row["queue_length"] for row in names] == [2, 1, 0]
    assert names[0]["age_ms"] >= names[1]["age_ms"] >= names[2]["age_ms"] > 0
    assert names[0]["wait_ms"] > 0 and names[2]["wait_ms"] == 0
    assert names[0]["age_ms"] >= names[0]["wait_ms"]
    few = json.loads(good(cluster, "top", "--once", "--json", "--rows", "1", "top/"))
    assert len(few["names"]) == 1 and few["more_names"]


def test_the_order_is_by_the_first_waiter_too(cluster, locks):
    found = json.loads(good(cluster, "top", "--once", "--json", "--sort", "wait", "top/"))
    assert [row["name"] for row in found["names"]][0] == "top/one"  # its waiter came first


@pytest.mark.parametrize("arguments", [["--sort", "name"], ["--interval", "5ms"], ["--rows", "0"],
                                       ["a", "b"], ["x" * 600]])
def test_wrong_use_is_explained(cluster, arguments):
    done = run_cli(cluster, "top", *arguments)
    assert done.returncode == 64 and done.stderr.startswith("holdfast"), done


def test_keys_change_the_order_filter_and_show_a_lock(cluster, locks):
    top = Screen(cluster, "--interval", "250ms")
    top.see("by queue")
    top.type("w")
    assert order(top.see("by wait"))[0] == "top/one"
    top.type("s")
    top.see("by rate")
    top.type("u")
    assert order(top.see("by queue"))[:2] == ["top/two", "top/one"]
    top.type("/top/n\r")
    assert order(top.see("begin with top/n,")) == ["top/none"]
    top.type("/")
    top.type("\x7fo\x7f\x7f\r")
    assert len(order(top.see("begin with top,"))) == 3
    top.type("\x1b[B\r")  # down, enter
    page = top.see("HELD BY")
    assert page[0].startswith("top/one") and any("waits-0" in line for line in page)
    top.type("\x1b")
    top.see("by queue")
    top.type("h")
    top.see("Keys")
    top.type("h ")
    top.see("PAUSED")
    top.type("q")
    assert top.end() == 0
    assert top.text.endswith("\x1b[?25h\x1b[?1049l")  # the cursor and the screen are back


def test_a_prefix_that_is_not_applied_changes_nothing(cluster, locks):
    top = Screen(cluster, "top/", "--interval", "250ms")
    assert len(order(top.see("3 locks"))) == 3
    top.type("/nothing")
    top.see("prefix: top/nothing_")
    top.type("\x1b")
    assert len(order(top.see("u queue"))) == 3
    top.type("q")
    assert top.end() == 0


def test_an_interrupt_restores_the_terminal(cluster):
    top = Screen(cluster)
    top.see("u queue")
    top.type("\x03")
    assert top.end() == -signal.SIGINT
    assert "\x1b[?1049l" in top.text


def test_it_goes_on_without_a_leader(tmp_path):
    for nodes in one_cluster(tmp_path, 3):
        assert nodes.nodes[1].acquire_surely("alone", client="me", ttl_ms=600000)
        top = Screen(nodes, "--interval", "250ms")
        top.see("serving .*alone")
        leader = nodes.leader()
        stay = [n for n in nodes if n is not leader][0]
        for node in nodes:
            if node is not stay:
                os.kill(node.process.pid, signal.SIGKILL)
                node.process.wait()
        lines = top.see("not serving.*no figures.*alone")
        assert any("STALE" in line for line in lines)
        top.type("q")
        assert top.end() == 0
