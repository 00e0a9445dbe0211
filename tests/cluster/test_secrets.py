"""Tokens and private keys are nowhere but where they must be: not in logs, process lists, environments, the data folder,
metrics, answers, error texts, nor in memory that a core file has."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
import redis

from harness import PATIENCE, PROGRAM, Node, free_ports, run, wait_until
from secure import Authority, openssl

IS_SANITIZED = b"__asan_init" in Path(PROGRAM).read_bytes()


@pytest.fixture(scope="module", name="ca")
def one_authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(name="node")
def one_node(keep, tmp_path, ca):
    client, peer = free_ports(2)
    flags = ["--bootstrap", "--cluster-name", "test", "--auth", "on", "--log-level", "debug", *ca.flags(ca.node(1))]
    node = keep(Node(1, tmp_path / "node", client, peer, flags))
    node.tls = ca.context()
    node.start().wait_ready()
    return node


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def administrator(node, folder, ca):
    """The file of the first administrator's token, and the flags of a command that uses it."""
    file = folder / "admin.token"
    done = run("auth", "bootstrap", "--data", node.folder, "--out", file)
    assert done.returncode == 0, done
    return file, ["--endpoints", node.client, "--ca", ca.ca, "--token-file", file]


def descendants(pid):
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            found += descendants(int(child))
    return found


def traces(pid):
    """What other users, or tools that list processes, may see."""
    return {name: Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ", "comm")}


def test_a_token_is_in_no_log_process_list_file_or_answer(node, tmp_path, ca):
    file, flags = administrator(node, tmp_path, ca)
    admin = file.read_text(encoding="ascii").strip()
    made = run("token", "create", "default/admin", "--out", tmp_path / "second.token", *flags)
    assert made.returncode == 0, made
    second = (tmp_path / "second.token").read_text(encoding="ascii").strip()
    wrong = "hf_" + "Wr0ng" * 8 + "abc"
    secrets = [admin, second, wrong]
    said = [made.stdout, made.stderr]

    node.headers = bearer(admin)
    assert node.request("GET", "/api/v1/auth/whoami").status == 200
    for headers in (bearer(wrong), bearer(second + "x"), {"Authorization": second}, {"Authorization": f"Basic {second}"},
                    {**bearer(second), "Holdfast-Tenant": "nobody"}, {**bearer(second), "X-Bad\x01": "y"}):
        answer = node.request("GET", "/api/v1/locks", headers=headers)
        assert answer.status in (400, 401, 403), answer
        said.append(answer.text)
    with redis.Redis(port=node.resp_port, ssl=True, ssl_ca_certs=str(ca.ca)) as client:
        for arguments in (("AUTH", "default/admin", wrong), ("AUTH", wrong), ("AUTH", "default/admin", second, "more"),
                          ("HELLO", "3", "AUTH", "default/admin", wrong)):
            with pytest.raises(redis.RedisError) as error:
                client.execute_command(*arguments)
            said.append(str(error.value))
        assert client.execute_command("AUTH", "default/admin", second)
        client.set("a", "x", nx=True, px=60000)
        said.append(str(client.execute_command("CLIENT", "LIST")) + str(client.execute_command("INFO")))

    holder = subprocess.Popen([PROGRAM, "lock", *map(str, flags), "held", "--", "sleep", "600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: node.show("held").json["held"], "the command holds its lock")
        processes = descendants(holder.pid) + [node.process.pid]
        assert len(processes) >= 3
        for pid in processes:
            for where, bytes_ in traces(pid).items():
                assert not any(secret.encode() in bytes_ for secret in secrets), (pid, where)
    finally:
        holder.send_signal(signal.SIGTERM)
        said += [text.decode() for text in holder.communicate(timeout=PATIENCE)]

    for path in ("/metrics", "/api/v1/cluster", "/api/v1/audit", "/api/v1/auth/policy", "/api/v1/auth/tokens", "/api/v1/sessions", "/"):
        said.append(node.request("GET", path).text)
    node.take_snapshot()
    said.append(node.log())
    assert all(secret not in text for secret in secrets for text in said)
    assert node.stop() == 0
    files = [path for path in node.folder.rglob("*") if path.is_file()]
    assert len(files) >= 2  # log, snapshot
    for path in files:
        bytes_ = path.read_bytes()
        assert not any(secret.encode() in bytes_ for secret in secrets), path


def regions(pid):
    """(start, end, is left out of core files) of the readable memory."""
    found, current = [], None
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8", errors="replace").splitlines():
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (r\S+|\S+) \S+ \S+ \S+\s*(.*)", line)
        if head:
            current = (int(head[1], 16), int(head[2], 16), head[3].startswith("r"), head[4])
        elif line.startswith("VmFlags:") and current and current[2] and current[3] not in ("[vvar]", "[vsyscall]"):
            found.append((current[0], current[1], "dd" in line.split()))
    return found


@pytest.mark.skipif(IS_SANITIZED, reason="the sanitizer keeps freed memory")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the memory of a node")
def test_a_private_key_is_only_in_memory_that_core_files_leave_out(node, ca):
    text = openssl("ec", "-in", ca.folder / "node-1-key.pem", "-noout", "-text")
    scalar = bytes.fromhex(re.search(r"priv:\s*([0-9a-f:\s]+?)\s*pub:", text)[1].replace(":", "").replace("\n", "").replace(" ", ""))[-32:]
    pem = (ca.folder / "node-1-key.pem").read_text(encoding="ascii").splitlines()[1].encode()
    forms = {"as in a file": scalar, "as a number": scalar[::-1], "as PEM": pem}
    assert node.request("GET", "/livez").status == 200  # it was used
    node.signal(signal.SIGHUP)
    node.wait_event("settings_read_again")
    inside, outside = set(), set()
    try:
        with open(f"/proc/{node.process.pid}/mem", "rb") as memory:
            for start, end, is_left_out in regions(node.process.pid):
                try:
                    memory.seek(start)
                    bytes_ = memory.read(end - start)
                except (OSError, ValueError):
                    continue
                (inside if is_left_out else outside).update(form for form, value in forms.items() if value in bytes_)
    except PermissionError:
        pytest.skip("this machine does not let root read the memory of other processes")
    assert inside, "the key was not found: this test does not know its form any more"
    assert not outside, f"the key is in ordinary memory, {outside}"
