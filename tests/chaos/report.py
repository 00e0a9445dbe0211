"""The report of a chaos run: Markdown for people, JSON for programs, SVG for the eye."""

import json
import statistics

HOUR_MS = 3600 * 1000
SHOWN = 50  # violations in the Markdown; the JSON has all


def percent(part, whole):
    return f"{100 * part / whole:.2f} %" if whole else "-"


def markdown(r):
    lines = [
        "# Chaos on real processes", "",
        f"`{r['command']}`: seed {r['seed']}, {r['seconds']:.0f} s of faults on {r['machines']} nodes, "
        f"{r['cores']} cores, load {r['load']} before and {r['load_after']} after.", "",
        f"**{len(r['violations'])} violations.** {r['operations']} operations in the history, {r['grants']} grants, "
        f"{len(r['faults'])} faults.", "",
    ]
    lines += [f"- {text}" for text in r["notes"]]
    lines += ["", f"![availability over time]({r['svg']})", "", "## Availability", "",
              f"{r['slots_served']} of {r['slots']} slots of 100 ms had a successful acquire while faults were "
              f"injected: {percent(r['slots_served'], r['slots'])}.", ""]
    kills = [f["failover_ms"] for f in r["faults"] if f["kind"] == "kill the leader" and f["failover_ms"] is not None]
    if kills:
        worst = max(kills)
        lines += [f"One killed leader an hour, at the slowest failover seen here ({worst:.0f} ms), leaves "
                  f"{100 - 100 * worst / HOUR_MS:.4f} % (aim: 99.99 %).", ""]
    lines += ["## Faults", "",
              "Failover: from the moment the leader is struck to the first answer of an acquire that was sent after "
              "it. Gap: the longest time in which no acquire was granted, from the fault until 1 s after its end.", "",
              "| fault | times | failover, median ms | slowest ms | longest gap ms |", "|---|---|---|---|---|"]
    for kind in dict.fromkeys(fault["kind"] for fault in r["faults"]):
        same = [fault for fault in r["faults"] if fault["kind"] == kind]
        took = [fault["failover_ms"] for fault in same if fault["failover_ms"] is not None]
        middle, most = (f"{statistics.median(took):.0f}", f"{max(took):.0f}") if took else ("-", "-")
        gap = max(fault["gap_ms"] for fault in same)
        lines.append(f"| {kind} | {len(same)} | {middle} | {most} | {gap:.0f} |")
    lines += ["", "## Operations", "", "| call | ok | refused | unknown | error |", "|---|---|---|---|---|"]
    for kind, row in r["outcomes"].items():
        lines.append(f"| {kind} | " + " | ".join(str(row.get(word, 0)) for word in
                                                 ("ok", "refused", "unknown", "error")) + " |")
    lines += ["", f"Requests over HTTP: {r['attempts']}. Besides the history, `client_probe load` (libholdfast, "
              f"its own checks): {json.dumps(r['probe'])}.", "", "## What was checked", ""]
    lines += [f"- {text}" for text in r["checked"]]
    lines += ["", "## Violations", ""]
    lines += [f"- {text}" for text in r["violations"][:SHOWN]] or ["None."]
    if len(r["violations"]) > SHOWN:
        lines.append(f"- and {len(r['violations']) - SHOWN} more")
    return "\n".join(lines) + "\n"


def svg(marks, faults, begin, seconds):
    """A column a second, as high as the share of its slots that were served; faults above it."""
    wide, high, left, top = 900, 100, 40, 30
    scale = wide / max(seconds, 1)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + wide + 10} {top + high + 40}" '
             'font-family="sans-serif" font-size="10">',
             '<rect width="100%" height="100%" fill="white"/>']
    for fault in faults:
        x = left + (fault["begin"] - begin) * scale
        width = max((fault.get("end", fault["begin"]) - fault["begin"]) * scale, 1)
        parts.append(f'<rect x="{x:.1f}" y="{top - 14}" width="{width:.1f}" height="{high + 14}" fill="#e8a33d" '
                     f'fill-opacity="0.25"><title>{fault["kind"]}</title></rect>')
    for second in range(0, len(marks), 10):
        some = marks[second:second + 10]
        tall = high * sum(some) / len(some)
        parts.append(f'<rect x="{left + second / 10 * scale:.1f}" y="{top + high - tall:.1f}" '
                     f'width="{max(scale - 0.5, 0.5):.1f}" height="{tall:.1f}" fill="#2f6f9f"/>')
    for share in (0, 50, 100):
        y = top + high - share * high / 100
        parts.append(f'<text x="{left - 4}" y="{y + 3:.0f}" text-anchor="end">{share} %</text>')
    step = max(1, round(seconds / 9 / 5) * 5)
    for second in range(0, int(seconds) + 1, step):
        parts.append(f'<text x="{left + second * scale:.0f}" y="{top + high + 14}" text-anchor="middle">{second} s</text>')
    parts.append(f'<text x="{left}" y="{top + high + 32}">blue: share of 100 ms slots with a successful acquire; '
                 'shaded: a fault lasts</text></svg>')
    return "\n".join(parts) + "\n"


def write(folder, stem, r, picture):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}.md"
    path.write_text(markdown(r), encoding="utf-8")
    (folder / f"{stem}.json").write_text(json.dumps(r, indent=1) + "\n", encoding="utf-8")
    (folder / f"{stem}.svg").write_text(picture, encoding="utf-8")
    return path
