"""S3.3: a cluster that lost its majority becomes a new one, out of one node's folder, when its operator says
so and not before."""

import json
import os
import pty
import shutil

import pytest

from harness import PROGRAM, SANITIZED, Node, allowed, environment, free_ports, need_terminal, run, wait_until

RISE = 1 << 42  # C rises by 2^32, a token is C * 1024


def look(node):
    done = run("recover", "--data", node.folder, "--id", node.id, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def recover(node, *more, cluster=None, **options):
    cluster = cluster or f"{node.id}=127.0.0.1:{node.peer_port}"
    return run("recover", "--data", node.folder, "--id", node.id, "--cluster", cluster,
               *more, **options)


def sure(node, *more):
    done = recover(node, "--reason", "two disks burnt", "--actor", "ann",
                   "--confirm", look(node)["cluster_id"], *more)
    assert done.returncode == 0, done.stderr
    return done


def backup_of(node):
    found = list(node.folder.parent.glob(f"{node.folder.name}.before-*"))
    assert len(found) == 1, found
    return found[0]


def lose(cluster, ttl_ms):
    """Two of three nodes are lost; the third one is stopped."""
    assert cluster.nodes[1].acquire("kept", client="worker-7", ttl_ms=ttl_ms).json["acquired"]
    survivor = cluster.followers()[0]
    wait_until(lambda: survivor.request("GET", "/api/v1/locks/kept?stale=1").json["held"], "it knows")
    for node in cluster:
        node.kill()
    return survivor


@pytest.fixture
def lost(make_cluster):
    return lose(make_cluster(3), 600000)


def test_what_is_left_of_a_cluster_becomes_a_new_one(make_cluster):
    cluster = make_cluster(5)
    node = cluster.nodes[2]
    session = node.request("POST", "/api/v1/sessions", {"client_id": "app", "ttl_ms": 600000}).json
    first = node.acquire("billing", client="worker-7", ttl_ms=300000).json
    second = node.request("POST", "/api/v1/locks/report/acquire",
                      {"client_id": "app", "session_id": session["session_id"]}).json
    assert node.release("freed", node.acquire("freed").json["fencing_token"]).json["released"]
    before = second["fencing_token"]
    assert first["fencing_token"] < before
    lost_nodes = [n for n in cluster if n.id > 2]
    for other in lost_nodes:
        other.kill()
    survivors = [cluster.nodes[1], cluster.nodes[2]]
    wait_until(lambda: node.acquire("no").status == 503, "a minority refuses")
    for other in survivors:
        other.kill()

    seen = {other.id: look(other) for other in survivors}
    assert {s["cluster_id"] for s in seen.values()} == {seen[1]["cluster_id"]}
    assert [m["id"] for m in seen[1]["members"]] == [1, 2, 3, 4, 5]
    best = max(survivors, key=lambda n: (seen[n.id]["term"], seen[n.id]["index"]))
    # "no" may be among them: its outcome was unknown, and an entry that one node has may be committed.
    assert {lock["name"] for lock in seen[best.id]["first_locks"]} - {"no"} == {"billing", "report"}
    done = sure(best)
    assert "recovered" in done.stdout and str(backup_of(best)) in done.stdout

    best.flags = ["--cluster", f"{best.id}=127.0.0.1:{best.peer_port}", "--cluster-name", "test"]
    assert best.start().wait_ready() == best.id
    view = best.cluster()
    assert [m["id"] for m in view["members"]] == [best.id] and view["serving"]

    # Nobody holds anything any more; the names that were held are closed for the longest TTL.
    for name in ("billing", "report"):
        refused = best.acquire(name).json
        assert refused["acquired"] is False and refused["reason"] == "delayed", refused
    assert best.request("POST", f"/api/v1/sessions/{session['session_id']}/keepalive").status == 410
    assert best.release("billing", first["fencing_token"], "worker-7").json["released"] is False
    fresh = best.acquire("freed").json
    assert fresh["fencing_token"] > before + RISE - 1024
    trail = best.request("GET", "/api/v1/audit").json["records"]
    assert [(t["action"], t["actorId"], t["reason"]) for t in trail] == [
        ("RECOVER", "ann", "two disks burnt")]

    # A member of the old cluster comes back and is not let in.
    foreign = next(n for n in survivors if n is not best)
    foreign.start()
    wait_until(lambda: foreign.events("refused_by_peer") + foreign.events("peer_refused"),
               "it is notified that it belongs to another cluster")
    reasons = [e["reason"] for e in foreign.events("refused_by_peer") +
               foreign.events("peer_refused")]
    assert all("belongs to the cluster" in r for r in reasons), reasons
    assert foreign.acquire("never").status == 503
    foreign.kill()

    # Others join anew, with empty folders; ids of the old cluster are free again.
    shutil.rmtree(foreign.folder)
    members = f"{best.flags[1]},{foreign.id}=127.0.0.1:{foreign.peer_port}"
    foreign.flags = ["--cluster", members, "--cluster-name", "test", "--join"]
    foreign.start()
    added = best.request("POST", "/api/v1/members",
                     {"id": foreign.id, "address": f"127.0.0.1:{foreign.peer_port}"})
    assert added.status == 200, added
    wait_until(lambda: best.request("POST", f"/api/v1/members/{foreign.id}/promote").status == 200,
               "it has caught up")
    foreign.wait_ready()
    assert foreign.acquire("through-the-new-one").json["acquired"]


@pytest.mark.long
def test_the_lock_delay_ends_after_the_longest_ttl(make_cluster):
    ttl_ms = int(min(allowed(3), 20) * 1000)
    node = lose(make_cluster(3), ttl_ms)
    sure(node)
    node.flags = []
    node.start().wait_ready()
    assert node.acquire("kept").json["reason"] == "delayed"
    granted = node.request("POST", "/api/v1/locks/kept/acquire", timeout=60,
                       body={"client_id": "next", "wait_timeout_ms": 2 * ttl_ms}).json
    assert granted["acquired"], granted


def test_nothing_happens_without_a_confirmation(lost):
    node = lost
    before = look(node)
    for flags in ([], ["--confirm", "0" * 32], ["--confirm", ""]):
        done = recover(node, "--reason", "x", *flags)
        assert done.returncode == 64, done
        assert "recovered" not in done.stdout
    assert f"--confirm {before['cluster_id']}" in recover(node, "--reason", "x").stderr
    done = recover(node, "--confirm", before["cluster_id"])
    assert done.returncode == 64 and "--reason TEXT is missing" in done.stderr
    assert look(node) == before
    assert not list(node.folder.parent.glob(f"{node.folder.name}.*before*"))


def test_a_person_types_the_cluster_id(lost):
    need_terminal()
    node = lost
    cluster = look(node)["cluster_id"]

    def talk(answer):
        command = [PROGRAM, "recover", "--data", node.folder, "--id", node.id, "--cluster",
                   f"{node.id}=127.0.0.1:{node.peer_port}", "--reason", "fire"]
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(PROGRAM, [str(word) for word in command], environment())
        said = b""
        try:
            while b"to continue: " not in said:
                said += os.read(fd, 4096)
            os.write(fd, answer.encode() + b"\n")
            while piece := os.read(fd, 4096):
                said += piece
        except OSError:  # the other end of the terminal is closed
            pass
        os.close(fd)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode()

    code, said = talk("yes")
    assert code == 64 and "nothing was changed" in said
    code, said = talk(cluster)
    assert code == 0 and "is the only member of the new cluster" in said, said
    assert look(node)["cluster_id"] != cluster


def test_a_folder_in_use_is_refused(make_cluster):
    cluster = make_cluster(3)
    done = recover(cluster.nodes[1], "--reason", "x")
    assert done.returncode == 1
    assert "another process" in done.stderr, done.stderr
    assert cluster.nodes[1].acquire("still-works").json["acquired"]


def test_while_another_member_answers_it_is_refused(make_cluster):
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    node.kill()
    cluster_id = look(node)["cluster_id"]
    done = recover(node, "--reason", "x", "--confirm", cluster_id)
    assert done.returncode == 1
    for other in cluster.running():
        assert f"node {other.id} still answers at 127.0.0.1:{other.peer_port}" in done.stderr
    assert look(node)["cluster_id"] == cluster_id
    node.start().wait_ready()


def test_a_cluster_that_has_its_majority_is_not_recovered(make_cluster):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    node.kill()
    done = recover(node, "--reason", "x", "--confirm", look(node)["cluster_id"])
    assert done.returncode == 1 and "the only voter" in done.stderr


@pytest.mark.parametrize("flags, code, said", [
    (["--id", "1"], 64, "recover needs --data DIR"),
    (["--data", "DIR"], 64, "--id must be the id"),
    (["--data", "DIR", "--id", "one"], 64, "--id must be the id"),
    (["--data", "DIR", "--id", "1", "--cluster", "1=h:1,2=h:2"], 64, "name this node only"),
    (["--data", "DIR", "--id", "1", "--cluster", "2=h:1"], 64, "names node 2"),
    (["--data", "DIR", "--id", "1", "--cluster", "1=nonsense"], 64, "is not ID=HOST:PORT"),
    (["--data", "DIR", "--id", "1", "word"], 64, "unexpected argument"),
    (["--data", "DIR", "--id", "1", "--nonsense"], 64, "there is no such flag"),
    (["--data", "DIR", "--id", "1", "--force=yes"], 64, "takes no value"),
    (["--data", "/no/such/folder", "--id", "1"], 1, "there is no folder"),
    (["--data", "DIR", "--id", "1"], 1, "is not the data folder of a node"),
])
def test_nonsense_is_refused(tmp_path, flags, code, said):
    done = run("recover", *[tmp_path if f == "DIR" else f for f in flags])
    assert done.returncode == code and said in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


def test_another_nodes_folder_and_a_damaged_one_are_refused(lost):
    node = lost
    done = run("recover", "--data", node.folder, "--id", 77)
    assert done.returncode == 1 and f"belongs to node {node.id}" in done.stderr
    meta = node.folder / "meta"
    meta.write_bytes(bytes(len(meta.read_bytes())))
    done = run("recover", "--data", node.folder, "--id", node.id)
    assert done.returncode == 1 and "meta is damaged" in done.stderr


def test_into_another_folder_leaves_the_old_one(lost, keep, tmp_path):
    node = lost
    before = look(node)
    into = tmp_path / "new"
    sure(node, "--into", into)
    assert look(node) == before
    ports = free_ports(2)
    fresh = keep(Node(node.id, into, *ports))
    assert look(fresh)["cluster_id"] != before["cluster_id"]
    done = recover(node, "--reason", "x", "--confirm", before["cluster_id"], "--into", into)
    assert done.returncode == 1 and "is not empty" in done.stderr
    fresh.start().wait_ready()
    assert fresh.acquire("kept").json["reason"] == "delayed"


def test_a_recovery_that_did_not_end_is_noticed(lost):
    node = lost
    left = node.folder.with_name(node.folder.name + ".recovering")
    left.mkdir()
    done = recover(node, "--reason", "x", "--confirm", look(node)["cluster_id"])
    assert done.returncode == 1 and "from an interrupted recovery" in done.stderr
    left.rmdir()
    sure(node)


def test_a_full_disk_leaves_everything_as_it_was(lost):
    node = lost
    before = look(node)
    # A limit of the process stands for the disk: no file may grow beyond 1 MiB.
    done = recover(node, "--reason", "x", "--confirm", before["cluster_id"],
                   preexec_fn=lambda: limit_files(1 << 20))
    assert done.returncode == 1, done
    assert look(node) == before
    assert not node.folder.with_name(node.folder.name + ".recovering").exists()


def limit_files(size):
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


KILL_AT = PROGRAM.parent / "tests" / "support" / "kill_at.so"


@pytest.mark.skipif(SANITIZED or not KILL_AT.exists(), reason="needs kill_at.so, and no sanitizers")
@pytest.mark.long
def test_killed_at_any_point_there_is_the_old_folder_or_the_new_one(lost):
    """Before each of its syncs and renames in turn; each time the folder is whole, and one of the two."""
    node = lost
    old = look(node)
    left = node.folder.with_name(node.folder.name + ".recovering")
    killed = swapped = 0
    for at in range(1, 500):
        done = recover(node, "--reason", "x", "--confirm", old["cluster_id"],
                       env=environment(LD_PRELOAD=KILL_AT, KILL_AT=at))
        seen = look(node)
        if done.returncode == 0:
            break
        assert done.returncode == -9, done
        killed += 1
        if seen["cluster_id"] == old["cluster_id"]:
            assert seen == old
            shutil.rmtree(left, ignore_errors=True)
            continue
        # The new one is in place; the old one has its last name, or not yet.
        swapped += 1
        assert seen["grants"] == 0 and seen["index"] == old["index"] + 1
        shutil.rmtree(node.folder)
        (left if left.exists() else backup_of(node)).rename(node.folder)
        assert look(node) == old
    assert done.returncode == 0 and killed > 20 and swapped >= 2, (killed, swapped, done)
    assert seen["cluster_id"] != old["cluster_id"]
    node.flags = []
    node.start().wait_ready()
    assert node.acquire("kept").json["reason"] == "delayed"
