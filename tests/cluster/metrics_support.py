"""Reads /metrics: values by name and labels, kinds by name. What is not in the format of Prometheus fails."""

import re

LINE = re.compile(r'^(holdfast_[a-z0-9_]+)(?:\{((?:[a-z_]+="[^"\\]*",?)+)\})? (-?\d+(?:\.\d+)?)$')
LABEL = re.compile(r'([a-z_]+)="([^"]*)"')
PARTS = ("_bucket", "_sum", "_count")


class Metrics:
    def __init__(self, text):
        self.text = text
        self.kinds = {}
        self.values = {}  # by name and a sorted tuple of labels
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                name, kind = line.split()[2:]
                assert name not in self.kinds and kind in ("gauge", "counter", "histogram"), line
                assert (kind == "counter") == name.endswith("_total"), line
                self.kinds[name] = kind
            elif line.startswith("# HELP "):
                assert len(line.split()) > 3, line
            else:
                match = LINE.match(line)
                assert match and self.family(match[1]) in self.kinds, line
                key = match[1], tuple(sorted(LABEL.findall(match[2] or "")))
                assert key not in self.values, line
                self.values[key] = float(match[3])
        self.check_histograms()

    def family(self, name):
        """A histogram has three."""
        for part in PARTS:
            if name.endswith(part) and self.kinds.get(name.removesuffix(part)) == "histogram":
                return name.removesuffix(part)
        return name

    def check_histograms(self):
        """Buckets rise, and the last one has all."""
        rows = {}
        for (name, labels), value in self.values.items():
            if self.kinds.get(self.family(name)) == "histogram" and name.endswith("_bucket"):
                rest = tuple(label for label in labels if label[0] != "le")
                rows.setdefault((self.family(name), rest), []).append((float(dict(labels)["le"]), value))
        for (name, rest), buckets in rows.items():
            ends, counts = zip(*buckets)
            assert list(ends) == sorted(set(ends)) and list(counts) == sorted(counts), (name, buckets)
            assert ends[-1] == float("inf") and counts[-1] == self.values[name + "_count", rest], (name, buckets)

    def get(self, name, **labels):
        """The only value with this name and exactly these labels."""
        return self.values["holdfast_" + name, tuple(sorted(labels.items()))]

    def sum(self, name, **labels):
        """Of all with at least these labels."""
        return sum(value for (full, has), value in self.values.items()
                   if full == "holdfast_" + name and labels.items() <= dict(has).items())

    def names(self):
        return set(self.kinds)


def scrape(node):
    answer = node.request("GET", "/metrics")
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return Metrics(answer.text)


def total(cluster, name, **labels):
    """The sum over the nodes that run."""
    return sum(scrape(node).sum(name, **labels) for node in cluster if node.running)
