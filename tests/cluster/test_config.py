"""Settings: flags beat the environment, which beats the file, which beats the default; what is wrong is
said with its place."""

import signal

import pytest

from harness import environment, run, wait_until


TLS = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--tls-ca", "ca.pem"]


def check(*flags, **env):
    done = run("serve", "--check", *flags, env=environment(**env))
    settings = dict(line.split(" = ", 1) for line in done.stdout.splitlines() if " = " in line)
    return done, settings


def test_flags_beat_environment_beats_file_beats_default(tmp_path):
    file = tmp_path / "holdfast.ini"
    file.write_text("ttl-min = 2s\nrequest-timeout = 4s\nheartbeat = 20ms\n")
    done, settings = check("--config", file, "--ttl-min", "7s",
                           HOLDFAST_TTL_MIN="6s", HOLDFAST_REQUEST_TIMEOUT="5s")
    assert done.returncode == 0, done.stderr
    assert settings["ttl-min"] == "7s"
    assert settings["request-timeout"] == "5s"
    assert settings["heartbeat"] == "20ms"
    assert settings["election-timeout"] == "300ms"


def test_the_file_may_be_named_by_the_environment_and_lists_may_go_on(tmp_path):
    file = tmp_path / "holdfast.ini"
    file.write_text("# a comment\nid = 2\ncluster = 1=10.0.0.1:4654,\n    2=127.0.0.1:4654\n"
                    "    3=[::1]:4654\n")
    done, settings = check(HOLDFAST_CONFIG=file)
    assert done.returncode == 0, done.stderr
    assert settings["peer"] == "127.0.0.1:4654"
    assert settings["cluster"] == "1=10.0.0.1:4654,2=127.0.0.1:4654,3=[::1]:4654"


def test_what_is_wrong_in_a_file_is_said_with_line_and_key(tmp_path):
    file = tmp_path / "holdfast.ini"
    file.write_text("id = 1\n\nelection-timeout = soon\nno-such-thing = 1\nheartbeat\n[web]\nid = 2\n")
    done, _ = check("--config", file)
    assert done.returncode == 64
    assert f'{file}:3: election-timeout: "soon" is not a duration' in done.stderr
    assert f"{file}:4: no-such-thing: there is no such setting" in done.stderr
    assert f"{file}:5: this is not `name = value`" in done.stderr
    assert f"{file}:7: id: sections like [web] are not supported" in done.stderr
    assert all(line.startswith("holdfast: ") for line in done.stderr.splitlines())


# Every rule there is, broken by one line of a file: the place and the key are named, whichever rule it is.
BROKEN = [
    ("id = 0", "must be 1 to 4294967295"),
    ("id = -1", "is not a number"),
    ("id = 1x", "is not a number"),
    ("id = 99999999999999999999", "is not a number"),
    ("data = ", "must not be empty"),
    ("data = /" + "d" * 4200, None),
    ("client = 127.0.0.1", "is not an address"),
    ("client = 127.0.0.1:70000", "is not an address"),
    ("client = 192.0.2.1:4653", "allow it with --insecure"),
    ("client = no-such-host.invalid:1", "cannot be resolved"),
    ("peer = [::1:4654", "is not an address"),
    ("peer = 192.0.2.1:4654", "allow it with --insecure"),
    ("resp = nonsense", "is not an address"),
    ("resp = 192.0.2.1:4655", "allow it with --insecure"),
    ("resp-password = " + "p" * 129, '"..." is not a password of at most 128 bytes'),
    ("resp-tier = fast", "is not correctness or efficiency"),
    ("resp-del = perhaps", "is not allow or refuse"),
    ("advertise-client = nonsense", "must be HOST:PORT"),
    ("advertise-client = :4653", "must be HOST:PORT"),
    ("peer-secret-required = off", "needs peer-secret-file"),
    ("peer-secret-required = perhaps", "is not on or off"),
    ("peer-secret-file = /" + "d" * 4200, None),
    ("cluster = nonsense", '"nonsense" is not ID=HOST:PORT'),
    ("cluster = 0=127.0.0.1:1", "is not ID=HOST:PORT"),
    ("cluster = 1=127.0.0.1:0", "is not ID=HOST:PORT"),
    ("cluster = 1=a:1,1=b:2", "node 1 is named twice"),
    ("cluster = 2=127.0.0.1:1", "does not name node 1"),
    ("cluster-name = ", "must be 1 to 64 characters without quotes"),
    ('cluster-name = a"b', "must be 1 to 64 characters without quotes"),
    ("cluster-name = " + "n" * 65, "is not short enough"),
    ("bootstrap = perhaps", "is not true or false"),
    ("join = true", "needs --cluster"),
    ("insecure = 2", "is not true or false"),
    ("election-timeout = 99ms", "must be at least twice the heartbeat"),
    ("election-timeout = 61s", "at most 60 s"),
    ("election-timeout = soon", "is not a duration"),
    ("heartbeat = 1ms", "must be 5 ms to 10 s"),
    ("heartbeat = 5d", "is not a duration"),
    ("request-timeout = 10ms", "must be 100 ms to 10 m"),
    ("slow-request = 11m", "must be 0 to 10 m"),
    ("ttl-min = 99ms", "must be 100 ms to 24 h"),
    ("ttl-min = 25h", "must be 100 ms to 24 h"),
    ("resp-value-max = 1K", "must be 4 KiB to 64 KiB"),
    ("resp-value-max = 65K", "must be 4 KiB to 64 KiB"),
    ("resp-value-max = 5K\nresp-tier = efficiency", "must be 4 KiB (with resp-tier = efficiency)"),
    ("snapshot-log-size = 1K", "must be 64 KiB to 1 TiB"),
    ("snapshot-log-size = much", "is not a size"),
    ("snapshot-log-size = 999999999999999G", "is not a size"),
    ("request-timeout = 999999999999999h", "is not a duration"),
    ("segment-size = 8M", "must be 9 MiB to 1 GiB"),
    ("segment-size = 16777217", "must be a multiple of 4096"),
    ("connections-max-bytes = 1M", "must be 0, or 16 MiB to 1 TiB"),
    ("state-max = 1K", "must be 0, or 1 MiB to 1 TiB"),
    ("state-max = 2T", "is not a size"),
    ("state-max = plenty", "is not a size"),
    ("events-max-bytes = 1K", "must be 0, or 1 MiB to 1 TiB"),
    ("events-max-bytes = all", "is not a size"),
    ("events-max-age = 1s", "must be 1 m to 87600 h"),
    ("events-max-age = 30d", "is not a duration"),
    ("max-clients = 0", "must be 1 to 1,000,000"),
    ("log-format = xml", "is not json or text"),
    ("log-level = loud", "a level must be one of"),
    ("log-level = kitchen=info", "a subsystem must be one of"),
    ("check = true", "there is no such setting"),
    ("config = other.ini", "there is no such setting"),
    ("no-such-thing = 1", "there is no such setting"),
]


BROKEN += [
    ("sink-file = /tmp/x/", "must be the name of a file"),
    ("sink-file-max-bytes = 1K\nsink-file = /tmp/x", "must be 64 KiB to 1 TiB"),
    ("sink-file-keep = 1001\nsink-file = /tmp/x", "must be 0 to 1000"),
    ("sink-kafka-topic = a b\nsink-kafka-brokers = a:1", "must be 1 to 249 letters"),
    ("sink-kafka-config = a", "is only valid with sink-kafka-brokers"),
    ("sink-webhook-secret-file = a", "is only valid with sink-webhook-url"),
    ("sink-webhook-url = ftp://a/", "must begin with https://"),
    ("sink-webhook-url = https://a/", "needs sink-webhook-secret-file"),
    ("sink-webhook-timeout = 1ms\nsink-webhook-url = https://a/\nsink-webhook-secret-file = s", "must be 100 ms to 5 m"),
    ("sink-webhook-http = maybe", "is not refuse or allow"),
    ("sink-webhook-ca = x", "is only valid with sink-webhook-url"),
    ("sink-prefix = a/", "is only valid with sink-file, sink-kafka-brokers or sink-webhook-url"),
    ("events-max-bytes = 0\nsink-file = /tmp/x", "sinks read the event log"),
]


@pytest.mark.parametrize("line, said", BROKEN, ids=[line[:40] for line, _ in BROKEN])
def test_every_rule_is_checked_and_blamed_on_its_line(tmp_path, line, said):
    file = tmp_path / "holdfast.ini"
    file.write_text(f"# the first line\n\n{line}\n")
    done, _ = check("--config", file)
    assert done.returncode == 64 and not done.stdout
    key = line.split(" ", 1)[0]
    blamed = [m for m in done.stderr.splitlines() if m.startswith(f"holdfast: {file}:3: ")]
    if said is None:  # longer than any line may be
        assert any("the line is too long" in m for m in blamed), done.stderr
    else:
        assert any(f":3: {key}: " in m and said in m for m in blamed), done.stderr


def test_the_environment_and_flags_are_blamed_by_name():
    done, _ = check(HOLDFAST_HEARTBEAT="1ms")
    assert "holdfast: HOLDFAST_HEARTBEAT: must be 5 ms to 10 s" in done.stderr
    done, _ = check("--heartbeat", "1ms", HOLDFAST_HEARTBEAT="50ms")
    assert "holdfast: --heartbeat: must be 5 ms to 10 s" in done.stderr
    done, _ = check("--bootstrap", "--join", "--cluster", "1=127.0.0.1:1")
    assert "holdfast: --join: cannot be combined with bootstrap" in done.stderr


def test_all_that_is_wrong_is_said_at_once(tmp_path):
    file = tmp_path / "holdfast.ini"
    file.write_text("heartbeat = 1ms\nttl-min = 25h\nmax-clients = 0\n")
    done, _ = check("--config", file)
    for line, key in enumerate(("heartbeat", "ttl-min", "max-clients"), 1):
        assert f"{file}:{line}: {key}: must be" in done.stderr


def test_what_check_prints_can_be_read_again(tmp_path):
    done, settings = check("--heartbeat", "20ms", "--log-level", "debug",
                           "--snapshot-log-size", "67108865")
    file = tmp_path / "again.ini"
    file.write_text(done.stdout)
    again, same = check("--config", file)
    assert again.returncode == 0, again.stderr
    assert same == settings and same["heartbeat"] == "20ms"
    assert same["snapshot-log-size"] == "67108865"


@pytest.mark.parametrize("text, bytes_", [
    ("99999999", 99999999), ("16777216", "16MiB"), ("0.5G", "512MiB"), ("20M", "20MiB"),
    ("1024KiB", "1MiB"), ("1000G", "1024000MiB"), ("1.5M", 1572864),
])
def test_sizes_are_read_as_people_write_them(text, bytes_):
    done, settings = check("--snapshot-log-size", text)
    assert done.returncode == 0, done.stderr
    assert settings["snapshot-log-size"] == str(bytes_)


@pytest.mark.parametrize("flags, said", [
    (["--no-such-flag"], "--no-such-flag: there is no such flag"),
    (["--id"], "--id: a value is missing"),
    (["--id", "zero"], '--id: "zero" is not a number'),
    (["--id", "0"], "id: must be 1 to"),
    (["--client", "nonsense"], '"nonsense" is not an address'),
    (["--client", "0.0.0.0:4653"], "allow it with --insecure"),
    (["--client", ":4653"], "allow it with --insecure"),
    (["--client", ":4653"], "nothing authenticates clients there: set auth = on, and tls-cert"),
    (["--client", ":4653", "--auth", "on"], "tokens would pass in clear text: set tls-cert"),
    (["--client", ":4653", *TLS], "nothing authenticates clients there: set auth = on;"),
    (["--resp", ":4655", *TLS], "nothing authenticates clients there: set auth = on;"),
    (["--peer", ":4654"], "nothing authenticates nodes there: set tls-cert"),
    (["--peer", ":4654", "--auth", "on", "--peer-secret-file", "f"], "the peer secret protects only the start of a connection"),
    (["--peer", "no-such-host.invalid:1"], "cannot be resolved"),
    (["--cluster", "1=a:1,1=b:2"], "node 1 is named twice"),
    (["--cluster", "2=127.0.0.1:1"], "does not name node 1"),
    (["--cluster", "1=127.0.0.1"], '"1=127.0.0.1" is not ID=HOST:PORT'),
    (["--heartbeat", "200ms"], "election-timeout: must be at least twice the heartbeat"),
    (["--log-level", "loud"], "log-level: a level must be one of"),
    (["--log-level", "kitchen=info"], "log-level: a subsystem must be one of"),
    (["--join"], "join: needs --cluster"),
    (["--segment-size", "1K"], "segment-size: must be"),
    (["--config", "/no/such/file"], "/no/such/file: cannot be read"),
])
def test_wrong_settings_are_refused_with_the_reason(flags, said):
    done, _ = check(*flags)
    assert done.returncode == 64
    assert said in done.stderr
    assert not done.stdout


def test_insecure_allows_every_address():
    done, settings = check("--insecure", "--client", ":4653")
    assert done.returncode == 0 and settings["client"] == ":4653"
    done, _ = check("--insecure", "--client", ":4653", "--peer", ":4654", "--resp", ":4655", "--auth", "on")
    assert done.returncode == 0, done.stderr


def test_credentials_allow_every_address():
    everywhere = ["--client", ":4653", "--peer", ":4654", "--resp", ":4655"]
    done, _ = check(*everywhere, *TLS, "--auth", "on")
    assert done.returncode == 0, done.stderr
    # A password of the Redis protocol is a credential, but no substitute for TLS where tokens are sent.
    done, _ = check("--resp", ":4655", HOLDFAST_RESP_PASSWORD="secret")
    assert done.returncode == 0, done.stderr
    done, _ = check("--resp", ":4655", "--auth", "on", HOLDFAST_RESP_PASSWORD="secret")
    assert done.returncode == 64 and "resp: other machines can reach :4655, and tokens would pass" in done.stderr


def test_usage_errors_are_64_and_help_is_not_an_error():
    for words in (["bogus"], []):
        assert run(*words).returncode == 64
    assert 'did you mean "serve"?' in run("serv").stderr
    for words in (["--help"], ["serve", "--help"], ["dev", "--help"], ["--version"]):
        done = run(*words)
        assert done.returncode == 0 and done.stdout and not done.stderr
    assert run("dev", "--nodes", "77").returncode == 64


def test_log_levels_change_at_run_time(make_cluster, tmp_path):
    file = tmp_path / "holdfast.ini"
    file.write_text("log-level = info\n")
    cluster = make_cluster(1, "--config", file)
    node = cluster.nodes[1]
    assert not node.events("client_connected")
    file.write_text("log-level = info,client=debug,lock=info\n")
    node.signal(signal.SIGHUP)
    node.wait_event("settings_read_again")
    assert node.acquire("logged", client="worker-7", ttl_ms=60000).json["acquired"]
    node.wait_event("client_connected")
    said = node.wait_event("lock_acquired")[0]
    assert said["resource"] == "logged" and said["clientId"] == "worker-7"
    assert said["ownerId"] == "worker-7"
    assert said["fencingToken"] > 0 and said["leaseId"] and said["ttlSeconds"] == 60
    assert said["node"] == 1 and said["term"] >= 1 and said["level"] == "info"
    file.write_text("log-level = nonsense\n")
    node.signal(signal.SIGHUP)
    node.wait_event("settings_wrong")


def test_log_levels_change_by_a_call(make_cluster):
    cluster = make_cluster(2)
    node = cluster.nodes[1]
    before = node.request("GET", "/api/v1/log-level").json
    assert before["node"] == 1 and before["levels"]["lock"] == "warn", before
    after = node.request("PUT", "/api/v1/log-level", {"log_level": "lock=info,client=debug"}).json
    assert after["levels"] == {**before["levels"], "lock": "info", "client": "debug"}
    assert node.events("log_level_changed")[0]["log_level"] == "lock=info,client=debug"
    assert node.request("GET", "/api/v1/log-level").json == after
    wait_until(lambda: node.events("client_connected"), "more is said")
    # Nobody else is concerned.
    assert cluster.nodes[2].request("GET", "/api/v1/log-level").json["levels"] == before["levels"]
    for body in ({"log_level": "loud"}, {"log_level": "kitchen=info"}, {"log_level": "=debug"}):
        answer = node.request("PUT", "/api/v1/log-level", body)
        assert answer.status == 400 and answer.json["error"]["code"] == "field_range", answer
    assert node.request("PUT", "/api/v1/log-level", {"log_level": "off"}).status == 200
    said = len(node.log())
    assert node.acquire("quiet").json["acquired"]
    assert node.log()[said:] == ""


def test_the_log_goes_to_a_file_that_is_opened_anew_on_sighup(make_cluster, tmp_path):
    import signal

    file, moved = tmp_path / "node.log", tmp_path / "node.log.1"
    cluster = make_cluster(1, "--log-file", file)
    node = cluster.nodes[1]
    assert '"event":"ready"' in file.read_text() and node.log() == ""
    file.rename(moved)
    node.signal(signal.SIGHUP)
    wait_until(lambda: file.exists() and "settings_read_again" in file.read_text(), "a new file")
    assert "settings_read_again" not in moved.read_text()
    node.request("PUT", "/api/v1/log-level", {"log_level": "client=debug"})
    assert "log_level_changed" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_log_file_that_cannot_be_written_is_said_at_the_start(tmp_path):
    done = run("serve", "--data", tmp_path / "data", "--log-file", tmp_path / "no" / "such.log")
    assert done.returncode == 1 and "log-file: " in done.stderr and "cannot be written" in done.stderr
    assert not (tmp_path / "data").exists()


def test_text_lines_for_people(make_cluster):
    cluster = make_cluster(1, "--log-format", "text")
    assert " info  node 1 node     ready leader=1" in cluster.nodes[1].log()
