"""docs/THREATS.md names tests as evidence: each of them exists. And README.md leads to the documents."""

import re

from conftest import ROOT

TESTS = ROOT / "tests"


def named():
    return set(re.findall(r"`((?:test|fuzz)_\w+)`", (ROOT / "docs" / "THREATS.md").read_text(encoding="utf-8")))


def existing():
    found = {path.stem for path in TESTS.rglob("*.[cp]*")}
    for path in TESTS.rglob("test_*.py"):
        found |= set(re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.M))
    return found


def test_the_tests_that_show_it_exist():
    assert len(named()) > 40
    assert not named() - existing()


def test_each_listener_has_a_fuzz_target_in_the_table():
    targets = {path.stem for path in (TESTS / "fuzz").glob("fuzz_*.c")}
    listeners = {"fuzz_http1", "fuzz_http2", "fuzz_service", "fuzz_resp_conn", "fuzz_peer", "fuzz_admin", "fuzz_tls", "fuzz_service_tls"}
    assert listeners <= targets and listeners <= named()


def test_readme_leads_to_them():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(SECURITY.md)" in text and "(docs/THREATS.md)" in text


def test_relative_links_lead_somewhere():
    for path in (ROOT / "SECURITY.md", ROOT / "docs" / "THREATS.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), (path.name, link)
