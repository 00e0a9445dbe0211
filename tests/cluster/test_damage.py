"""Files that are damaged or cut short are named, never loaded in silence, and left as they are (S12)."""

import json
import struct

import pytest

PAGE, RECORD = 4096, 48


def records(path):
    """Where the records of a segment begin and end; reported by the salt of the first."""
    data, at, found = path.read_bytes(), PAGE, []
    salt = data[PAGE + 44:PAGE + 48]
    while salt != bytes(4) and data[at + 44:at + 48] == salt:
        (size,) = struct.unpack_from("<I", data, at + 8)
        found.append((at, at + RECORD + (size + 7) // 8 * 8))
        at = found[-1][1]
    return found


def overwrite(path, at, new):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(new)


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


def last_entry(folder):
    """The segment with the end of the log, and where its last record lies."""
    used = [path for path in sorted(folder.glob("log-*")) if records(path)]
    return used[-1], records(used[-1])[-1]


def killed_node_with_a_lock(make_cluster):
    """A single node that was killed right after it answered, before it seals its log."""
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    for i in range(5):
        assert node.acquire(f"name-{i}", ttl_ms=600000).json["acquired"]
    node.kill()
    return node


def test_a_changed_byte_of_the_last_record_is_damage(make_cluster):
    """It was acknowledged: to start without it would take a grant back."""
    node = killed_node_with_a_lock(make_cluster)
    path, (start, end) = last_entry(node.folder)
    good = path.read_bytes()
    files = sizes(node.folder)
    for at in (start, start + 9, start + 17, start + 45, start + RECORD, end - 20):
        flip(path, at)
        lines = len(node.log().splitlines())
        node.start()
        assert node.wait_end() == 1, f"byte {at} of {path.name} was changed, and it starts"
        said = "\n".join(node.log().splitlines()[lines:])
        assert f"{path.name} is damaged at offset {start}" in said, said
        assert "remove this node from the cluster and add it under a new id" in said, said
        assert sizes(node.folder) == files
        path.write_bytes(good)
    node.start()
    node.wait_ready()
    assert not node.acquire("name-4").json["acquired"], "the files are back, and so is the lock"


def dropped(node, lines):
    found = [json.loads(line) for line in node.log().splitlines()[lines:]
             if "log_tail_dropped" in line]
    assert len(found) <= 1
    return found[0] if found else None


def test_an_unfinished_last_write_is_dropped_and_logged(make_cluster):
    node = killed_node_with_a_lock(make_cluster)
    path, (start, end) = last_entry(node.folder)
    sector = (start // 512 + 1) * 512
    if sector >= end:  # all of it in one sector: what is left of it are its first bytes
        sector = start + RECORD
    overwrite(path, sector, bytes(end - sector))
    lines = len(node.log().splitlines())
    node.start()
    node.wait_ready()
    line = dropped(node, lines)
    assert line is not None, node.log()
    assert line["level"] == "warn" and line["segment"] == path.name, line
    assert line["offset"] == start and line["bytes"] >= sector - start, line
    assert line["first_index"] == line["last_index"] > 1, line
    assert node.acquire("name-3").json["acquired"] is False, "what was before it is there"


def test_a_log_that_ends_with_a_whole_write_drops_nothing(make_cluster):
    node = killed_node_with_a_lock(make_cluster)
    lines = len(node.log().splitlines())
    node.start()
    node.wait_ready()
    assert dropped(node, lines) is None
    assert not node.acquire("name-4").json["acquired"]
