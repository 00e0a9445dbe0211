"""Reads contrib/container/Dockerfile."""

import re
from pathlib import Path

DOCKERFILE = Path(__file__).resolve().parents[2] / "contrib/container/Dockerfile"
NAMES = {"FROM", "RUN", "COPY", "WORKDIR", "USER", "VOLUME", "ENV", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


def instructions():
    """[(stage, instruction, arguments)], with continued lines joined."""
    found, stage = [], -1
    text = re.sub(r"\\\n", " ", DOCKERFILE.read_text(encoding="utf-8"))
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.partition(" ")
        assert name in NAMES, line
        stage += name == "FROM"
        found.append((stage, name, rest.strip()))
    return found


def last_stage():
    """The same of the image: [(instruction, arguments)]."""
    lines = instructions()
    return [(name, rest) for stage, name, rest in lines if stage == lines[-1][0]]
