"""Do the nodes agree? Their logs entry by entry, their lists of members, and at the end their states byte by byte.
What is wrong comes as sentences, as in history.py."""

import signal
import struct
import subprocess

from harness import PROGRAM, allowed, wait_until

LOGDUMP = PROGRAM.parent / "tests" / "chaos" / "logdump"
ENTRY = struct.Struct("<QQQ")
SHOWN = 5  # differences of one node are alike


class Entries:
    """All entries that were ever seen in a log. Two with one index and one term are equal, on whatever node, committed
    or not: that is what makes logs comparable by their last entry."""

    def __init__(self):
        self.seen = {}  # (index, term) -> (digest, node)

    def check(self, node, entries):
        """`entries`: (index, term, digest) of one node's log."""
        wrong = []
        for index, term, digest in entries:
            first, other = self.seen.setdefault((index, term), (digest, node))
            if first != digest:
                wrong.append(f"entry {index} of term {term} is not the same in the logs of node {other} and node {node}")
        return wrong[:SHOWN] + ([f"and {len(wrong) - SHOWN} more entries of node {node}"] if len(wrong) > SHOWN else [])


def read_log(folder):
    done = subprocess.run([LOGDUMP, folder], check=True, capture_output=True)
    return list(ENTRY.iter_unpack(done.stdout))


def check_logs(entries, nodes):
    return [text for node in nodes if node.folder.exists() for text in entries.check(node.id, read_log(node.folder))]


def members_of(node):
    """{id: whether it votes} and whether a change is under way; None: it does not answer."""
    view = node.cluster()
    if view is None:
        return None
    return {member["id"]: member["voter"] for member in view["members"]}, view["members_changing"]


def check_members(nodes, seconds):
    """All have one list of members, and those are these nodes."""
    lists = {}

    def same():
        lists.update({node.id: members_of(node) for node in nodes})
        first = lists[nodes[0].id]
        return (first is not None and not first[1] and set(first[0]) == {node.id for node in nodes}
                and all(lists[node.id] == first for node in nodes))

    try:
        wait_until(same, lambda: f"one list of members on all nodes: {lists}", allowed(seconds))
    except AssertionError as problem:
        return [str(problem)]
    return []


def check_states(nodes, seconds):
    """All take a snapshot of the same entry, once nobody changes anything: its bytes are the same."""
    newest = {}

    def same():
        for node in nodes:
            node.signal(signal.SIGUSR1)
        newest.update({node.id: max(node.folder.glob("snapshot-*[0-9]"), default=None) for node in nodes})
        names = {path and path.name for path in newest.values()}
        return len(names) == 1 and None not in names

    try:
        wait_until(same, lambda: f"snapshots of one entry: {newest}", allowed(seconds))
    except AssertionError as problem:
        return [str(problem)]
    states = {ident: path.read_bytes() for ident, path in newest.items()}
    first = nodes[0].id
    return [f"the states of node {first} and node {ident} differ, both are of {newest[first].name}"
            for ident, state in states.items() if state != states[first]]
