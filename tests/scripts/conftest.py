"""What the script tests share: the repository's path and a way to run things."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def run(*command, cwd=ROOT, timeout=120, **environment):
    """Runs a command; its output and error output come back as one text."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )


def write(path, text, executable=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if executable:
        path.chmod(0o755)
    return path


@pytest.fixture
def os_release():
    lines = Path("/etc/os-release").read_text().splitlines()
    return dict(line.replace('"', "").split("=", 1) for line in lines if "=" in line)
