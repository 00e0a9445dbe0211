"""The local cluster: `holdfast dev`."""

import http.client
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from harness import (PATIENCE, PROGRAM, Ports, allowed, dies_with_us, environment, free_base, run,
                     wait_until)


@pytest.fixture
def dev(tmp_path):
    started = []

    def start(nodes, base, *flags, folder="dev", **env):
        process = subprocess.Popen(
            dies_with_us([PROGRAM, "dev", "--nodes", nodes, "--dir", tmp_path / folder,
                          "--base-port", base, *flags]),
            env=environment(**env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    with Ports():
        yield start
        for process in started:
            if process.poll() is None:
                process.terminate()  # and its nodes: then nobody changes the folder any more
                process.wait(PATIENCE)


def read_until_ready(process):
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("ready"):
            return lines
    raise AssertionError("".join(lines) + process.stderr.read())


def stop(process):
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0


def pids(lines):
    return [int(line.split(" pid ")[1].split()[0]) for line in lines if line.startswith("node ")]


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return stat.read().split(") ")[1][0] != "Z"


def cluster_view(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", "/api/v1/cluster")
    return json.loads(connection.getresponse().read())


def test_a_line_a_node_then_ready_and_ctrl_c_stops_all(dev, tmp_path):
    base = free_base(5)
    start = time.monotonic()
    process = dev(5, base)
    lines = read_until_ready(process)
    took = time.monotonic() - start
    assert took < allowed(5), f"{took:.2f} s"
    assert len(pids(lines)) == 5
    endpoints = ",".join(f"127.0.0.1:{base + 10 * i}" for i in range(5))
    assert endpoints in lines[-1]
    view = cluster_view(base + 40)
    assert view["leader"] in range(1, 6) and len(view["members"]) == 5
    for i in range(1, 6):
        assert (tmp_path / "dev" / f"node-{i}").is_dir()
        assert (tmp_path / "dev" / f"node-{i}.log").is_file()
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert not any(is_alive(pid) for pid in pids(lines))


def test_a_second_start_goes_on_where_the_first_ended(dev):
    base = free_base(3)
    first = dev(3, base)
    read_until_ready(first)
    term = cluster_view(base)["term"]
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENCE) == 0
    second = dev(3, base)
    read_until_ready(second)
    assert cluster_view(base)["term"] > term
    second.send_signal(signal.SIGINT)
    assert second.wait(PATIENCE) == 0


def line_with(process, *words):
    """The next printed line with all these words."""
    for line in process.stdout:
        if all(word in line for word in words):
            return line
    raise AssertionError(f"{words} did not come: " + process.stderr.read())


def test_the_address_of_the_dashboard_comes_first(dev):
    base = free_base(1)
    process = dev(1, base)
    assert read_until_ready(process)[0] == f"dashboard  http://127.0.0.1:{base}/\n"
    connection = http.client.HTTPConnection("127.0.0.1", base, timeout=PATIENCE)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert answer.status == 200 and answer.getheader("Content-Type").startswith("text/html")


def test_a_killed_node_is_notified_and_the_others_go_on(dev):
    base = free_base(3)
    process = dev(3, base, "--no-restart")
    lines = read_until_ready(process)
    os.kill(pids(lines)[0], signal.SIGKILL)
    line_with(process, "node 1 was killed by signal 9")
    wait_until(lambda: cluster_view(base + 10)["leader"] in (2, 3), "the others go on")


def test_a_killed_node_comes_back_with_its_data_and_its_ports(dev):
    base = free_base(3)
    process = dev(3, base)
    lines = read_until_ready(process)
    folder = next(line.split(" data ")[1].split()[0] for line in lines if line.startswith("node 2"))
    store = open(f"{folder}/meta", "rb").read()
    killed = time.monotonic()
    os.kill(pids(lines)[1], signal.SIGKILL)
    assert line_with(process, "node 2 was killed by signal 9 (Killed)").endswith("; it starts again in 3.0 s\n")
    fresh = int(line_with(process, "node 2 is ready again  pid ").split(" pid ")[1])
    assert time.monotonic() - killed > 2.9 and fresh != pids(lines)[1]
    view = cluster_view(base + 10)
    assert view["node"] == 2 and view["leader"] in (1, 2, 3)
    assert open(f"{folder}/meta", "rb").read() != store  # the next life of the same store
    os.kill(fresh, signal.SIGTERM)
    line_with(process, "node 2 ended with exit status 0; it starts again in")
    line_with(process, "node 2 is ready again  pid ")
    stop(process)


def test_ctrl_c_ends_all_while_a_node_waits_for_its_restart_or_starts(dev):
    for pause in ("60s", "1ms"):
        base = free_base(3)
        process = dev(3, base, "--restart-after", pause, folder=f"dev-{pause}")
        lines = read_until_ready(process)
        os.kill(pids(lines)[2], signal.SIGKILL)
        line_with(process, "node 3 was killed")
        stop(process)
        assert process.stdout.read().endswith("stopping\n")
        assert not any(is_alive(pid) for pid in pids(lines))
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", base + 20))  # no process of the node is left


def test_a_node_that_fails_again_and_again_stays_down(dev, tmp_path):
    base = free_base(3)
    process = dev(3, base, "--restart-after", "100ms")
    lines = read_until_ready(process)
    folder = tmp_path / "dev" / "node-3"
    folder.rename(tmp_path / "lost")  # it must not begin anew: it had votes
    os.kill(pids(lines)[2], signal.SIGKILL)
    for start in range(1, 5):
        line = line_with(process, "node 3 ended with exit status 1", f"(failed start {start} of 5; its log: ")
        pause = float(line.split(" in ")[1].split(" s")[0])
        assert pause <= 0.1 * 2 ** (start - 1), line
    line_with(process, "node 3 ended with exit status 1; it failed 5 times in a row and stays down")
    assert f" serve --data {folder} --id 3 " in process.stdout.readline()
    assert cluster_view(base)["leader"] in (1, 2)
    stop(process)
    assert "lost its disk" in process.stderr.read()


@pytest.mark.parametrize("secure", [False, True])
def test_without_restart_the_printed_command_starts_the_node(dev, tmp_path, secure):
    base = free_base(3)
    process = dev(3, base, "--no-restart", *(["--secure"] if secure else []), folder="a folder")
    lines = read_until_ready(process)
    os.kill(pids(lines)[1], signal.SIGKILL)
    line_with(process, "node 2 was killed by signal 9 (Killed); start it in another terminal")
    command = process.stdout.readline()
    with subprocess.Popen(dies_with_us(["/bin/sh", "-c", "exec " + command.strip()]), cwd="/",
                          env={"PATH": "/usr/bin:/bin"}, stderr=subprocess.PIPE, text=True) as by_hand:
        for line in by_hand.stderr:
            if '"event":"started"' in line:
                break
        else:
            raise AssertionError("it did not start")
        if not secure:
            wait_until(lambda: cluster_view(base + 10)["leader"] in (1, 2, 3), "it is a member again")
        by_hand.terminate()
        by_hand.stderr.read()
    assert by_hand.returncode == 0
    stop(process)


def test_nodes_die_with_the_command_that_started_them(dev):
    process = dev(3, free_base(3))
    nodes = pids(read_until_ready(process))
    process.kill()
    process.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in nodes), "they are gone")


def test_taken_ports_are_refused_with_a_clear_word(dev, tmp_path):
    base = free_base(2)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", base + 11))
        taken.listen()
        done = run("dev", "--nodes", "2", "--dir", tmp_path / "dev", "--base-port", base)
    assert done.returncode == 1
    assert f"port {base + 11}, the peer port of node 2, is in use by another program" in done.stderr


def test_a_folder_of_a_cluster_of_another_size_is_refused(dev, tmp_path):
    base = free_base(3)
    process = dev(3, base)
    read_until_ready(process)
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE)
    done = run("dev", "--nodes", "5", "--dir", tmp_path / "dev", "--base-port", base)
    assert done.returncode == 1 and "contains a cluster of 3 nodes" in done.stderr


def tips(process):
    """The commands that are printed below the line "ready"."""
    lines = []
    for line in process.stdout:
        if line.startswith("  "):
            lines.append(line.strip())
        if line.startswith("Ctrl-C"):
            return lines
    raise AssertionError("".join(lines) + process.stderr.read())


@pytest.mark.parametrize("in_path", [False, True], ids=["by its path", "by PATH"])
def test_the_printed_commands_work_as_typed(dev, tmp_path, in_path):
    """In a shell of another folder, which does not know where the program is, or does."""
    folder = os.path.dirname(os.path.abspath(PROGRAM))
    path = f"{folder}:/usr/bin:/bin" if in_path else "/usr/bin:/bin"
    process = dev(3, free_base(3), PATH=path)
    read_until_ready(process)
    lock, show, *rest = tips(process)
    assert lock.startswith("holdfast lock " if in_path else f"{folder}/holdfast lock "), lock

    def typed(line):
        return dies_with_us(["/bin/sh", "-c", line]), dict(cwd=tmp_path, env={"PATH": path}, text=True)

    words, options = typed(lock)
    with subprocess.Popen(words, **options) as holder:
        words, options = typed(show)
        wait_until(lambda: ", free" not in subprocess.run(words, stdout=subprocess.PIPE, check=True, **options).stdout,
                   "`show` sees the lock")
        holder.terminate()
    *curl, kill = rest
    for line in curl:
        words, options = typed(line)
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True, **options)
        assert line.startswith("curl ") and json.loads(done.stdout), done
    words, options = typed(kill)
    subprocess.run(words, check=True, **options)
    wait_until(lambda: "was killed by signal 9" in process.stdout.readline(), "it says that a node was killed")


# --- with TLS and authentication ----------------------------------------------


class Shell:
    """The printed lines, typed one after the other: each `export` holds for those that follow."""

    def __init__(self, folder):
        self.exports, self.options = [], dict(cwd=folder, env={"PATH": "/usr/bin:/bin"}, text=True)

    def words(self, line):
        return dies_with_us(["/bin/sh", "-ec", "\n".join([*self.exports, line])])

    def run(self, line):
        return subprocess.run(self.words(line), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              timeout=PATIENCE, **self.options)

    def __call__(self, line):
        done = self.run(line)
        assert done.returncode == 0, (line, done)
        return done.stdout


@pytest.mark.parametrize("folder", ["dev", "it's a folder"])
def test_a_secure_cluster_is_used_by_the_printed_commands(dev, tmp_path, folder):
    process = dev(3, free_base(3), "--secure", folder=folder, HOLDFAST_TENANT="unknown", HOLDFAST_CERT="none")
    lines = read_until_ready(process)
    assert all(" https://127.0.0.1:" in line for line in lines if line.startswith("node "))
    shell, said = Shell(tmp_path), []
    for line in tips(process):
        if line.startswith("export "):
            shell.exports.append(line)
        elif " lock demo -- sleep " in line:
            holder = subprocess.Popen(shell.words(line), **shell.options)
            show = line.replace("lock demo -- sleep 30", "show demo")
            wait_until(lambda show=show: ", free" not in shell(show), "`show` sees the lock")
        else:
            said.append((line, shell(line)))
    holder.terminate()
    holder.wait(PATIENCE)
    found = {line.split("/")[-1] if "holdfast " in line else line.split()[0]: text for line, text in said}
    assert any(lock["name"] == "demo" for lock in json.loads(found["curl"])["locks"]), found["curl"]
    assert next(text for line, text in said if "redis-cli" in line).strip() == "OK"
    assert "demo" not in found["holdfast ls"]  # of the tenant blue
    for name in ("default/admin", "red/app", "blue/app"):
        assert name in found["holdfast auth show"] and name in found["holdfast token list"]
    assert "BOOTSTRAP" in found["holdfast audit"]
    assert said[-1][0].startswith("kill -9 ")
    wait_until(lambda: "was killed by signal 9" in process.stdout.readline(), "it says that a node was killed")
    others_are_refused(shell, said)
    for path in (tmp_path / folder / "secure").iterdir():
        expected = 0o644 if path.suffix == ".pem" and "-key" not in path.name else 0o600
        assert path.stat().st_mode & 0o777 == expected, path
    assert (tmp_path / folder / "secure").stat().st_mode & 0o777 == 0o700


def others_are_refused(shell, said):
    """The wrong side: no token, no CA, and what an application may not do."""
    listing = next(line for line, _ in said if line.endswith("holdfast ls"))
    # Of node 1, which was killed, so at another one.
    shell.exports.append("export HOLDFAST_ENDPOINTS=" + next(
        line.split("https://")[1].split("/")[0] for line, _ in said if line.startswith("curl ")))
    assert shell.run(listing).returncode == 0
    assert "(unauthenticated)" in shell.run("unset HOLDFAST_TOKEN_FILE; " + listing).stderr
    assert shell.run("unset HOLDFAST_CA; " + listing).returncode != 0
    red = next(line for line in shell.exports if "red-app" in line)
    assert shell.run(red + "\n" + listing.replace("ls", "token create blue/app")).returncode == 77


def test_a_secure_cluster_keeps_its_credentials(dev, tmp_path):
    base = free_base(1)
    process = dev(1, base, "--secure")
    read_until_ready(process)
    stop(process)
    secure = tmp_path / "dev" / "secure"
    before = {path.name: path.read_bytes() for path in secure.iterdir()}
    (secure / "blue-app.token").unlink()
    process = dev(1, base, "--secure")
    read_until_ready(process)
    after = {path.name: path.read_bytes() for path in secure.iterdir()}
    changed = {name for name in after if before.get(name) != after[name]}
    assert changed == {"blue-app.token", "setup.log"}, changed
    stop(process)
    done = run("dev", "--nodes", "1", "--dir", tmp_path / "dev", "--base-port", base)
    assert done.returncode == 1 and "contains a secure cluster: use --secure, or another --dir" in done.stderr


def test_a_secure_cluster_that_lost_its_administrator_says_so(dev, tmp_path):
    base = free_base(1)
    process = dev(1, base, "--secure")
    read_until_ready(process)
    stop(process)
    (tmp_path / "dev" / "secure" / "admin.token").unlink()
    done = run("dev", "--nodes", "1", "--dir", tmp_path / "dev", "--base-port", base, "--secure")
    assert done.returncode == 1 and "holdfast auth rescue" in done.stderr, done
    assert not (tmp_path / "dev" / "secure" / "admin.token").exists()


def test_a_cluster_becomes_secure(dev, tmp_path):
    base = free_base(3)
    process = dev(3, base)
    read_until_ready(process)
    stop(process)
    process = dev(3, base, "--secure")
    read_until_ready(process)
    assert (tmp_path / "dev" / "secure" / "red-app.token").exists()
    stop(process)
