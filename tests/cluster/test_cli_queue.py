"""Many who wait for one name: served in the order in which they came, each woken once."""

import subprocess

from cli_support import Watcher, cluster, endpoints  # noqa: F401  (a fixture)
from harness import PROGRAM, environment, wait_until

WAITERS = 40 if "build-test" in str(PROGRAM) else 200  # sanitized programs are ten times as large


def test_waiters_are_served_in_order_and_each_is_woken_once(cluster, tmp_path):
    node = cluster.nodes[1]
    token = node.acquire("line", client="first", ttl_ms=600000).json["fencing_token"]
    watcher = Watcher([node], "line")
    order = tmp_path / "order"
    processes = []
    try:
        for number in range(WAITERS):
            processes.append(subprocess.Popen(
                [PROGRAM, "lock", "--timeout", "60s", "line", "--", "sh", "-c",
                 f"echo {number} >> {order}"],
                env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster)), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
            wait_until(lambda n=number: node.show("line").json["queue_length"] == n + 1,
                       f"{number} waits", 30)
        node.release("line", token, client="first")
        for process in processes:
            said = process.communicate(timeout=300)[1]
            assert process.returncode == 0, said
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    assert [int(line) for line in order.read_text().split()] == list(range(WAITERS))
    wait_until(lambda: len(watcher.named("released")) == WAITERS + 1, "all events have come")
    watcher.close()
    kinds = [event["event"] for event in watcher.events]
    assert kinds.count("queued") == WAITERS
    assert kinds.count("granted") == WAITERS
    assert kinds.count("released") == WAITERS + 1
