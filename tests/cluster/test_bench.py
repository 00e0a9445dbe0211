"""`holdfast bench` against a real cluster: what it prints, and that it leaves nothing behind."""

import json
import os
import signal
import subprocess

from harness import PATIENCE, PROGRAM, environment, free_ports, run, wait_until


def bench(cluster, *flags, seconds="0.5"):
    endpoints = ",".join(f"127.0.0.1:{node.client_port}" for node in cluster)
    return run("bench", "--endpoints", endpoints, "--seconds", seconds, "--warmup", "0.1", *flags)


def leftovers(node):
    """Locks and sessions under the bench's names."""
    locks = node.request("GET", "/api/v1/locks?prefix=bench/").json["locks"]
    return locks + node.request("GET", "/api/v1/sessions").json["sessions"]


def test_it_prints_one_object_with_the_figures_and_leaves_nothing_behind(make_cluster):
    c = make_cluster(3)
    for api, via in (("http", "leader"), ("http", "any"), ("grpc", "leader"), ("grpc", "any")):
        more = ["--held", 1200] if api == "http" else ["--connections", 3]
        done = bench(c, "--api", api, "--clients", 8, "--via", via, *more, "--json")
        assert done.returncode == 0, done.stderr
        figures = json.loads(done.stdout)
        assert figures["cycles_per_second"] > 0
        assert figures["errors"] == 0, figures
        for kind in ("acquire_us", "release_us"):
            us = figures[kind]
            assert 0 < us["p50"] <= us["p90"] <= us["p99"] <= us["p999"] <= us["max"]
        assert figures["acquire_us"]["count"] >= figures["cycles"] - 8
        settings = figures["settings"]
        assert (settings["clients"], settings["via"], settings["api"]) == (8, via, api)
        assert figures["versions"]["bench"]
        assert leftovers(c.nodes[1]) == []


def test_the_efficiency_tier_is_measured_too_and_is_left_empty(make_cluster):
    c = make_cluster(3)
    for api in ("http", "grpc"):
        for more in ([], ["--contended"]):
            done = bench(c, "--api", api, "--clients", 8, "--tier", "efficiency", "--json", *more)
            assert done.returncode == 0, done.stderr
            figures = json.loads(done.stdout)
            assert figures["cycles"] > 8 and figures["errors"] == 0, figures
            assert figures["settings"]["tier"] == "EFFICIENCY"
            assert leftovers(c.nodes[1]) == []


def test_one_lock_for_all_is_handed_from_client_to_client(make_cluster):
    c = make_cluster(3)
    for api in ("http", "grpc"):
        done = bench(c, "--api", api, "--clients", 8, "--contended", "--json")
        assert done.returncode == 0, done.stderr
        figures = json.loads(done.stdout)
        assert figures["errors"] == 0, figures
        assert figures["cycles"] > 8
        # The others waited for seven turns; the one whose turn it was did not.
        assert figures["handover_us"]["p50"] < figures["acquire_us"]["p50"] / 2
        assert abs(figures["handover_us"]["count"] - figures["acquire_us"]["count"]) <= 1
        assert figures["settings"]["contended"] is True
        assert leftovers(c.nodes[1]) == []


def test_the_redis_protocol_is_measured_on_the_leader_and_on_a_follower(make_cluster):
    c = make_cluster(3)
    leader = c.leader()
    for node in (leader, c.followers()[0]):
        done = bench(c, "--api", "resp", "--resp", node.resp, "--clients", 4, "--json", seconds="1")
        assert done.returncode == 0, done.stderr
        figures = json.loads(done.stdout)
        assert figures["cycles"] > 4 and figures["errors"] == 0, figures
        # A lock in whose cycle the time was over stays until its TTL, as it does with Redis.
        assert len(node.request("GET", "/api/v1/locks?prefix=bench/").json["locks"]) <= 8
    refused = bench(c, "--api", "resp", "--resp", "nonsense")
    assert refused.returncode == 64 and "HOST:PORT" in refused.stderr


def test_a_redis_server_can_be_measured_by_the_same_bytes(make_cluster, tmp_path):
    port = free_ports(1)[0]
    server = subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--dir", tmp_path],
                              stdout=subprocess.DEVNULL)
    try:
        def answers():
            ping = subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True, text=True, check=False)
            return ping.stdout == "PONG\n"

        wait_until(answers, "redis-server is there")
        done = bench(make_cluster(1), "--api", "resp", "--resp", f"127.0.0.1:{port}", "--clients", 4, "--json")
        left = subprocess.run(["redis-cli", "-p", str(port), "dbsize"], capture_output=True, text=True, check=True)
    finally:
        server.terminate()
        server.wait(PATIENCE)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["cycles"] > 4 and figures["errors"] == 0, figures
    assert int(left.stdout) <= 4  # those in whose cycle the time was over; Redis lets them expire


def test_a_rate_is_kept_and_every_acquire_is_in_the_samples(make_cluster, tmp_path):
    c = make_cluster(1)
    samples = tmp_path / "samples.csv"
    done = bench(c, "--clients", 4, "--rate", 50, "--samples", samples, "--json", seconds="2")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert 40 <= figures["cycles_per_second"] <= 60
    lines = samples.read_text().splitlines()
    assert lines[0] == "began_us,took_us"
    assert len(lines) - 1 == figures["acquire_us"]["count"]


def test_people_get_a_table(make_cluster):
    done = bench(make_cluster(1), "--clients", 2)
    assert done.returncode == 0, done.stderr
    assert "cycles/s" in done.stdout and "p999" in done.stdout and "acquire" in done.stdout
    assert done.stderr == ""  # progress is for terminals


def test_an_interrupt_ends_it_early_with_figures_and_cleans_up(make_cluster):
    c = make_cluster(1)
    node = c.nodes[1]
    process = subprocess.Popen(
        [PROGRAM, "bench", "--endpoints", f"127.0.0.1:{node.client_port}", "--clients", "2",
         "--seconds", "600", "--warmup", "0", "--json"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: node.request("GET", "/api/v1/locks?prefix=bench/").json["locks"], "it runs")
        os.kill(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["interrupted"] is True
    assert leftovers(node) == []


def test_what_cannot_be_done_is_said(make_cluster):
    nobody = run("bench", "--endpoints", f"127.0.0.1:{free_ports(1)[0]}", "--seconds", 1)
    assert nobody.returncode == 69 and "refused" in nobody.stderr
    for flags, words in (
        (["--clients", "0"], "number from 1"),
        (["--clients", "x"], "number from 1"),
        (["--seconds", "0"], "duration"),
        (["--api", "soap"], "--api"),
        (["--via", "moon"], "leader or any"),
        (["--tier", "best"], "correctness or efficiency"),
        (["--api", "http", "--connections", "2"], "carries one client"),
        (["--api", "grpc", "--held", "5"], "needs --api http"),
        (["--api", "resp", "--contended"], "no queue"),
        (["--api", "resp", "--tier", "efficiency"], "resp-tier of the server"),
        (["--contended", "--rate", "5"], "cannot be combined with --rate"),
        (["--resp", "127.0.0.1:1"], "needs --api resp"),
        (["--nonsense"], "no such flag"),
        (["--rate"], "a value is missing"),
    ):
        refused = run("bench", *flags)
        assert refused.returncode == 64 and words in refused.stderr, (flags, refused.stderr)
        assert refused.stdout == ""


def test_a_node_that_dies_costs_errors_and_not_the_run(make_cluster):
    c = make_cluster(3)
    leader = c.leader()
    runs = set()

    def locks_of_a_new_run(node, query=""):
        """What a killed leader's clients left behind may still be there."""
        locks = node.request("GET", f"/api/v1/locks?prefix=bench/{query}").json["locks"]
        return [lock for lock in locks if lock["name"].split("/")[1] not in runs]

    for api in ("http", "grpc"):
        process = subprocess.Popen(
            [PROGRAM, "bench", "--endpoints", f"127.0.0.1:{leader.client_port}", "--clients", "4",
             "--seconds", "600", "--warmup", "0", "--api", api, "--json"],
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            other = next(node for node in c if node is not leader)
            before = wait_until(lambda: locks_of_a_new_run(other, "&stale=true"), "it runs")
            leader.kill()
            c.leader(but=leader.id)

            seen = set()

            def goes_on():
                """Four clients hold one lock each: of so many names some were released."""
                new = [lock for lock in locks_of_a_new_run(other) if lock not in before]
                seen.update(lock["name"] for lock in new)
                return len(seen) > 16

            wait_until(goes_on, "it goes on with the next leader")
            os.kill(process.pid, signal.SIGINT)
            stdout, stderr = process.communicate(timeout=PATIENCE)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        runs.update(lock["name"].split("/")[1] for lock in before)
        assert process.returncode == 0, stderr
        figures = json.loads(stdout)
        assert figures["errors"] > 0 and figures["reconnects"] > 0 and figures["cycles"] > 0
        leader.start().wait_ready()
        leader = c.leader()
