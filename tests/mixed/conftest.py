"""Fixtures of the tests with two versions of the program. Processes, ports and folders are those of tests/cluster/."""

import importlib.util
import sys
from pathlib import Path

CLUSTER = Path(__file__).resolve().parent.parent / "cluster"
sys.path.insert(0, str(CLUSTER))

spec = importlib.util.spec_from_file_location("cluster_conftest", CLUSTER / "conftest.py")
cluster_conftest = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cluster_conftest)

pytest_configure = cluster_conftest.pytest_configure
tmp_path = cluster_conftest.tmp_path
keep = cluster_conftest.keep
make_cluster = cluster_conftest.make_cluster

from mixed_support import joiner, make_mixed  # noqa: E402, F401
