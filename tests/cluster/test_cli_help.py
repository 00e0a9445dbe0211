"""Help, usage errors and unreachable clusters: what needs no cluster."""

import re
import socket

import pytest

from harness import environment, free_ports, run

COMMANDS = re.findall(r"^  ([a-z-]+) {2,}\S", run("help").stdout, re.MULTILINE)
REMOTE = ["ls", "show x", "sessions", "sinks", "status", "audit", "watch", "top --once", "member list",
          "force-unlock x --reason r", "revoke x --reason r"]


def test_the_list_names_the_commands():
    assert {"serve", "dev", "ls", "show", "watch", "sessions", "status", "audit", "force-unlock",
            "revoke", "member", "top"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_by_both_ways(command):
    first, second = run(command, "--help"), run("help", command)
    assert first.returncode == second.returncode == 0, first
    assert f"holdfast {command}" in first.stdout
    assert first.stdout == second.stdout
    assert first.stderr == ""


@pytest.mark.parametrize("line, said", [
    ("", "holdfast COMMAND"),
    ("no-such-command", 'there is no command "no-such-command"'),
    ("statu", 'did you mean "status"?'),
    ("unlock x", "`holdfast lock` releases the lock when its command ends"),
    ("unlock x", "`holdfast show NAME` shows the holder"),
    ("ls --no-such-flag", "--no-such-flag: there is no such flag"),
    ("ls --timeout soon", '"soon" is not a duration'),
    ("ls --timeout", "a value is missing"),
    ("ls a b", 'unexpected argument "b"'),
    ("show", "usage: holdfast show NAME"),
    ("force-unlock x", "--reason TEXT is missing"),
    ("revoke x", "--reason TEXT is missing"),
    ("member", "one of list, add"),
    ("member add 6", "usage: holdfast member add ID HOST:PORT"),
    ("member promote six", '"six" is not the id of a node'),
    ("status --endpoints ,", "the list is empty"),
])
def test_wrong_usage_ends_with_64_and_says_what_to_do(line, said):
    done = run(*line.split())
    assert done.returncode == 64, done
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("word", ["unlock", "rev", "revok", "reco", "recove", "forc", "force-unloc", "reset", "reset-fenc",
                                  "resign"])
def test_no_command_that_takes_something_away_is_proposed(word):
    done = run(word, "billing/close")
    assert done.returncode == 64, done
    assert not any(name in done.stderr for name in ("revoke", "recover", "force-unlock", "reset-fence")), done.stderr
    assert "`holdfast --help` lists the commands" in done.stderr


@pytest.mark.parametrize("line", REMOTE)
def test_unreachable_ends_with_69_and_names_what_was_tried(line):
    port = free_ports(1)[0]
    done = run(*line.split(), env=environment(HOLDFAST_ENDPOINTS=f"127.0.0.1:{port}"))
    assert done.returncode == 69, done
    assert f"no endpoint answered: tried 127.0.0.1:{port} (Connection refused)" in done.stderr
    assert "`holdfast dev`" in done.stderr
    assert all(text.startswith("holdfast: ") for text in done.stderr.splitlines())


def test_the_flag_beats_the_environment():
    done = run("ls", "--endpoints", "127.0.0.1:1", env=environment(HOLDFAST_ENDPOINTS="127.0.0.1:2"))
    assert "127.0.0.1:1" in done.stderr and "127.0.0.1:2" not in done.stderr


def test_one_that_accepts_and_never_answers_takes_no_longer_than_the_timeout():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        done = run("status", "--endpoints", address, "--timeout", "300ms", timeout=10)
    assert done.returncode == 69
    assert f"{address} (no answer in time)" in done.stderr


def test_what_is_no_holdfast_is_called_so():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        import threading

        def answer():
            client, _ = other.accept()
            client.recv(4096)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            client.close()

        thread = threading.Thread(target=answer)
        thread.start()
        done = run("status", "--endpoints", f"127.0.0.1:{other.getsockname()[1]}")
        thread.join()
    assert done.returncode == 69
    assert "is not a Holdfast node" in done.stderr
