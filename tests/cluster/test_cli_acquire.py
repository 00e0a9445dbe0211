"""`holdfast acquire`, `renew`, `release` and `session`: locks of scripts that cannot be wrapped. Their exit codes,
their output for a shell, lost answers, dead nodes, signals."""

import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from cli_support import cluster, endpoints, good, run_cli  # noqa: F401  (a fixture)
from harness import PATIENCE, PROGRAM, ROOT, allowed, environment, run, wait_until


class LosesAnswers:
    """Between clients and one node: forwards the request of the first connections, and closes them when the answer
    arrives."""

    def __init__(self, target, count=1):
        self.target = target
        self.left = count
        self.lost = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client, socket.create_connection(("127.0.0.1", self.target)) as node:
                request = client.recv(65536)
                node.sendall(request)
                answer = node.recv(65536)
                if self.left > 0:
                    self.left -= 1
                    self.lost.append(answer)
                    continue
                while answer:
                    client.sendall(answer)
                    answer = node.recv(65536)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def sh(nodes, script, shell="sh", **env):
    """A script with `holdfast` in its PATH."""
    return subprocess.run([shell, "-c", script], text=True, capture_output=True, timeout=60, check=False,
                          env=environment(HOLDFAST_ENDPOINTS=endpoints(nodes), PATH=os.path.dirname(PROGRAM) + ":"
                                          + os.environ["PATH"], **env))


def acquired(nodes, *arguments, **env):
    return json.loads(good(nodes, "acquire", "--json", *arguments, **env))


def grants(node, name):
    return [row for row in json.loads(good([node], "history", name, "--json"))["holds"]]


def start(nodes, *arguments):
    return subprocess.Popen([PROGRAM, "acquire", *arguments], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environment(HOLDFAST_ENDPOINTS=endpoints(nodes)))


# --- output for a shell ---------------------------------------------------------

@pytest.mark.sanitized
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_a_script_holds_a_lock_over_several_steps(cluster, shell):
    name = f"it's $HOME `id` {shell}"
    done = sh(cluster, f"""
        set -e
        lock=$(holdfast acquire -n "$NAME" --ttl 60s)
        eval "$lock"
        printf '%s\\n' "$HOLDFAST_LOCK"
        ! holdfast acquire -n "$NAME" >/dev/null 2>&1
        eval "$(holdfast renew --ttl 50s)"
        uptime=$(cut -d' ' -f1 /proc/uptime)
        echo "$HOLDFAST_UNTIL $uptime"
        env | grep -c '^HOLDFAST_LEASE='
        holdfast release
        holdfast acquire -n "$NAME" --ttl 1s >/dev/null
    """, shell=shell, NAME=name)
    assert done.returncode == 0 and done.stderr == "", done
    printed, times, exported = done.stdout.splitlines()
    until, uptime = map(float, times.split())
    assert printed == name and exported == "1"
    assert 45 < until - uptime <= 50, "the new TTL, as seconds since the machine's start"


def test_eval_of_a_failure_fails_with_its_code(cluster):
    acquired(cluster, "refused", "--client", "worker-7")
    done = sh(cluster, 'eval "$(holdfast acquire -n refused 2>/dev/null)"; echo $?')
    assert done.stdout == "75\n", done
    done = sh(cluster, 'set -e; eval "$(holdfast acquire -n refused 2>/dev/null)"; echo never')
    assert done.returncode == 75 and done.stdout == "", done
    done = sh(cluster, 'eval "$(holdfast renew hf1.1024.$(printf %032d 7) 2>/dev/null)"; echo $?')
    assert done.stdout == "79\n", done


def test_json_has_the_lease_and_the_token(cluster):
    got = acquired(cluster, "json/one", "json/two", "--ttl", "40s")
    assert got["acquired"] and got["names"] == ["json/one", "json/two"] and got["tier"] == "CORRECTNESS"
    assert got["lease"].startswith(f"hf1.{got['fencing_token']}.") and 39000 < got["safe_for_ms"] < 40000
    shown = cluster.nodes[1].show("json/two").json["holders"][0]
    assert shown["metadata"]["pid"] == os.getpid() and shown["client_id"].endswith(f"/{os.getpid()}")
    held = run_cli(cluster, "acquire", "-n", "--json", "json/two")
    assert held.returncode == 75 and json.loads(held.stdout)["holder"]["client_id"] == shown["client_id"]
    assert json.loads(good(cluster, "renew", got["lease"], "--json"))["renewed"]
    assert json.loads(good(cluster, "release", got["lease"], "--json"))["released"]
    assert not cluster.nodes[1].show("json/one").json["held"]


@pytest.mark.parametrize("number", [0, 1])
def test_the_scripts_of_the_operations_page_run(cluster, number, tmp_path):
    text = (ROOT / "docs" / "OPERATION.md").read_text(encoding="utf-8").partition("\n## Locks of scripts\n")[2]
    script = text.split("```")[2 * number + 1]
    assert "holdfast acquire" in script
    for name in ("migrate", "restart_servers"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@"\n', encoding="ascii")
        (tmp_path / name).chmod(0o755)
    done = sh(cluster, f"PATH=$PATH:{tmp_path}\n{script}")
    assert done.returncode == 0 and done.stderr == "", done
    if number == 0:
        assert done.stdout.startswith("migrate --fencing-token ") and "restart_servers" in done.stdout
    for name in ("deploy/web", "db/orders", "cache/orders"):
        assert not cluster.nodes[1].show(name).json["held"]


# --- exit codes -----------------------------------------------------------------

@pytest.mark.parametrize("line, said", [
    ("acquire", "NAME is missing"),
    ("acquire x -s -x", "cannot be combined"),
    ("acquire x --permits 2", "--permits needs --limit"),
    ("acquire x y -s", "only be acquired as exclusive"),
    ("acquire x --ttl 0", "--ttl"),
    ("acquire x --ttl soon", "--ttl"),
    ("acquire x --waits 1s", "--waits"),
    ("renew --ttl soon", "--ttl"),
    ("session open --ttl soon", "--ttl"),
    ("acquire x -E 256", "-E"),
    ("acquire x -E 0", "-E"),
    ("acquire x --tier fast", "--tier must be"),
    ("acquire x --request-id " + "r" * 65, "at most 64"),
    ("renew", "LEASE is missing"),
    ("renew nonsense", "is not a lease"),
    ("renew hf1.12.Z", "is not a lease"),
    ("release hf1.99999999999999999999999.aa", "is not a lease"),
    ("session", "an argument is missing"),
    ("session begin", "is not open, renew or close"),
    ("session close", "SESSION is missing"),
    ("session renew ../cluster", "SESSION is missing or is no session id"),
])
def test_wrong_usage_is_64(line, said):
    done = run(*line.split())
    assert done.returncode == 64 and said in done.stderr, done
    for_eval = not line.startswith(("release", "session close"))  # `eval` of no text would succeed
    assert done.stdout == ("(exit 64)\n" if for_eval else ""), done


@pytest.mark.sanitized
def test_not_acquired_is_75_and_says_who_holds_it(cluster):
    acquired(cluster, "taken", "--client", "worker-7", "--ttl", "60s")
    done = run_cli(cluster, "acquire", "-n", "taken")
    assert done.returncode == 75 and "taken was not acquired (held): held by worker-7 since" in done.stderr, done
    assert done.stdout == "(exit 75)\n"
    assert run_cli(cluster, "acquire", "-n", "-E", "3", "taken").returncode == 3
    done = run_cli(cluster, "acquire", "-w", "0.3", "taken")
    assert done.returncode == 75 and "(timeout)" in done.stderr, done
    done = run_cli(cluster, "acquire", "-n", "--limit", "2", "taken")
    assert done.returncode == 75 and "mode_mismatch" in done.stderr, done


def test_a_name_that_is_none_is_64(cluster):
    done = run_cli(cluster, "acquire", "a//b")
    assert done.returncode == 64 and "invalid_name" in done.stderr, done


def test_unreachable_is_69():
    for line in ("acquire x", "acquire -n x", "renew hf1.1024.aa", "release hf1.1024.aa", "session open"):
        begun = time.monotonic()
        done = run(*line.split(), "--endpoints", "127.0.0.1:1", "--timeout", "1s")
        assert done.returncode == 69 and "127.0.0.1:1" in done.stderr, done
        assert time.monotonic() - begun < allowed(6)


@pytest.mark.sanitized
def test_a_lease_that_expired_is_79(cluster):
    got = acquired(cluster, "short", "--ttl", "1s")
    wait_until(lambda: not cluster.nodes[1].show("short").json["held"], "it expires")
    for command, what in (("renew", "the renewal"), ("release", "the release")):
        done = run_cli(cluster, command, HOLDFAST_LEASE=got["lease"], HOLDFAST_LOCK="short")
        assert done.returncode == 79, done
        assert f"short was lost (expired) before {what}; another client may hold it now" in done.stderr, done
    forced = acquired(cluster, "short")
    good(cluster, "force-unlock", "short", "--reason", "test")
    done = run_cli(cluster, "renew", HOLDFAST_LEASE=forced["lease"])
    assert done.returncode == 79 and "lost (forced)" in done.stderr, done


def test_released_twice_is_no_error_and_renewed_after_it_is_79(cluster):
    lease = acquired(cluster, "twice")["lease"]
    good(cluster, "release", lease)
    good(cluster, "release", lease)
    done = run_cli(cluster, "renew", lease)
    assert done.returncode == 79 and "was released before" in done.stderr, done


# --- lost answers, dead nodes ---------------------------------------------------

@pytest.mark.sanitized
def test_a_lost_answer_is_repeated_and_gives_one_grant(cluster):
    node = cluster.nodes[1]
    with LosesAnswers(node.client_port, 2) as proxy:
        reach = f"{proxy.address},127.0.0.1:{cluster.nodes[2].client_port},{proxy.address}"
        got = json.loads(good([], "acquire", "--json", "answers", "--endpoints", proxy.address))
        assert len(proxy.lost) == 2 and b'"acquired":true' in proxy.lost[0], "the lock was granted each time"
        assert f'"fencing_token":{got["fencing_token"]}'.encode() in proxy.lost[0]
        proxy.left = 1
        good([], "release", got["lease"], "--endpoints", reach)
        assert len(proxy.lost) == 3 and b'"released":true' in proxy.lost[2]
        proxy.left = 1
        session = json.loads(good([], "session", "open", "--json", "--endpoints", proxy.address))["session_id"]
        assert session.encode() in proxy.lost[3]
        proxy.left = 1
        good([], "session", "close", session, "--endpoints", proxy.address)
    assert len(grants(node, "answers")) == 1


def test_the_same_request_id_after_a_crash_gives_the_same_lock(cluster):
    first = acquired(cluster, "crash", "--request-id", "run-17")
    again = acquired(cluster, "crash", "--request-id", "run-17")
    assert again["lease"] == first["lease"]
    other = run_cli(cluster, "acquire", "-n", "crash", "--request-id", "run-18")
    assert other.returncode == 75, other
    good(cluster, "release", first["lease"])


def test_the_leader_is_killed_between_acquire_and_renew(make_cluster):
    nodes = make_cluster(3)
    got = acquired(nodes, "survives", "--ttl", "60s")
    leader = nodes.leader()
    leader.kill()
    done = run_cli(nodes, "renew", "--json", HOLDFAST_LEASE=got["lease"])
    assert done.returncode == 0 and json.loads(done.stdout)["safe_for_ms"] > 50000, done
    good(nodes, "release", got["lease"])


def test_a_node_that_dies_or_hangs_does_not_end_the_wait(make_cluster):
    nodes = make_cluster(3)
    holder = acquired(nodes, "waited", "--ttl", "300s")
    other = nodes.followers()[0]
    alive = [node for node in nodes if node is not other]
    waiter = start([other, *alive], "waited", "--ttl", "20s", "--json")
    wait_until(lambda: alive[0].show("waited").json["queue_length"] == 1, "it waits")
    other.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(12)  # longer than the place in the queue stays after the node was given up
        assert alive[0].show("waited").json["queue_length"] == 1
        good(alive, "release", holder["lease"])
        out, said = waiter.communicate(timeout=PATIENCE)
    finally:
        other.process.send_signal(signal.SIGCONT)
    got = json.loads(out)
    assert waiter.returncode == 0 and got["waited_ms"] > 11000, said
    # The TTL began with the grant, and the deadline is that of a renewal after it (S5.1).
    assert got["safe_for_ms"] > 15000, got
    good(alive, "release", got["lease"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_withdraws_the_request(cluster, number):
    node = cluster.nodes[1]
    holder = acquired(cluster, "busy")
    waiter = start(cluster, "busy")
    wait_until(lambda: node.show("busy").json["queue_length"] == 1, "it waits")
    waiter.send_signal(number)
    out, said = waiter.communicate(timeout=PATIENCE)
    assert waiter.returncode == 128 + number and "ended by a signal" in said and out == f"(exit {128 + number})\n"
    assert node.show("busy").json["queue_length"] == 0
    good(cluster, "release", holder["lease"])
    assert not node.show("busy").json["held"]


def test_output_that_cannot_be_written_releases_the_lock(cluster):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([PROGRAM, "acquire", "full"], stdout=full, stderr=subprocess.PIPE, text=True,
                              check=False, env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster)))
    assert done.returncode == 70 and "the lock is released" in done.stderr, done
    assert not cluster.nodes[1].show("full").json["held"]


# --- sessions -------------------------------------------------------------------

@pytest.mark.sanitized
def test_one_session_holds_the_locks_of_several_steps(cluster):
    done = sh(cluster, """
        set -e
        eval "$(holdfast session open --ttl 60s)"
        eval "$(holdfast acquire -n steps/one)"
        eval "$(holdfast acquire -n steps/two --ttl 40s)"
        holdfast sessions "$HOLDFAST_SESSION" --json
        eval "$(holdfast session renew)"
        holdfast session close
        holdfast session close
    """)
    assert done.returncode == 0 and done.stderr == "", done
    assert [row["name"] for row in json.loads(done.stdout)["locks"]] == ["steps/one", "steps/two"]
    assert not cluster.nodes[1].show("steps/two").json["held"]


def test_a_session_that_ended_is_79_and_its_locks_are_free(cluster):
    session = json.loads(good(cluster, "session", "open", "--ttl", "1s", "--json"))["session_id"]
    lease = acquired(cluster, "brief", HOLDFAST_SESSION=session)["lease"]
    wait_until(lambda: not cluster.nodes[1].show("brief").json["held"], "the session expires")
    for line in (("session", "renew"), ("session", "close"), ("acquire", "brief")):
        done = run_cli(cluster, *line, HOLDFAST_SESSION=session)
        assert done.returncode == 79 and "session_expired" in done.stderr, done
    assert run_cli(cluster, "renew", lease).returncode == 79
    # Without the session of the environment.
    got = acquired(cluster, "brief", "--session", "", HOLDFAST_SESSION=session)
    good(cluster, "release", got["lease"])


def test_shared_locks_semaphores_and_the_fast_tier(cluster):
    shared = [acquired(cluster, "-s", "many")["lease"] for _ in range(2)]
    slots = [acquired(cluster, "--limit", "2", "pool") for _ in range(2)]
    assert sorted(got["slot"] for got in slots) == [0, 1]
    assert run_cli(cluster, "acquire", "-n", "--limit", "2", "pool").returncode == 75
    fast = acquired(cluster, "--tier", "efficiency", "quick")
    assert fast["tier"] == "EFFICIENCY"
    for lease in (*shared, *(got["lease"] for got in slots), fast["lease"]):
        good(cluster, "renew", lease)
        good(cluster, "release", lease)


# --- holdfast lock --linger ------------------------------------------------------

def lingering(nodes, tmp_path, *arguments, code=0, **options):
    ended = tmp_path / "ended"
    ended.unlink(missing_ok=True)
    process = subprocess.Popen([PROGRAM, "lock", "--ttl", "3s", *arguments, "job", "--", "sh", "-c",
                                f"touch {ended}; exit {code}"], text=True, stderr=subprocess.PIPE,
                               env=environment(HOLDFAST_ENDPOINTS=endpoints(nodes)), **options)
    wait_until(ended.exists, "the command runs")
    return process


def test_linger_keeps_the_lock_after_the_command_and_its_exit_code(cluster, tmp_path):
    begun = time.monotonic()
    process = lingering(cluster, tmp_path, "--linger", "2s", code=5)
    assert run_cli(cluster, "lock", "-n", "job", "--", "true").returncode == 75, "a late machine finds it held"
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 5 and said == "" and time.monotonic() - begun >= 2
    assert not cluster.nodes[1].show("job").json["held"]
    # Longer than the TTL: it is renewed.
    process = lingering(cluster, tmp_path, "--linger", "4s")
    assert process.wait(timeout=PATIENCE) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_linger_and_the_exit_code_stays(cluster, tmp_path, number):
    process = lingering(cluster, tmp_path, "--linger", "100s", code=7)
    time.sleep(0.5)  # the command has ended, and no event says so
    process.send_signal(number)
    assert process.wait(timeout=PATIENCE) == 7
    assert not cluster.nodes[1].show("job").json["held"], "released, not left to its TTL"
    process.stderr.close()


def test_a_loss_while_lingering_is_reported_and_the_exit_code_stays(cluster, tmp_path):
    ours, theirs = os.pipe()
    process = lingering(cluster, tmp_path, "--linger", "100s", "--status-fd", str(theirs), code=3,
                        pass_fds=[theirs])
    os.close(theirs)
    time.sleep(0.5)
    good(cluster, "force-unlock", "job", "--reason", "test", "--now")
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 3 and "lost (forced" in said and "before --linger was over" in said, said
    with os.fdopen(ours) as status:
        line = json.loads(status.read())
    assert line["lost"] and line["child_exit"] == 3 and line["reason"] == "forced", line


def test_a_revocation_ends_the_linger(cluster, tmp_path):
    process = lingering(cluster, tmp_path, "--linger", "100s")
    time.sleep(0.5)
    good(cluster, "revoke", "job", "--reason", "test", "--deadline", "60s")
    assert process.wait(timeout=PATIENCE) == 0
    assert not cluster.nodes[1].show("job").json["held"]
    process.stderr.close()


def test_a_command_that_cannot_be_run_does_not_linger(cluster, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    begun = time.monotonic()
    assert run_cli(cluster, "lock", "--linger", "100s", "job", "--", script).returncode in (126, 127)
    assert time.monotonic() - begun < allowed(10)
