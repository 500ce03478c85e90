"""Results of runs: read from pytest-benchmark's files, kept as one JSON file for each run."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".benchmarks"
LAST = FOLDER / "last.json"
PARTS = ("calls", "peers")


@dataclass(frozen=True)
class Entry:
    """One timed call; times in seconds, for all rows of the workload."""

    work: str
    what: str
    best: float
    median: float
    p99: float
    share: float = 1.0
    kept: dict = field(default_factory=dict)

    def or_better(self, other):
        """Return the same call, timed in several turns: what the least disturbed of them gave."""
        return replace(
            self,
            best=min(self.best, other.best),
            median=min(self.median, other.median),
            p99=min(self.p99, other.p99),
        )


class Results:
    """The entries of a run, by work and what."""

    def __init__(self, entries, taken, machine):
        self.entries = {}
        for entry in entries:
            key = entry.work, entry.what
            known = self.entries.get(key)
            self.entries[key] = entry if known is None else known.or_better(entry)
        self.taken = taken
        self.machine = machine

    def __getitem__(self, key):
        return self.entries[key]

    def works(self):
        """Return the works in the order they ran, each with its entries."""
        grouped = {}
        for entry in self.entries.values():
            grouped.setdefault(entry.work, {})[entry.what] = entry
        return grouped

    def save(self):
        """Write the run as the last one, and under its date."""
        content = {
            "taken": self.taken,
            "machine": self.machine,
            "entries": [asdict(e) for e in self.entries.values()],
        }
        text = json.dumps(content, indent=1) + "\n"
        dated = FOLDER / f"{max(self.taken.values()).split()[0]}.json"
        for path in (LAST, dated):
            path.write_text(text)
        return dated


def from_parts():
    """Merge what pytest-benchmark wrote; the peers, timed in another environment, where there are any."""
    entries, taken, machine = [], {}, platform.machine()
    for part in PARTS:
        path = FOLDER / f"{part}.raw.json"
        if not path.exists():
            continue
        raw = json.loads(path.read_text())
        taken[part] = raw["datetime"][:19].replace(":", "-")
        cpu = raw["machine_info"]["cpu"]
        machine = f"{cpu.get('brand_raw', machine)}, {cpu.get('count', '?')} threads"
        load = raw["machine_info"].get("load_before")
        taken[part] += "" if load is None else f" at load {load:.1f}"
        entries += [_entry(bench) for bench in raw["benchmarks"]]
    if not entries:
        message = f"there are no results in {FOLDER}: run make bench"
        raise SystemExit(message)
    return Results(entries, taken, machine)


def _entry(bench):
    info, stats = dict(bench["extra_info"]), bench["stats"]
    work, what, share = info.pop("work"), info.pop("what"), info.pop("share")
    p99 = info.pop("p99", stats["max"])
    value = info.pop("value", None)
    if value is not None:
        return Entry(work, what, value, value, value, 1.0, info)
    best, median = stats["min"] / share, stats["median"] / share
    return Entry(work, what, best, median, p99 / share, share, info)


def load(path):
    """Read a run."""
    content = json.loads(Path(path).read_text())
    return Results([Entry(**e) for e in content["entries"]], content["taken"], content["machine"])


def dated():
    """Return the files of all runs, oldest first."""
    return sorted(FOLDER.glob("20*.json"))
