"""Runs the commands of the chapter "Credentials" of docs/OPERATION.md on a node with auth = on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from documents import read_blocks

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cluster"))
from harness import PATIENCE, PROGRAM, ROOT, Cluster, Ports, environment  # noqa: E402

PAGE = ROOT / "docs" / "OPERATION.md"


@pytest.fixture
def node(tmp_path):
    with Ports():
        cluster = Cluster(tmp_path, 1, ("--auth", "on"))
        try:
            yield cluster.start().nodes[1]
        finally:
            for one in cluster:
                one.close_ready()
                if one.running:
                    one.kill()


def test_the_commands_about_credentials_run(node, tmp_path):
    env = environment(HOLDFAST_ENDPOINTS=node.client, HOLDFAST_TOKEN_FILE=tmp_path / "admin.token",
                      PATH=f"{Path(PROGRAM).parent}:{os.environ['PATH']}")

    def sh(script):
        done = subprocess.run(["bash", "-ec", script.replace("/var/lib/holdfast", str(node.folder))], cwd=tmp_path, env=env,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    blocks = read_blocks(PAGE)
    first, policy, tokens = (block.text for block in blocks if Path(__file__).name in block.reason)
    assert "default/admin" in sh(first)

    # `auth apply` gets the file that the page shows, with the version in force.
    show, apply = policy.split("\n", 1)
    sh(show)
    (shown,) = [json.loads(block.text) for block in blocks if block.language == "json" and "principals" in block.text]
    shown["version"] = json.loads((tmp_path / "policy.json").read_text(encoding="utf-8"))["version"]
    (tmp_path / "policy.json").write_text(json.dumps(shown), encoding="utf-8")
    assert "web/shop" in sh(apply)

    create, listed, revoke = tokens.strip().split("\n")
    sh(create)
    assert "shop, rack 2" in sh(listed)
    (row,) = json.loads(sh(f"{listed} --json"))["tokens"]
    command, number = revoke.rsplit(" ", 1)
    assert number.isdigit()
    sh(f"{command} {row['number']}")
    assert not json.loads(sh(f"{listed} --json"))["tokens"]
