"""Every client follows the rules of docs/CLIENTS.md, as far as a scenario shows them (README.md)."""

import pytest

import table
from harness import skip_or_fail
from scenarios import known_rules, load


def test_every_client_is_here(languages, scratch):
    """Without one of them the suite shows nothing about it, and must say so."""
    from adapters import Missing
    missing = []
    for language in languages:
        try:
            language.hello(scratch)
        except Missing as problem:
            missing.append(f"{language.title}: {problem}")
    if missing:
        skip_or_fail("; ".join(missing))


def test_clients_follow(scenario, languages, results):
    found = results[scenario.name]
    failed = [f"{language.title}: {found[language.name].text}" for language in languages if found[language.name].state == "failed"]
    if failed:
        pytest.fail(f"{scenario.title} ({', '.join(scenario.rules)})\n" + "\n".join(failed), pytrace=False)


def test_broken_clients_fail(broken, results):
    result = results[broken.scenario][broken.name]
    assert result.state == "failed", f"{broken.scenario} does not find: {broken.change.__doc__}"
    assert broken.says in result.text, result.text


def test_the_table_is_current(request, languages, results, scratch):
    """docs/CLIENTS.md shows what these runs found; what was not run now is as `make conformance` left it."""
    if len(languages) < len(table.LANGUAGES):
        pytest.skip("only some clients were chosen")
    made = table.make(load(), results, scratch, table.read())
    if request.config.getoption("--table"):
        table.write(made)
    assert table.read() == made, "docs/CLIENTS.md has another table; after a good run: make conformance TABLE=1"


def test_rules_without_a_scenario_are_listed():
    shown = {rule for scenario in load() for rule in scenario.rules}
    forgotten = set(known_rules()) - shown - set(table.UNSHOWN)
    assert not forgotten, f"write scenarios for {sorted(forgotten)}, or rows in UNSHOWN of table.py; then make conformance TABLE=1"
    assert set(table.UNSHOWN) == set(known_rules()) - shown
