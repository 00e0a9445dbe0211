"""The hot path did not become longer: instructions, which are the same on a busy machine."""

import subprocess

from conftest import ROOT


def test_an_acquire_and_a_release_take_no_more_instructions_than_known():
    result = subprocess.run([ROOT / "bench" / "hotpath.py"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    for protocol in ("grpc", "http", "resp"):
        assert f"{protocol}: " in result.stdout, result.stdout
