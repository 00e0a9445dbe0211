"""What a cluster does when nobody requests anything: next to nothing."""

import time

import pytest

from harness import wait_until


def written(node):
    """Bytes that the process has caused to be written."""
    with open(f"/proc/{node.process.pid}/io", encoding="utf-8") as file:
        return int(dict(line.split(": ") for line in file.read().splitlines())["write_bytes"])


def cpu_seconds(node):
    with open(f"/proc/{node.process.pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.parametrize("held", [False, pytest.param(True, marks=pytest.mark.long)])
def test_an_idle_cluster_writes_next_to_nothing_to_disk(make_cluster, held):
    cluster = make_cluster(5)
    if held:  # then a tick is logged every 10 s (S1.4)
        assert cluster.nodes[1].acquire("held", ttl_ms=3600000).json["acquired"]
    # Segments made ahead of need and the seal of the log come within a few seconds; then it is quiet.
    last = {}

    def is_quiet():
        now = {node.id: written(node) for node in cluster}
        if now != last.get("bytes"):
            last.update(bytes=now, since=time.monotonic())
        return time.monotonic() - last["since"] > 1.5

    wait_until(is_quiet, "it comes to rest")
    before = {node.id: (written(node), cpu_seconds(node)) for node in cluster}
    end = time.monotonic() + 3
    wait_until(lambda: time.monotonic() > end, "idle time")
    for node in cluster:
        bytes_before, cpu_before = before[node.id]
        assert written(node) - bytes_before <= 64 << 10, f"node {node.id}"
        assert cpu_seconds(node) - cpu_before < 0.3, "it sleeps"
