"""The table of docs/CLIENTS.md: each scenario with its rules, and what each client did."""

from adapters import LANGUAGES, Failed, Missing
from scenarios import RULES

BEGIN = "<!-- The table is made by `make conformance TABLE=1`. -->"
END = "<!-- End of the table. -->"

# Rules that no scenario shows, and what does.
UNSHOWN = {
    "C1.1": "a machine cannot be suspended in a test; each adapter names its clock in its hello",
    "C1.2": "the clock of a node cannot be set apart in a test; no time of an answer is an input of the deadlines",
}


def read():
    text = RULES.read_text(encoding="utf-8")
    return text[text.index(BEGIN) + len(BEGIN):text.index(END)]


def write(made):
    text = RULES.read_text(encoding="utf-8")
    RULES.write_text(text[:text.index(BEGIN) + len(BEGIN)] + made + text[text.index(END):], encoding="utf-8")


def _cells(text):
    """The cells of a table by the first cell of their rows."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: row for row in rows}


def _cell(scenario, language, results, folder, earlier):
    result = results.get(scenario.name, {}).get(language.name)
    if result is not None and result.state != "unsupported":
        return "pass" if result.state == "passed" else result.state
    try:
        lacking = scenario.lacking(language.hello(folder)["features"])
    except (Missing, Failed):
        return "missing"
    return f"no {', '.join(lacking)}" if lacking else earlier


def make(scenarios, results, folder, before):
    """What was not run now keeps its cell of the table before."""
    earlier = _cells(before)
    head = ["scenario", "rules", *[language.title for language in LANGUAGES]]
    lines = [head, ["---"] * len(head)]
    for scenario in scenarios:
        old = earlier.get(scenario.title, [])
        cells = [_cell(scenario, language, results, folder, old[column] if len(old) == len(head) else "not run")
                 for column, language in enumerate(LANGUAGES, 2)]
        lines.append([scenario.title, ", ".join(scenario.rules), *cells])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    unshown = "\n".join(f"- {rule}: {how}" for rule, how in UNSHOWN.items())
    return f"\n{table}\n\nNo scenario shows these rules:\n\n{unshown}\n"
