"""The other tools of bench/: each runs, small, and says its aim; what they cannot do is refused."""

import importlib.util
import json
import re
import subprocess

from conftest import ROOT, run

# Under a name of its own: tests/cluster has a harness too.
SPEC = importlib.util.spec_from_file_location("bench_harness", ROOT / "bench" / "harness.py")
harness = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(harness)


def test_a_figure_is_compared_with_its_aim_from_the_right_side(capsys):
    assert harness.check_aim("speed", 0.95, 0.9)["met"] is True
    assert harness.check_aim("speed", 0.85, 0.9)["met"] is False
    assert harness.check_aim("memory", 180, 186, " MB", at_most=True)["met"] is True
    assert harness.check_aim("memory", 1900, 186, " MB", at_most=True)["met"] is False
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "speed: 0.95, aim >= 0.90: met"
    assert lines[3] == "memory: 1,900 MB, aim <= 186 MB: MISSED"


def bare_engine(folder, seconds, *flags):
    done = subprocess.run([ROOT / "build/bench/raft_floor", "--nodes", "3", "--seconds", str(seconds), "--folder", folder, *flags],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["outstanding"] for row in found["commits"]] == [1, 64, 256]
    return found


def test_the_bare_engine_commits_with_and_without_a_thread_for_the_disk(tmp_path):
    def is_sound(found):
        rows = found["commits"]
        # A majority's disks are waited for, and a round trip is no commit.
        return (all(row["commands_per_second"] > 0 and 0 < row["p50_us"] <= row["p99_us"] and 0 < row["sync_p50_us"]
                    for row in rows) and 0 < found["round_trip_us"] < rows[0]["p50_us"])

    for flags in ([], ["--thread"]):
        # A tenth of a second may be one that the machine had no time for.
        tried = []
        for seconds in (0.1, 0.2, 0.4, 0.8, 1.6):
            tried.append(bare_engine(tmp_path, seconds, *flags))
            if is_sound(tried[-1]):
                break
        else:
            raise AssertionError(tried)


def test_growth_prints_each_aim_and_its_figure():
    done = run(ROOT / "bench/growth.py", "--only", "waiters,memory", "--rounds", 1, "--seconds", 0.2, "--nodes", 1, "--waiters", 200,
               "--held", 1000)
    assert done.returncode == 0, done.stdout
    assert "200 want one lock" in done.stdout and "hand-over p50 with 64 wanting it / with 200: " in done.stdout
    assert "leader's resident memory with 1,000 locks in 2 sessions: " in done.stdout and ": met" in done.stdout


def test_tls_compares_with_clear_text_and_authorises():
    done = run(ROOT / "bench/tls.py", "--only", "throughput,handshakes,auth", "--rounds", 1, "--seconds", 0.3, "--nodes", 1, "--api", "http")
    assert done.returncode == 0, done.stdout
    for words in ("TLS, 1 node, clients only, http: of clear text: ", "handshakes, full: ", "handshakes, resumed: ",
                  "auth = on, http: of auth = off: "):
        assert words in done.stdout, done.stdout


def test_leases_never_end_early():
    done = run(ROOT / "bench/lease_error.py", "--rounds", 1, "--locks", 8, "--ttl", 1, "--nodes", 3)
    assert done.returncode == 0, done.stdout
    assert re.search(r"quiet +leases 8  early 0  late_p50_ms \d", done.stdout) and re.search(r"leader_killed +leases 8  early 0 ", done.stdout), done.stdout


def test_what_the_tools_do_not_know_is_refused():
    for tool, flags, words in (("growth", ["--only", "moons"], "there is no moons"),
                               ("redis_compare", ["--only", "disk"], "there is no disk"),
                               ("tls", ["--only", "moons"], "there is no moons"),
                               ("latency", ["--api", "resp"], "invalid choice"),
                               ("raft_floor", ["--rounds", "x"], "invalid int")):
        done = run(ROOT / "bench" / f"{tool}.py", *flags)
        assert done.returncode == 2 and words in done.stdout, done.stdout
