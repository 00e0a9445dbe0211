"""bench/compare.py: what its table and its picture say, and one real run against Redis."""

import importlib.util
import json
import os
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree

from conftest import ROOT, run

# Under a name of its own: tests/chaos has a report too.
SPEC = importlib.util.spec_from_file_location("bench_report", ROOT / "bench" / "report.py")
report = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(report)

COMPARE = ROOT / "bench" / "compare.py"


def figures(cycles, p50=1.0, errors=0):
    return {"cycles_per_second": cycles, "acquire_p50_ms": p50, "acquire_p99_ms": 2 * p50, "load_cpu_percent": 20,
            "errors": errors}


def system(name, nodes, memory=False, **runs):
    return {"name": name, "label": name.capitalize(), "version": "1.2", "nodes": nodes, "memory": memory,
            "recipe": "a < b", "settings": "defaults", "runs": {count[1:]: values for count, values in runs.items()}}


def result(*systems, clients=(1, 64)):
    return {"when": "today", "machine": "2 cores", "seconds": 3, "rounds": 3, "clients": list(clients),
            "systems": list(systems), "left_out": []}


def row(text, start):
    return next(line for line in text.splitlines() if line.startswith(f"| {start}"))


def test_the_median_of_the_rounds_counts():
    text = report.markdown(result(system("holdfast", 5, c64=[figures(30000), figures(100), figures(26000)])))
    assert "26,000 (1.00, 2.0 ms)" in row(text, "Holdfast, 5 nodes")
    assert "| 64 clients, 5 nodes: cycles/s | 26,000 | ≥ 25,000 | met |" in text
    assert row(text, "Holdfast, 5 nodes").split("|")[2].strip() == "–"  # nothing was run with one client


def test_a_peer_that_is_ahead_is_named_and_missed_aims_too():
    text = report.markdown(result(
        system("holdfast", 1, c1=[figures(1000)], c64=[figures(9000)]),
        system("holdfast", 5, c1=[figures(900, p50=0.7)], c64=[figures(20000)]),
        system("etcd", 5, c1=[figures(200)], c64=[figures(2000)]),
        system("postgres", 1, c1=[figures(2000)], c64=[figures(4500)])))
    assert "| 4.5×, 10.0× |" in row(text, "Etcd, 5 nodes")
    assert "| **0.50×: it is ahead**, 2.0× |" in row(text, "Postgres, 1 node")
    assert "- Postgres, 1 node, with 1 client: 2,000 cycles/s against 1,000 of Holdfast, 1 node" in text
    assert "| 64 clients, 5 nodes: times etcd | 10.0× | ≥ 15× | **missed** |" in text
    assert "| 1 client, 5 nodes: acquire p50 | 0.70 ms | ≤ 0.6 ms | **missed** |" in text
    assert "Nobody" not in text


def test_what_lives_in_memory_is_compared_with_the_efficiency_tier_alone():
    text = report.markdown(result(
        system("holdfast", 1, c64=[figures(9000)]), system("redis", 1, memory=True, c64=[figures(80000)])))
    assert row(text, "Redis, 1 node").endswith("|  |") and "Nobody" in text
    text = report.markdown(result(
        system("holdfast-efficiency", 5, memory=True, c64=[figures(40000)]),
        system("redis", 1, memory=True, c64=[figures(80000)]), clients=[64]))
    assert "**0.50×: it is ahead**" in row(text, "Redis, 1 node")


def test_errors_and_what_is_missing_are_shown():
    found = result(system("etcd", 3, c1=[figures(5, errors=7)]), clients=[1])
    found["left_out"] = ["ZooKeeper: it is not installed"]
    found["interrupted"] = True
    text = report.markdown(found)
    assert ", 7 errors)" in text and "Left out: ZooKeeper" in text and "interrupted" in text


def test_bars_are_as_long_as_their_figures():
    picture = report.svg(result(
        system("holdfast", 5, c1=[figures(500)], c64=[figures(20000)]), system("a<b", 1, c1=[figures(250)], c64=[figures(0)])))
    tree = ElementTree.fromstring(picture)  # well-formed, names escaped
    bars = [float(rect.get("width")) for rect in tree.iter("{http://www.w3.org/2000/svg}rect") if rect.get("height") == "15"]
    assert len(bars) == 4 and bars[0] == 2 * bars[1] and bars[2] == bars[0] and bars[3] == 1
    texts = [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "A<b, 1 node" in texts and "20,000" in texts


def processes_of(folder, program=""):
    """Those that work in the folder, also when it was removed; of that program, if one is named."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            works_there = os.readlink(f"/proc/{pid}/cwd").startswith(str(folder))
            if works_there and program in os.readlink(f"/proc/{pid}/exe"):
                found.append(pid)
        except OSError:
            pass
    return found


def test_redis_is_measured_and_gone_afterwards(tmp_path):
    (tmp_path / "data").mkdir()
    done = run(COMPARE, "--rounds", 1, "--seconds", 0.3, "--only", "redis", "--clients", "1,8", "--results", tmp_path,
               TMPDIR=tmp_path / "data")
    assert done.returncode == 0, done.stdout
    found = json.loads((tmp_path / "peers.json").read_text())
    (redis,) = found["systems"]
    assert set(redis["runs"]) == {"1", "8"} and redis["version"]
    assert all(runs[0]["cycles_per_second"] > 0 and runs[0]["errors"] == 0 for runs in redis["runs"].values())
    assert "Redis, memory only, 1 node" in (tmp_path / "peers.md").read_text()
    ElementTree.parse(tmp_path / "peers.svg")
    assert os.listdir(tmp_path / "data") == [] and processes_of(tmp_path / "data") == []


def test_an_interrupt_ends_what_was_started_and_keeps_what_was_found(tmp_path):
    (tmp_path / "data").mkdir()
    process = subprocess.Popen(
        [COMPARE, "--rounds", "1", "--seconds", "0.2", "--only", "redis,redis-aof", "--clients", "1,2", "--results", tmp_path],
        env={**os.environ, "TMPDIR": str(tmp_path / "data")}, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "1 clients" in line:
            break
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    assert json.loads((tmp_path / "peers.json").read_text())["interrupted"] is True
    assert os.listdir(tmp_path / "data") == [] and processes_of(tmp_path / "data") == []


def test_a_kill_leaves_no_server_behind(tmp_path):
    (tmp_path / "data").mkdir()
    process = subprocess.Popen(
        [COMPARE, "--rounds", "1", "--seconds", "60", "--only", "redis", "--clients", "1", "--results", tmp_path],
        env={**os.environ, "TMPDIR": str(tmp_path / "data")}, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not processes_of(tmp_path / "data", "redis"):  # what it is before that does not know yet whose child it is
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    while processes_of(tmp_path / "data"):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_unknown_system_is_refused():
    done = run(COMPARE, "--only", "redis,consul")
    assert done.returncode == 2 and "there is no consul; there are holdfast, etcd" in done.stdout
