"""Options, and the results of one run of the suite for all tests."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]

from adapters import LANGUAGES  # noqa: E402
from broken import BROKEN  # noqa: E402
from harness import Ports  # noqa: E402
from scenarios import load  # noqa: E402
from suite import Suite  # noqa: E402


RESULTS = {}


def pytest_addoption(parser):
    parser.addoption("--client", action="append", choices=[language.name for language in LANGUAGES], help="only this client")
    parser.addoption("--table", action="store_true", help="write the table of docs/CLIENTS.md after a run of all scenarios")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: only `make conformance` runs it")


def pytest_generate_tests(metafunc):
    if "scenario" in metafunc.fixturenames:
        metafunc.parametrize("scenario", [pytest.param(one, id=one.name, marks=[pytest.mark.long] if one.long else [])
                                          for one in load()])
    if "broken" in metafunc.fixturenames:
        metafunc.parametrize("broken", [pytest.param(one, id=one.name) for one in BROKEN])


def pytest_terminal_summary(terminalreporter):
    """How long the slowest scenarios took, with their slowest client."""
    took = {name: max((result.seconds, client) for client, result in found.items()) for name, found in RESULTS.items() if found}
    for name, (seconds, client) in sorted(took.items(), key=lambda row: -row[1][0])[:10]:
        terminalreporter.write_line(f"{seconds:6.1f} s {name} ({client})")


@pytest.fixture(scope="session")
def languages(request):
    chosen = request.config.getoption("--client")
    return [language for language in LANGUAGES if not chosen or language.name in chosen]


@pytest.fixture(scope="session")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("conformance")


@pytest.fixture(scope="session")
def results(request, languages, scratch):
    """Of all chosen scenarios, run together: {scenario: {client: Result}}."""
    wanted = {}
    for item in request.session.items:
        given = getattr(item, "callspec", None)
        if given is not None and "scenario" in given.params:
            wanted.setdefault(given.params["scenario"].name, (given.params["scenario"], []))[1].extend(languages)
        elif given is not None and "broken" in given.params:
            one = given.params["broken"]
            scenario = next(scenario for scenario in load() if scenario.name == one.scenario)
            wanted.setdefault(scenario.name, (scenario, []))[1].append(one)
    with Ports():
        RESULTS.update(Suite(list(wanted.values()), scratch).run())
    return RESULTS
