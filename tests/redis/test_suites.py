"""The lock libraries of others on a cluster, unmodified, with Redis as control. What passes there passes here, or has
a reason in reasons.json."""

import pytest

import table
from conftest import RESULTS
from results import REASONS
from suites import SUITES


def test_suite_finds_what_it_finds_on_redis(suite, result):
    assert result.control, "no test passes on Redis: the suite shows nothing"
    differences = result.differences()
    if differences:
        pytest.fail(f"{suite.name}: mend the cause, or change tests/redis/reasons.json\n" + "\n".join(differences), pytrace=False)


def test_every_reason_belongs_to_a_suite():
    assert set(REASONS) <= {suite.name for suite in SUITES}


def test_the_table_has_every_suite_and_reason(request):
    """The numbers are of the last `make redis-suites TABLE=1`; everything else must be as it would be written now."""
    good = {name: result for name, result in RESULTS.items() if not result.differences()}
    made = table.make(SUITES, good if request.config.getoption("--table") else {}, table.read())
    if request.config.getoption("--table"):
        table.write(made)
    assert table.read() == made, "docs/REDIS.md has another table; after a good run: make redis-suites TABLE=1"
