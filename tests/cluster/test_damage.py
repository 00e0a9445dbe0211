"""Files that are damaged or cut short are named, never loaded in silence, and left as they are (S12)."""

import pytest


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0x5A
    path.write_bytes(data)


def cut(path, size):
    with open(path, "r+b") as file:
        file.truncate(size)


def newest(folder, pattern):
    return max(folder.glob(pattern))


def segment(folder):
    """A segment of the log that holds something; not one made ahead of need."""
    return min(folder.glob("log-*"))


DAMAGE = {
    "the head of a segment": (segment, lambda path: flip(path, 20)),
    "a record in the middle of the log": (segment, lambda path: flip(path, 4096 + 2000)),
    "a segment cut short": (segment, lambda path: cut(path, 4096 + 1000)),
    "an empty segment": (segment, lambda path: cut(path, 0)),
    "a byte of a snapshot": (lambda f: newest(f, "snapshot-*[0-9]"),
                             lambda path: flip(path, path.stat().st_size // 2)),
    "a snapshot cut short": (lambda f: newest(f, "snapshot-*[0-9]"),
                             lambda path: cut(path, path.stat().st_size - 10)),
    "term and vote": (lambda f: f / "meta", lambda path: path.write_bytes(bytes(path.stat().st_size))),
}


def sizes(folder):
    """Of all files but the lock, which has the number of the last process that tried."""
    return {path.name: path.stat().st_size for path in folder.iterdir() if path.name != "lock"}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_named(make_cluster, what):
    choose, damage = DAMAGE[what]
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    for i in range(60):
        assert node.acquire(f"name-{i}", ttl_ms=600000).json["acquired"]
    if "snapshot" in what:
        node.take_snapshot()
    assert node.stop() == 0
    path = choose(node.folder)
    damage(path)
    files = sizes(node.folder)
    bytes_before = path.read_bytes()
    lines = len(node.log().splitlines())
    node.start()
    assert node.wait_end() == 1, "it does not start"
    said = "\n".join(node.log().splitlines()[lines:])
    print(said)
    assert said.startswith("holdfast: ") and path.name in said, said
    assert any(word in said for word in ("damaged", "cut off", "was cut")), said
    assert path.read_bytes() == bytes_before
    if "Nothing was changed" in said:
        assert sizes(node.folder) == files


def test_one_damaged_node_of_three_is_replaced_by_the_others_word(make_cluster):
    cluster = make_cluster(3)
    victim = cluster.followers()[0]
    for i in range(30):
        assert cluster.nodes[1].acquire(f"name-{i}", ttl_ms=600000).json["acquired"]
    assert victim.stop() == 0
    flip(segment(victim.folder), 4096 + 1000)
    victim.start()
    assert victim.wait_end() == 1
    assert "remove this node from the cluster and add it under a new id" in victim.log()
    assert cluster.running()[0].acquire("goes-on").json["acquired"]
