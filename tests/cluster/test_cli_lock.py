"""`holdfast lock`: flock(1)'s habits and the contract of exit codes. What happens when the lock is lost
is in test_cli_lost.py."""

import json
import os
import signal
import subprocess
import threading
import time

import pytest

from cli_support import run_cli, cluster, endpoints, good  # noqa: F401  (a fixture)
from harness import PROGRAM, allowed, environment, run, wait_until


def node(cluster):
    return cluster.nodes[1]


def lock(cluster, *arguments, **options):
    return run_cli(cluster, "lock", *arguments, **options)


def start(cluster, *arguments, **options):
    return subprocess.Popen([PROGRAM, "lock", *map(str, arguments)],
                            env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster)), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def held(cluster, name):
    return node(cluster).show(name).json["held"]


def status_of(cluster, *arguments):
    """The exit code and the line of --status-fd."""
    ours, theirs = os.pipe()
    process = start(cluster, "--status-fd", theirs, *arguments, pass_fds=[theirs])
    os.close(theirs)
    with os.fdopen(ours) as status:
        line = status.read()
    process.communicate()
    assert line.count("\n") == 1
    return process.returncode, json.loads(line)


# --- exit codes ---------------------------------------------------------------

@pytest.mark.parametrize("code", [0, 1, 7, 64, 75, 79, 126, 255])
def test_the_exit_code_is_the_commands_own(cluster, code):
    done = lock(cluster, "code", "--", "sh", "-c", f"exit {code}")
    assert done.returncode == code and done.stderr == "", done
    assert not held(cluster, "code")


@pytest.mark.sanitized
def test_death_by_a_signal_is_128_and_its_number(cluster):
    assert lock(cluster, "code", "--", "sh", "-c", "kill -9 $$").returncode == 137
    assert lock(cluster, "code", "--", "sh", "-c", "kill -TERM $$").returncode == 143


@pytest.mark.parametrize("line, said", [
    ("x", "COMMAND is missing"),
    ("-- true", "NAME is missing"),
    ("", "NAME is missing"),
    ("x -s -x -- true", "cannot be combined"),
    ("x --permits 2 -- true", "--permits needs --limit"),
    ("x --limit 2 --permits 3 -- true", "--permits must not be more than --limit"),
    ("x y -s -- true", "only be acquired as exclusive"),
    ("x --ttl 0 -- true", "--ttl: must be"),
    ("x --ttl 2s --kill-after 3s -- true", "--kill-after: must be at most half"),
    ("x -w soon -- true", "is not a duration"),
    ("x -E 256 -- true", "from 0 to 255"),
    ("x --status-fd 77 -- true", "77 is not open"),
    ("x -c true -- true", "-c and a COMMAND cannot be combined"),
    ("x --no-such-flag -- true", "there is no such flag"),
])
def test_wrong_usage_is_64(line, said):
    done = run("lock", *line.split())
    assert done.returncode == 64 and said in done.stderr, done


def test_a_name_that_is_none_is_64(cluster):
    done = lock(cluster, "a//b", "--", "true")
    assert done.returncode == 64 and done.stderr.startswith("holdfast: "), done


def test_unreachable_is_69():
    done = run("lock", "--endpoints", "127.0.0.1:1", "--timeout", "1s", "x", "--", "echo", "never")
    assert done.returncode == 69, done
    assert "127.0.0.1:1" in done.stderr and "`holdfast dev`" in done.stderr and done.stdout == ""


def test_without_waiting_an_endpoint_that_refuses_is_69_before_the_timeout():
    begun = time.monotonic()
    done = run("lock", "--endpoints", "127.0.0.1:1", "--timeout", "20s", "-n", "x", "--", "echo", "never")
    assert done.returncode == 69 and done.stdout == "", done
    assert "no endpoint answered: tried 127.0.0.1:1 (" in done.stderr and "`holdfast dev`" in done.stderr
    assert time.monotonic() - begun < allowed(5)


def test_without_a_majority_it_says_what_status_says_and_does_not_wait_for_it(make_cluster):
    lonely = make_cluster(3)
    keep = lonely.nodes[1]
    for other in (lonely.nodes[2], lonely.nodes[3]):
        other.process.kill()
        other.process.wait()
    wait_until(lambda: not keep.cluster()["serving"], "it notices")
    words = run_cli([keep], "status").stderr.removeprefix("holdfast: ").strip()
    for line in ("lock -n x -- echo never", "lock -w 0 x -- echo never", "elect -n x -- echo never"):
        begun = time.monotonic()
        done = run_cli([keep], *line.replace(" x", " --timeout 20s x", 1).split())
        assert time.monotonic() - begun < allowed(5), "it knows after a second"
        assert done.returncode == 69 and done.stdout == "", done
        assert words in done.stderr and "holdfast dev" not in done.stderr, done
    # Who waits for the lock waits for a majority, as long as --timeout allows.
    begun = time.monotonic()
    done = run_cli([keep], "lock", "--timeout", "3s", "x", "--", "echo", "never")
    assert time.monotonic() - begun >= 3
    assert done.returncode == 69 and words in done.stderr and "holdfast dev" not in done.stderr, done


@pytest.mark.sanitized
def test_not_acquired_is_75_and_says_who_holds_it(cluster):
    token = node(cluster).acquire("taken", client="worker-7").json["fencing_token"]
    done = lock(cluster, "-n", "taken", "--", "echo", "never")
    assert done.returncode == 75 and done.stdout == "", done
    assert "taken was not acquired (held): held by worker-7" in done.stderr
    assert lock(cluster, "-n", "-E", "3", "taken", "--", "true").returncode == 3
    done = lock(cluster, "-n", "-E", "0", "--linger", "1h", "taken", "--", "echo", "never")
    assert done.returncode == 0 and done.stdout == "" and "held by worker-7" in done.stderr, done
    assert lock(cluster, "-w", "0", "taken", "--", "true").returncode == 75
    done = lock(cluster, "-w", "0.3", "taken", "--", "true")
    assert done.returncode == 75 and "(timeout)" in done.stderr, done
    node(cluster).release("taken", token, client="worker-7")


def test_126_and_127_are_checked_before_anything_is_locked(cluster, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("data")
    node(cluster).acquire("busy", client="other")
    for command, code in ((plain, 126), (tmp_path, 126), (tmp_path / "nothing", 127),
                          ("no-such-command-at-all", 127)):
        done = lock(cluster, "busy", "--", command)  # would wait for ever
        assert done.returncode == code and "no lock was requested" in done.stderr, done


def test_a_script_that_its_interpreter_cannot_run_is_126_or_127_and_gives_the_lock_back(cluster, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert lock(cluster, "script", "--", script).returncode in (126, 127)
    assert not held(cluster, "script")
    script.write_text("echo without a first line; exit 4\n")
    done = lock(cluster, "script", "--", script)
    assert done.returncode == 4 and "first line" in done.stdout


@pytest.mark.sanitized
def test_the_status_line_tells_our_codes_from_the_childs(cluster):
    code, line = status_of(cluster, "status", "--", "sh", "-c", "exit 75")
    assert code == 75
    assert line["acquired"] and line["token"] > 0 and not line["lost"] and line["child_exit"] == 75
    node(cluster).acquire("status", client="other")
    code, line = status_of(cluster, "-n", "status", "--", "true")
    assert code == 75
    assert line == {"acquired": False, "token": None, "lost": False, "child_exit": None, "reason": "held"}


# --- habits -------------------------------------------------------------------

def test_input_output_and_environment_pass_through(cluster):
    done = subprocess.run([PROGRAM, "lock", "io/a", "--", "sh", "-c",
                           "cat; echo $HOLDFAST_LOCK $HOLDFAST_TOKEN >&2"],
                          input="through and through", capture_output=True, text=True, check=True,
                          env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster)))
    assert done.stdout == "through and through"
    name, token = done.stderr.split()
    assert name == "io/a" and int(token) > 0


def test_tokens_rise(cluster):
    tokens = [int(good(cluster, "lock", "rise", "--", "sh", "-c", "echo $HOLDFAST_TOKEN"))
              for _ in range(5)]
    assert tokens == sorted(set(tokens))


def test_the_ways_of_flock_work(cluster):
    assert good(cluster, "lock", "-n", "flock", "printf", "%s", "-n") == "-n"
    assert good(cluster, "lock", "-x", "flock", "-c", "echo one; echo two") == "one\ntwo\n"
    assert good(cluster, "lock", "flock", "-c", "echo $0", SHELL="/bin/sh") == "/bin/sh\n"


def test_while_it_runs_it_is_held_with_who_and_what(cluster):
    process = start(cluster, "who", "--", "sh", "-c", "echo up; read line", stdin=subprocess.PIPE)
    assert process.stdout.readline() == "up\n"
    holder = node(cluster).show("who").json["holders"][0]
    assert holder["metadata"]["pid"] == process.pid
    assert holder["metadata"]["command"] == "sh -c echo up; read line"
    assert "@" in holder["metadata"]["user"] and str(process.pid) in holder["client_id"]
    process.communicate("\n")
    assert process.returncode == 1 or process.returncode == 0
    assert not held(cluster, "who")


def test_shared_locks_are_shared_and_keep_the_exclusive_out(cluster):
    readers = [start(cluster, "-s", "book", "--", "sh", "-c", "echo up; read line", stdin=subprocess.PIPE)
               for _ in range(2)]
    for reader in readers:
        assert reader.stdout.readline() == "up\n"
    assert lock(cluster, "-n", "-x", "book", "--", "true").returncode == 75
    for reader in readers:
        reader.communicate("\n")
    assert lock(cluster, "-n", "-x", "book", "--", "true").returncode == 0


def test_a_semaphore_lets_in_as_many_as_there_are_permits(cluster):
    inside = [start(cluster, "--limit", 3, "--permits", k, "pool", "--", "sh", "-c", "echo up; read line",
                    stdin=subprocess.PIPE) for k in (2, 1)]
    for process in inside:
        assert process.stdout.readline() == "up\n"
    assert lock(cluster, "-n", "--limit", 3, "pool", "--", "true").returncode == 75
    for process in inside:
        process.communicate("\n")
    assert lock(cluster, "-n", "--limit", 3, "pool", "--", "true").returncode == 0


def test_several_names_are_all_or_nothing_under_one_token(cluster):
    token = node(cluster).acquire("many/b", client="other").json["fencing_token"]
    assert lock(cluster, "-n", "many/a", "many/b", "--", "true").returncode == 75
    assert not held(cluster, "many/a")
    node(cluster).release("many/b", token, client="other")
    process = start(cluster, "many/a", "many/b", "--", "sh", "-c", "echo $HOLDFAST_LOCK; read line",
                    stdin=subprocess.PIPE)
    assert process.stdout.readline() == "many/a many/b\n"
    rows = [node(cluster).show(f"many/{x}").json["holders"][0] for x in "ab"]
    assert rows[0]["fencing_token"] == rows[1]["fencing_token"]
    process.communicate("\n")


# --- signals ------------------------------------------------------------------

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_passed_on(cluster, number):
    process = start(cluster, "signals", "--", "sh", "-c",
                    f"trap 'echo got it; exit 9' {int(number)}; echo up; while :; do sleep 0.05; done")
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    assert process.communicate()[0] == "got it\n"
    assert process.returncode == 9


def test_a_signal_while_it_waits_ends_it_and_it_leaves_the_queue(cluster):
    token = node(cluster).acquire("queue", client="other").json["fencing_token"]
    process = start(cluster, "queue", "--", "echo", "never")
    wait_until(lambda: node(cluster).show("queue").json["queue_length"] == 1, "it waits")
    process.send_signal(signal.SIGINT)
    out, said = process.communicate()
    assert process.returncode == 130 and out == "" and said.startswith("holdfast: "), said
    wait_until(lambda: node(cluster).show("queue").json["queue_length"] == 0, "it has left")
    node(cluster).release("queue", token, client="other")


def test_a_lock_is_kept_for_longer_than_its_ttl(cluster):
    done = lock(cluster, "--ttl", "1s", "long", "--", "sh", "-c", "sleep 3; echo still here")
    assert done.returncode == 0 and done.stdout == "still here\n", done


def test_the_leader_may_die_while_it_runs(make_cluster):
    cluster = make_cluster(3)
    process = start(cluster, "--ttl", "4s", "survive", "--", "sh", "-c", "echo up; read line; echo done",
                    stdin=subprocess.PIPE)
    assert process.stdout.readline() == "up\n"
    leader = cluster.leader()
    leader.process.kill()
    leader.process.wait()
    survivor = cluster.leader(but=leader.id)
    assert survivor.show("survive").json["held"]
    # Longer than the TTL on the new leader: it was renewed there.
    threading.Event().wait(5)
    out, said = process.communicate("\n")
    assert process.returncode == 0 and out == "done\n", said
