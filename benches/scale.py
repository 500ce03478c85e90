"""Measure the passes of a streamed calibration and print the model of docs/scale.md.

One thread, processor time, synthetic float32 logits. Rank passes after the first are modelled: a slot's
scores are divided by the number of its bins in each pass until they are few enough to be kept.
"""

from __future__ import annotations

import time

import numpy as np

import tightset as ts

RECIPES = ("aps", "er-aps")
LABELS = (10, 1000)
ROWS = {10: 100_000, 1000: 4_000}
CORES = (1, 100, 10_000)
N = (10**9, 10**12)


def main():
    passes = {}
    print("| recipe | K | pass | microseconds a row | bytes of a state | add a state, ms |")
    print("|---|---|---|---|---|---|")
    for recipe in RECIPES:
        for n_labels in LABELS:
            measured = measure(recipe, n_labels)
            passes[recipe, n_labels] = measured
            for kind, (seconds, size, merge) in measured["passes"].items():
                micro = 1e6 * seconds / ROWS[n_labels]
                print(f"| {recipe} | {n_labels} | {kind} | {micro:.2f} | {size:,} | {1e3 * merge:.1f} |")
    print()
    print("| recipe | K | rows | passes | logits read, TB | 1 core | 100 cores | 10,000 cores |")
    print("|---|---|---|---|---|---|---|---|")
    for (recipe, n_labels), measured in passes.items():
        for n in N:
            print(model(recipe, n_labels, n, measured))


def measure(recipe, n_labels):
    """Return seconds, bytes and the time of a merge for each kind of pass, and what the first pass leaves."""
    rng = np.random.default_rng(0)
    n = ROWS[n_labels]
    labels = rng.integers(n_labels, size=n)
    logits = 2 * rng.standard_normal((n, n_labels), dtype=np.float32)
    logits[np.arange(n), labels] += 6
    state = ts.Calibration(recipe, 0.1, n_threads=1)
    kinds, share, bits = {}, 0.0, 0
    while not state.is_complete:
        state.begin_pass()
        kind = "ranks" if state._plan.search is not None else "counts"
        worker = state.worker()
        started = time.process_time()
        worker.update(logits, labels)
        seconds = time.process_time() - started
        data = worker.to_bytes()
        started = time.process_time()
        state.merge(ts.Calibration.from_bytes(data))
        merge = time.process_time() - started
        bits = bits or state._plan.search.bits
        if kind not in kinds:
            kinds[kind] = (seconds, len(data), merge)
        state.end_pass()
        if state.pass_number == 2:
            share = max(slot.count for slot in state._plan.search.slots) / n
    return {"passes": kinds, "share": share, "bits": bits}


def model(recipe, n_labels, n, measured):
    left, ranks = n * measured["share"], 1
    while left > 2 ** measured["bits"]:
        left /= 2 ** measured["bits"]
        ranks += 1
    ranks += 1  # what is left is kept and sorted
    # With several candidates: their counts, and the scores between, as dear as the counts at most.
    counts = 2 if "counts" in measured["passes"] else 0
    each = {"ranks": ranks, "counts": counts}
    seconds = sum(each[kind] * found[0] / ROWS[n_labels] for kind, found in measured["passes"].items())
    merge = max(found[2] for found in measured["passes"].values())
    total = ranks + counts
    # Every reader's state is added once a pass, eight at a time in a tree.
    times = [n * seconds / c + total * 8 * merge * np.ceil(np.log(c) / np.log(8)) for c in CORES]
    moved = total * n * n_labels * 4 / 1e12
    return f"| {recipe} | {n_labels} | {n:.0e} | {total} | {moved:,.1f} | {' | '.join(map(spoken, times))} |"


def spoken(seconds):
    for unit, size in (("years", 365 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"


if __name__ == "__main__":
    main()
