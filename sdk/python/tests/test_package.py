"""The package as users get it: types, Python 3.9, wheel and sdist, README."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from harness import PROGRAM, skip_or_fail

FOLDER = Path(__file__).resolve().parents[1]
MYPY = "/usr/bin/mypy"  # Debian's
NAMED = '"10.0.0.1:4653,10.0.0.2:4653,10.0.0.3:4653"'


def run(*words, cwd=FOLDER, **more):
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, timeout=300, **more)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def blocks_of_the_readme():
    return re.findall(r"^```python\n(.*?)^```", (FOLDER / "README.md").read_text(encoding="utf-8"), re.M | re.S)


def test_the_types_are_strict_and_those_that_an_application_needs(tmp_path):
    builds = PROGRAM.parent  # what mypy learned there makes the next run fast
    cache = builds / "mypy-cache" if os.access(builds, os.W_OK) else tmp_path
    if not Path(MYPY).exists():
        skip_or_fail("mypy is not installed")
    # 3.9: an API of the standard library that came later is an error.
    run(MYPY, "--config-file", "pyproject.toml", "--python-version", "3.9", "--warn-unused-ignores", "--cache-dir", cache,
        "-p", "holdfast", env={"PATH": "/usr/bin", "MYPYPATH": str(FOLDER)})
    run(MYPY, "--strict", "--python-version", "3.9", "--cache-dir", cache, "tests/typed_use.py",
        env={"PATH": "/usr/bin", "MYPYPATH": str(FOLDER)})


def test_the_syntax_is_that_of_python_3_9():
    for file in sorted((FOLDER / "holdfast").rglob("*.py")):
        ast.parse(file.read_text(encoding="utf-8"), str(file), feature_version=(3, 9))


def test_the_package_imports_the_standard_library_only():
    for file in sorted((FOLDER / "holdfast").rglob("*.py")):
        if file.name in ("pytest_plugin.py", "grpc.py"):  # for users of pytest and gRPC
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = ([alias.name for alias in node.names] if isinstance(node, ast.Import)
                     else [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else [])
            for name in names:
                assert name.split(".")[0] in sys.stdlib_module_names, f"{file} imports {name}"


BUILD = "import sys; from setuptools import build_meta as b; print(b.build_{kind}(sys.argv[1]))"


def build(kind, source, to):
    return to / run(sys.executable, "-c", BUILD.format(kind=kind), to, cwd=source).splitlines()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(wheel, sdist, wheel of the sdist), made from a copy of the tree."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    shutil.copytree(FOLDER, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info", ".mypy_cache"))
    for name in ("dist", "again"):
        (folder / name).mkdir()
    wheel, sdist = build("wheel", source, folder / "dist"), build("sdist", source, folder / "dist")
    shutil.unpack_archive(sdist, folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    return wheel, sdist, build("wheel", unpacked, folder / "again")


def test_wheel_and_sdist_have_all_modules_and_the_types(built):
    wheel, sdist, again = built
    files = {name: zipfile.ZipFile(wheel).read(name) for name in zipfile.ZipFile(wheel).namelist()}
    modules = {str(file.relative_to(FOLDER)) for file in (FOLDER / "holdfast").rglob("*") if file.suffix == ".py" or file.name == "py.typed"}
    assert {name for name in files if not name.startswith("holdfast-")} == modules
    (metadata,) = [data.decode() for name, data in files.items() if name.endswith("/METADATA")]
    assert "Requires-Python: >=3.9" in metadata and "Requires-Dist" not in metadata
    of_the_sdist = {name: zipfile.ZipFile(again).read(name) for name in zipfile.ZipFile(again).namelist()}
    assert {name: data for name, data in of_the_sdist.items() if "/RECORD" not in name} == {
        name: data for name, data in files.items() if "/RECORD" not in name}
    names = tarfile.open(sdist).getnames()
    assert any(name.endswith("/README.md") for name in names)


def test_the_wheel_is_installed_and_the_readme_runs(built, cluster, tmp_path):
    venv = tmp_path / "venv"
    # The packages of the system are there for pytest.
    run("/usr/bin/python3", "-m", "venv", "--system-site-packages", venv, cwd=tmp_path)
    run(venv / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", built[0], cwd=tmp_path)
    first, second = blocks_of_the_readme()
    assert NAMED in first
    endpoints = ",".join(node.client for node in cluster)
    writer = "def write_balance(fence):\n    print('fence', fence > 0)\n\n\n"
    (tmp_path / "first.py").write_text(writer + first.replace(NAMED, repr(endpoints)), encoding="utf-8")
    assert run(venv / "bin/python", "first.py", cwd=tmp_path) == "fence True\n"
    worker = "import holdfast\nimport pytest\n\n\ndef work(lock):\n    lock.check()\n\n\n"
    (tmp_path / "test_second.py").write_text(worker + second, encoding="utf-8")
    where = run(venv / "bin/python", "-c", "import holdfast; print(holdfast.__file__)", cwd=tmp_path)
    assert where.startswith(str(venv))
    assert "1 passed" in run(venv / "bin/python", "-m", "pytest", "-p", "no:cacheprovider", "test_second.py", cwd=tmp_path)


def test_each_call_of_the_readme_exists():
    """The table has calls in words; here they run, on the fake."""
    import holdfast
    from holdfast.testing import FakeCluster
    rows = re.findall(r"`(client\.\w+)\(", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert rows
    with FakeCluster().client() as client:
        for row in rows:
            assert callable(getattr(client, row.split(".")[1])), row
    with FakeCluster().client() as client:  # as the project presents it
        with client.lock("wallet:user_123", ttl=30, tier=holdfast.CORRECTNESS) as lock:
            assert lock.fence_token > 0
