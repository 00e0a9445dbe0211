"""`holdfast elect`: a command while leading, and those who look on."""

import json
import signal
import subprocess
import threading

import pytest

from cli_support import run_cli, cluster, endpoints, good  # noqa: F401  (a fixture)
from harness import PROGRAM, environment, run, wait_until


def start(cluster, *arguments, **options):
    return subprocess.Popen([PROGRAM, "elect", *map(str, arguments)], text=True,
                            env=environment(HOLDFAST_ENDPOINTS=endpoints(cluster)),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def leader(cluster, name):
    return cluster.nodes[1].request("GET", f"/api/v1/elections/{name}").json["leader"]


def test_the_command_runs_while_it_leads_and_its_code_is_ours(cluster):
    process = start(cluster, "boss", "http://me:80", "--", "sh", "-c",
                    "echo $HOLDFAST_TOKEN; read line; exit 5", stdin=subprocess.PIPE)
    epoch = int(process.stdout.readline())
    assert epoch > 0 and leader(cluster, "boss")["value"] == "http://me:80"
    done = run_cli(cluster, "elect", "-n", "boss", "--", "true")
    assert done.returncode == 75 and "held by" in done.stderr, done
    assert run_cli(cluster, "elect", "-w", "0.2", "-E", "9", "boss", "--", "true").returncode == 9
    done = run_cli(cluster, "elect", "-n", "-E", "0", "boss", "--", "echo", "never")
    assert done.returncode == 0 and done.stdout == "", done
    assert run_cli(cluster, "elect", "-n", "-E", "0", "boss").returncode == 0
    process.communicate("\n")
    assert process.returncode == 5
    assert leader(cluster, "boss") is None
    assert int(good(cluster, "elect", "boss", "--", "sh", "-c", "echo $HOLDFAST_TOKEN")) > epoch


def test_without_a_command_it_leads_until_a_signal(cluster):
    process = start(cluster, "king", "--json")
    assert json.loads(process.stdout.readline())["elected"]
    assert leader(cluster, "king") is not None
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    assert process.returncode == 143 and said.startswith("holdfast: king: released"), said
    assert leader(cluster, "king") is None


def test_who_loses_the_lead_is_stopped_with_79_and_the_next_one_leads(cluster):
    first = start(cluster, "--kill-after", "0.2", "crown", "first", "--", "sh", "-c", "echo up; sleep 600")
    assert first.stdout.readline() == "up\n"
    second = start(cluster, "crown", "second", "--", "echo", "mine now")
    wait_until(lambda: cluster.nodes[1].show("crown").json["queue_length"] == 1, "the second one waits")
    good(cluster, "force-unlock", "crown", "--reason", "enough")
    said = first.communicate()[1]
    assert first.returncode == 79 and "crown was lost (forced: enough)" in said, said
    assert second.communicate()[0] == "mine now\n" and second.returncode == 0


@pytest.mark.sanitized
def test_listen_prints_who_leads_and_each_change_and_that_nobody_does(cluster):
    lines = []
    listener = start(cluster, "chair", "--listen", "--changes", "3")

    def read():
        for line in listener.stdout:
            lines.append(line.rstrip())

    thread = threading.Thread(target=read)
    thread.start()
    wait_until(lambda: lines, "the first line")
    good(cluster, "elect", "chair", "red one", "--", "true")
    thread.join()
    assert listener.wait() == 0
    listener.stderr.close()
    assert lines[0].endswith("no leader")
    assert lines[1].endswith(" leads: red one")
    assert lines[2].endswith("no leader")


def test_wrong_usage_is_64_and_unreachable_69_and_a_missing_command_127():
    assert run("elect").returncode == 64
    assert run("elect", "a", "b", "c").returncode == 64
    assert run("elect", "a", "--listen", "--", "true").returncode == 64
    for more in (["--listen"], ["--", "true"]):
        done = run("elect", "a", "--endpoints", "127.0.0.1:1", "--timeout", "1s", *more)
        assert done.returncode == 69 and "127.0.0.1:1" in done.stderr, done
    assert run("elect", "a", "--", "no-such-command-at-all").returncode == 127
