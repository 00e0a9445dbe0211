"""What bench/compare.py found, as Markdown and as a picture. Pure: results in, text out.

Results are a list of systems, each with `name`, `label`, `version`, `nodes`, `memory` (nothing is synced), `recipe`,
`settings`, and `runs`: for each number of clients (as text, as JSON has it) the figures of each round."""

from statistics import median
from xml.sax.saxutils import escape

AIM_CYCLES = 25000
AIM_ETCD = 15
AIM_LONE_MS = 0.6


def middle(system, clients):
    """The medians of a system's rounds, or None."""
    runs = system["runs"].get(str(clients))
    if not runs:
        return None
    return {key: median(run[key] for run in runs)
            for key in ("cycles_per_second", "acquire_p50_ms", "acquire_p99_ms", "load_cpu_percent", "errors")}


def find(systems, name, nodes):
    return next((s for s in systems if s["name"] == name and s["nodes"] == nodes), None)


def counterpart(systems, system):
    """What of ours promises the same: as many nodes, or, for what lives in memory alone, the efficiency tier."""
    if system["name"].startswith("holdfast"):
        return None
    if system["memory"]:
        return find(systems, "holdfast-efficiency", 5)
    return find(systems, "holdfast", system["nodes"])


def ratio(systems, system, clients):
    """Our cycles/s for one of theirs, or None."""
    ours = counterpart(systems, system)
    if ours is None or not middle(ours, clients) or not middle(system, clients):
        return None
    theirs = middle(system, clients)["cycles_per_second"]
    return middle(ours, clients)["cycles_per_second"] / theirs if theirs else None


def thousands(value):
    return f"{value:,.0f}"


def spread(system, clients):
    """How far the rounds lie apart: (largest - smallest) / median."""
    values = [run["cycles_per_second"] for run in system["runs"][str(clients)]]
    return (max(values) - min(values)) / median(values) if median(values) else 0


def cell(system, clients):
    figures = middle(system, clients)
    if figures is None:
        return "–"
    errors = f", {figures['errors']:.0f} errors" if figures["errors"] else ""
    return (f"{thousands(figures['cycles_per_second'])} ({figures['acquire_p50_ms']:.2f}, "
            f"{figures['acquire_p99_ms']:.1f} ms{errors})")


def comparison(systems, system, clients):
    value = ratio(systems, system, clients)
    if value is None:
        return "–"
    return f"{value:.1f}×" if value >= 1 else f"**{value:.2f}×: it is ahead**"


def title(system):
    nodes = "1 node" if system["nodes"] == 1 else f"{system['nodes']} nodes"
    return f"{system['label']}, {nodes}"


def aims(systems, clients):
    """(what, found, aim, met) of each aim that this run can check."""
    found = []
    ours, etcd = find(systems, "holdfast", 5), find(systems, "etcd", 5)
    if ours and 64 in clients and middle(ours, 64):
        cycles = middle(ours, 64)["cycles_per_second"]
        found.append(("64 clients, 5 nodes: cycles/s", thousands(cycles), f"≥ {thousands(AIM_CYCLES)}", cycles >= AIM_CYCLES))
        if etcd and middle(etcd, 64):
            times = ratio(systems, etcd, 64)
            found.append(("64 clients, 5 nodes: times etcd", f"{times:.1f}×", f"≥ {AIM_ETCD}×", times >= AIM_ETCD))
    if ours and 1 in clients and middle(ours, 1):
        lone = middle(ours, 1)["acquire_p50_ms"]
        found.append(("1 client, 5 nodes: acquire p50", f"{lone:.2f} ms", f"≤ {AIM_LONE_MS} ms", lone <= AIM_LONE_MS))
    return found


def ahead(systems, clients):
    """Sentences: who is faster than ours, and where."""
    lines = []
    for system in systems:
        for count in clients:
            value = ratio(systems, system, count)
            if value is not None and value < 1:
                ours = counterpart(systems, system)
                lines.append(f"{title(system)}, with {count} client{'' if count == 1 else 's'}: "
                             f"{thousands(middle(system, count)['cycles_per_second'])} cycles/s against "
                             f"{thousands(middle(ours, count)['cycles_per_second'])} of {title(ours)}")
    return lines


def markdown(result):
    systems, clients = result["systems"], result["clients"]
    count = max((len(runs) for s in systems for runs in s["runs"].values()), default=0)
    out = ["# Lock services side by side", "",
           f"{result['when']}, {result['machine']}. Median of {count} rounds of {result['seconds']:g} s each, interleaved; "
           "every system was started anew for each round and warmed up. Lock+unlock cycles a second, and in brackets p50 and "
           "p99 of the acquire. Clients run on the same cores, each with one request outstanding on a connection of its "
           "own, all in one thread of one program (`build/bench/peer_load`, `holdfast bench`), straight to the leader.", ""]
    if result.get("interrupted"):
        out += ["**The run was interrupted: rounds are missing.**", ""]
    heads = [f"{c} client{'' if c == 1 else 's'}" for c in clients]
    for memory, words in ((False, "Synced to disk before the answer"), (True, "In memory: lost with the process")):
        rows = [s for s in systems if s["memory"] == memory]
        if not rows:
            continue
        ours = "Holdfast with as many nodes" if not memory else "Holdfast's efficiency tier"
        out += [f"## {words}", "", "| | " + " | ".join(heads) + f" | {ours}: times as many cycles |",
                "|---|" + "---|" * (len(heads) + 1)]
        for system in rows:
            against = ", ".join(comparison(systems, system, c) for c in clients) if counterpart(systems, system) else ""
            out.append(f"| {title(system)} | " + " | ".join(cell(system, c) for c in clients) + f" | {against} |")
        out.append("")
    lines = ahead(systems, clients)
    out += ["## Who is ahead of Holdfast", ""]
    out += [f"- {line}" for line in lines] or ["Nobody in this run, among what was compared."]
    rows = aims(systems, clients)
    if rows:
        out += ["", "## Aims", "", "| | found | aim | |", "|---|---|---|---|"]
        out += [f"| {what} | {found} | {aim} | {'met' if met else '**missed**'} |" for what, found, aim, met in rows]
    out += ["", "## What was run", "", "| | version | recipe | settings | the load's own CPU, % of a core | rounds apart by |",
            "|---|---|---|---|---|---|"]
    for system in systems:
        present = [c for c in clients if middle(system, c)]
        cpu = ", ".join(f"{middle(system, c)['load_cpu_percent']:.0f}" for c in present)
        apart = ", ".join(f"{100 * spread(system, c):.0f} %" for c in present)
        out.append(f"| {title(system)} | {system['version']} | {system['recipe']} | {system['settings']} | {cpu} | {apart} |")
    if result.get("left_out"):
        out += ["", *[f"Left out: {words}" for words in result["left_out"]]]
    return "\n".join(out) + "\n"


# ---- the picture ----

OURS, DURABLE, MEMORY = "#1f6f54", "#7d8ca3", "#c9b18a"
ROW, BAR, LEFT, WIDTH, HEAD = 22, 15, 380, 560, 34


def colour(system):
    return OURS if system["name"].startswith("holdfast") else MEMORY if system["memory"] else DURABLE


def panel(systems, clients, top):
    rows = [(s, middle(s, clients)["cycles_per_second"]) for s in systems if middle(s, clients)]
    if not rows:
        return [], top
    rows.sort(key=lambda row: -row[1])
    most = rows[0][1] or 1
    out = [f'<text x="10" y="{top + 20}" class="h">{clients} client{"" if clients == 1 else "s"}</text>']
    y = top + HEAD
    for system, value in rows:
        width = max(1, value / most * WIDTH)
        out += [f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(title(system))}</text>',
                f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour(system)}"/>',
                f'<text x="{LEFT + width + 6:.1f}" y="{y + 12}">{thousands(value)}</text>']
        y += ROW
    return out, y + 12


def svg(result):
    """Bars on a linear scale, one panel for each number of clients."""
    top, body = 60, []
    for clients in result["clients"]:
        lines, top = panel(result["systems"], clients, top)
        body += lines
    legend = [(OURS, "Holdfast"), (DURABLE, "synced to disk"), (MEMORY, "in memory only")]
    width = LEFT + WIDTH + 90
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}">',
            "<style>text{font:12px sans-serif;fill:#222}.h{font-weight:bold;font-size:14px}</style>",
            f'<rect width="{width}" height="{top}" fill="#fff"/>',
            '<text x="10" y="22" class="h">Lock+unlock cycles a second, side by side on one machine</text>']
    x = 10
    for fill, words in legend:
        head += [f'<rect x="{x}" y="36" width="12" height="12" fill="{fill}"/>', f'<text x="{x + 18}" y="46">{words}</text>']
        x += 150
    return "\n".join([*head, *body, "</svg>"]) + "\n"
