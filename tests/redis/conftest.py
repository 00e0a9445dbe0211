"""Options, and the results of one run of each suite."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]

import results  # noqa: E402
from harness import skip_or_fail  # noqa: E402
from suites import SUITES  # noqa: E402

AT_A_TIME = 2
RESULTS = {}


def pytest_addoption(parser):
    parser.addoption("--suite", action="append", choices=[suite.name for suite in SUITES], help="only this suite")
    parser.addoption("--table", action="store_true", help="write the table of docs/REDIS.md")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: only `make redis-suites` runs it")


def pytest_generate_tests(metafunc):
    if "suite" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--suite")
        metafunc.parametrize("suite", [pytest.param(suite, id=suite.name, marks=[] if suite.short else [pytest.mark.long])
                                       for suite in SUITES if not chosen or suite.name in chosen])


def pytest_terminal_summary(terminalreporter):
    for name, result in RESULTS.items():
        terminalreporter.write_line(f"{name}: {len(result.control)} pass on Redis, {len(result.passing)} of these here")


@pytest.fixture(scope="session")
def spaces():
    if results.namespaces() is None:
        pytest.skip("this machine lets us make no network namespaces")


@pytest.fixture(scope="session")
def runs(request, spaces, tmp_path_factory):
    """Of all chosen suites, several at a time, because most tests wait: {suite: future of a Result}."""
    chosen = [item.callspec.params["suite"] for item in request.session.items
              if "suite" in getattr(item, "fixturenames", ())]
    folder = tmp_path_factory.mktemp("suites")
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        futures = {suite.name: pool.submit(results.run, suite, folder / suite.name) for suite in chosen}
        yield futures
        for future in futures.values():
            future.cancel()


@pytest.fixture
def result(suite, runs):
    try:
        RESULTS[suite.name] = runs[suite.name].result()
    except results.Missing as problem:
        skip_or_fail(str(problem))
    return RESULTS[suite.name]
