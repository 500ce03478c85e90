"""Time the wheel of an old commit and that of the working tree by turns: `make bench-ab OLD=commit`.

In each turn both sides have a fresh process, which finds the package of one wheel or the other before that of
the environment. Row by row one side is timed, then the other; the one that is first changes with every turn.
Of each side the best of all turns is compared. The calls are those of this tree's `ab_calls.py`, on one
thread and by the processor's time, so that other work on the machine matters less.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from report import table

ROOT = Path(__file__).resolve().parent.parent
AB = ROOT / "build" / "ab"
CALLS = Path(__file__).with_name("ab_calls.py")
LEVELS = ("avx512", "avx2")
TURNS, SECONDS = 5, 0.06
QUICK_TURNS, QUICK_SECONDS = 2, 0.02
SIDES = ("old", "new")


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def wheel_of(commit, side):
    """Return the wheel of a commit, which is built once, or of the working tree, if there is none."""
    if commit is None:
        folder = AB / "tree"
        shutil.rmtree(folder, ignore_errors=True)
        return build(ROOT, folder, side)
    try:
        name = git("rev-parse", "--short=12", "--verify", f"{commit}^{{commit}}").decode().strip()
    except subprocess.CalledProcessError as error:
        raise SystemExit(error.stderr.decode().strip()) from None
    folder = AB / name
    if found := list(folder.glob("*.whl")):
        return found[0]
    # Each commit has a path of its own: cargo goes by the age of files, here that of their commit.
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(git("archive", name))) as archive:
        archive.extractall(source, filter="data")
    wheel = build(source, folder, side)
    shutil.rmtree(source)
    return wheel


def build(source, folder, side):
    print(f"building {folder.name}", file=sys.stderr, flush=True)
    run = [sys.executable, "-m", "maturin", "build", "--release", "--locked", "--quiet"]
    run += ["--interpreter", sys.executable, "--out", str(folder)]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(AB / f"target-{side}")}
    if subprocess.run(run, cwd=source, env=environment, check=False).returncode:
        message = f"{folder.name} cannot be built"
        raise SystemExit(message)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel, folder):
    run = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*run, "--no-index", "--target", str(folder), str(wheel)], check=True)


class Side:
    """A process that times calls with the package in a folder."""

    def __init__(self, folder, level, threads, seconds):
        environment = {**os.environ, "PYTHONPATH": str(folder), "TIGHTSET_SIMD": level}
        run = [sys.executable, str(CALLS), str(AB), str(threads), str(seconds)]
        self.process = subprocess.Popen(
            run, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.about = self.answer()
        if not Path(self.about["from"]).is_relative_to(folder):
            message = f"the package is that of {self.about['from']}, not of {folder}"
            raise SystemExit(message)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()  # it ends when there are no more commands
        self.process.wait()
        self.process.stdout.close()

    def ask(self, command, index):
        self.process.stdin.write(f"{command} {index}\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            message = f"a process that times calls ended with code {self.process.wait()}"
            raise SystemExit(message)
        return json.loads(line)


def chosen(rows, only):
    """Return the indices of rows that a pattern matches, and of those that are their units."""
    names = [(row["work"], row["what"]) for row in rows]
    found = {i for i, name in enumerate(names) if only is None or re.search(only, ", ".join(name))}
    found |= {names.index(tuple(rows[i]["over"])) for i in found if rows[i]["over"]}
    if not found:
        message = f"no row matches {only!r}: rows are\n" + "\n".join(", ".join(name) for name in names)
        raise SystemExit(message)
    return sorted(found)


class Level:
    """What the turns at one instruction set gave: seconds of each row and side, one for each turn."""

    def __init__(self, name, rows):
        self.name = name
        self.rows = rows
        self.seconds = [{side: [] for side in SIDES} for _ in rows]
        self.errors = {}

    def turn(self, sides, indices, order):
        """Time each row on one side, then on the other. Both set it up at the same time."""
        for i in indices:
            for side in sides.values():
                side.ask("make", i)
            made = {name: side.answer() for name, side in sides.items()}
            for name in (name for name in order if self.is_done(i, name, made[name])):
                sides[name].ask("time", i)
                found = sides[name].answer()
                if self.is_done(i, name, found):
                    self.seconds[i][name].append(found["seconds"])

    def is_done(self, i, name, answer):
        """Return whether a side could do a row. The old one need not, the new one must."""
        if "error" not in answer:
            return True
        row = f"{self.rows[i]['work']}, {self.rows[i]['what']}"
        if name == "new":
            message = f"{row}: {answer['error']}"
            raise SystemExit(message)
        self.errors[row] = answer["error"]
        return False

    def best(self, i, side):
        return min(self.seconds[i][side], default=None)

    def report(self):
        """Return the table, the summary of its ratios, and what has a unit of its own in it."""
        lines, ratios = [], {}
        for i, row in enumerate(self.rows):
            old, new = (self.best(i, side) for side in SIDES)
            if new is None:
                continue
            cells = [row["work"], row["what"], milliseconds(old), milliseconds(new), "new", ""]
            if old is not None:
                ratios[f"{row['work']}, {row['what']}"] = new / old
                turns = [b / a for a, b in zip(*(self.seconds[i][side] for side in SIDES), strict=False)]
                cells[4:] = [f"{new / old:.2f}", f"{min(turns):.2f} to {max(turns):.2f}"]
            lines.append(cells)
        head = ["work", "call", "old ms", "new ms", "ratio", "in turns"]
        parts = [f"## {self.name}", table(head, lines), summary(ratios), *self.in_units()]
        parts += [f"old cannot: {row}: {error}" for row, error in self.errors.items()]
        return "\n\n".join(part for part in parts if part)

    def in_units(self):
        """Yield times of rows as multiples of another row's: label passes."""
        names = [(row["work"], row["what"]) for row in self.rows]
        for i, row in enumerate(self.rows):
            unit = names.index(tuple(row["over"])) if row["over"] else None
            if unit is None or self.best(i, "new") is None:
                continue
            both = [(side, self.best(i, side), self.best(unit, side)) for side in SIDES]
            shown = ", ".join(f"{side} {own / one:.1f}" for side, own, one in both if own and one)
            yield f"{row['work']}, {row['what']}, in label passes: {shown}"


def milliseconds(seconds):
    """Return a time in milliseconds, with four digits that count."""
    if seconds is None:
        return ""
    value = 1e3 * seconds
    return f"{value:.{max(0, 3 - math.floor(math.log10(value)))}f}"


def summary(ratios):
    if not ratios:
        return ""
    mean = math.exp(math.fsum(map(math.log, ratios.values())) / len(ratios))
    worst, best = (end(ratios, key=ratios.get) for end in (max, min))
    return (
        f"{len(ratios)} rows: geometric mean {mean:.3f}, "
        f"worst {ratios[worst]:.2f} ({worst}), best {ratios[best]:.2f} ({best})"
    )


def measure(folders, level, turns, threads, seconds, only):
    """Return what all turns at a level gave, or None where the machine does not have it."""
    outcome = None
    for turn in range(turns):
        order = SIDES if turn % 2 == 0 else SIDES[::-1]
        start = time.perf_counter()
        with ExitStack() as stack:
            # Copies, in every turn: which pages of memory a library has got is worth a tenth of some times.
            copies = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=AB, prefix="turn-")))
            for name in order:
                shutil.copytree(folders[name], copies / name)
            sides = {
                name: stack.enter_context(Side(copies / name, level, threads, seconds)) for name in order
            }
            about = sides["new"].about
            if about["level"] != level:
                return None
            indices = chosen(about["rows"], only)
            if outcome is None:
                outcome = Level(level, about["rows"])
            outcome.turn(sides, indices, order)
        spent = time.perf_counter() - start
        print(f"{level}, turn {turn + 1} of {turns}: {spent:.0f} s", file=sys.stderr, flush=True)
    return outcome


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", nargs="?", help="the old commit")
    parser.add_argument("--new", help="the new commit; the working tree if it is not given")
    parser.add_argument("--old-wheel", type=Path, help="a wheel instead of the old commit")
    parser.add_argument("--new-wheel", type=Path, help="a wheel instead of the working tree")
    parser.add_argument("--turns", type=int, help=f"turns of both sides, {TURNS} by default")
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="threads of a call, 1 by default; times of several are not of the processor",
    )
    parser.add_argument("--levels", nargs="+", default=LEVELS, help="instruction sets, as in TIGHTSET_SIMD")
    parser.add_argument(
        "--only", metavar="PATTERN", help="a regular expression: rows whose work and call match"
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_TURNS} turns, each row for less time")
    arguments = parser.parse_args()
    if not (arguments.old or arguments.old_wheel):
        parser.error("what is the old side? Name a commit (make bench-ab OLD=commit) or a wheel")
    if arguments.turns is None:
        arguments.turns = QUICK_TURNS if arguments.quick else TURNS
    if arguments.turns < 1:
        parser.error("--turns must be at least 1")
    return arguments


def main():
    given = parsed()
    AB.mkdir(parents=True, exist_ok=True)
    wheels = {
        "old": given.old_wheel or wheel_of(given.old, "old"),
        "new": given.new_wheel or wheel_of(given.new, "new"),
    }
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=AB, prefix="sides-") as folder:
        folders = {side: Path(folder) / side for side in SIDES}
        for side, wheel in wheels.items():
            install(wheel, folders[side])
        seconds = QUICK_SECONDS if given.quick else SECONDS
        print(f"old: {wheels['old']}\nnew: {wheels['new']}")
        print(f"turns: {given.turns}, threads: {given.threads}, load before: {load:.1f}", flush=True)
        for level in given.levels:
            outcome = measure(folders, level, given.turns, given.threads, seconds, given.only)
            text = f"{level}: not on this machine" if outcome is None else outcome.report()
            print(f"\n{text}", flush=True)


if __name__ == "__main__":
    main()
