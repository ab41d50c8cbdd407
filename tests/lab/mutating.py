"""Tests of the tests: known ways to break Holdfast, kept as patches, each of which the suite has to notice.

A patch begins with what it breaks and the tests that are enough to notice it. It is applied to a copy of the sources;
the tests run against the copy, in processes of their own, and have to fail. At which level it was noticed follows from
where the test that failed first is.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.levels import Effort, Report, level

ROOT = Path(__file__).resolve().parents[2]
PATCHES = Path(__file__).parent / "patches"
PATIENCE = 600.0
TURNS = 5
"""How many a campaign tries that is given no time; others at every commit."""


TESTS_FAILED = 1
"""pytest's exit code for tests that ran and failed: the only one that counts as noticed."""

WITHOUT_SUBJECT = {
    "20": "the namespace of a request is taken from its body: there are no namespaces yet",
}
"""Patches of the list whose subject does not exist yet. Listed, not counted."""


LEVELS = {
    "tests/unit/": "unit tests",
    "tests/conformance/": "conformance (T3)",
    "tests/integration/": "integration tests",
    "tests/chaos/": "real processes (T5)",
    "tests/golden/": "upgrade (T7)",
    "tests/lab/disk/": "disks (T4)",
    "tests/lab/properties/": "properties (T2)",
    "tests/lab/test_simulation.py": "simulation (T1)",
}
"""The level of a test, by its place."""


def level_of(test: str) -> str:
    """Which level a test belongs to."""
    return next(name for place, name in LEVELS.items() if test.startswith(place))


@dataclass(frozen=True)
class Mutant:
    """One patch."""

    name: str
    what: str
    tests: tuple[str, ...]
    patch: Path


@dataclass(frozen=True)
class Fate:
    """What became of one: whether the tests noticed it, by which test first, and in how many seconds."""

    mutant: Mutant
    is_killed: bool
    by: str
    seconds: float


def mutants() -> list[Mutant]:
    """All of them, in the order of their numbers."""
    return [_read(path) for path in sorted(PATCHES.glob("*.diff"))]


def _read(path: Path) -> Mutant:
    what, tests, *_ = path.read_text(encoding="utf-8").splitlines()
    return Mutant(path.stem, what, tuple(shlex.split(tests.removeprefix("killed by: "))), path)


def from_number(first: int) -> list[Mutant]:
    """All of them, beginning at one."""
    every = mutants()
    return [*every[first % len(every) :], *every[: first % len(every)]]


def rotated() -> list[Mutant]:
    """Five of them, others at every commit."""
    answer = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return from_number(int(answer.stdout.strip()[:8] or "0", 16))[:TURNS]


def applies(mutant: Mutant) -> str:
    """Empty if the patch fits the sources as they are; else what is wrong."""
    answer = subprocess.run(
        ["git", "apply", "--check", mutant.patch], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return "" if answer.returncode == 0 else answer.stderr.strip()


def try_on(mutant: Mutant) -> Fate:
    """Runs the tests against the broken copy."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-mutant-") as folder:
        copy = Path(folder)
        for name in ("src", "tests", "benchmarks", "examples", "docs"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "dev.py", "CHANGELOG.md"):
            shutil.copy(ROOT / name, copy / name)
        subprocess.run(["git", "apply", mutant.patch], cwd=copy, check=True, capture_output=True)
        answer = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no", *mutant.tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy / "src")},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    first = next((line for line in answer.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))), "")
    by = first.partition(" ")[2].partition(" - ")[0]
    return Fate(mutant, answer.returncode == TESTS_FAILED, by or answer.stdout[-500:], time.monotonic() - started)


@level("mutants", "known ways to break the sources, each noticed by the suite", share=3)
def tried(effort: Effort) -> Report:
    """Told neither a number nor a time, a few that change with every commit; told a number, so many, beginning at the
    first seed; told a time, all of them, however long they take."""
    is_usual = effort.seeds is None and effort.seconds is None
    report = Report()
    fates: list[Fate] = []
    for mutant in rotated() if is_usual else from_number(effort.first)[: effort.seeds]:
        effort.say(f"   {mutant.name}: {mutant.what}")
        fates.append(try_on(mutant))
    lived = [fate for fate in fates if not fate.is_killed]
    report.figures = {"tried": len(fates), "killed": len(fates) - len(lived), "without a subject": len(WITHOUT_SUBJECT)}
    report.sometimes = {"a mutant was killed": len(fates) - len(lived)}
    report.listed = listing(fates)
    report.problems = [f"{fate.mutant.name} ({fate.mutant.what}) lives: {fate.by}" for fate in lived]
    return report


def listing(fates: Sequence[Fate]) -> list[dict[str, str]]:
    """Every patch of the list: by which level and which test it was noticed, or why it was not tried."""
    tried = {fate.mutant.name: fate for fate in fates}
    rows = [
        {"mutant": number, "breaks": why.partition(": ")[0], "noticed by": "no subject", "test": why.partition(": ")[2]}
        for number, why in WITHOUT_SUBJECT.items()
    ]
    for mutant in mutants():
        fate = tried.get(mutant.name)
        by, test = ("not tried in this campaign", "") if fate is None else ("LIVES", "")
        if fate is not None and fate.is_killed:
            by, test = level_of(fate.by), fate.by
        rows.append({"mutant": mutant.name[:2], "breaks": mutant.what, "noticed by": by, "test": test})
    return sorted(rows, key=lambda row: row["mutant"])


def main(names: list[str]) -> int:
    """`python -m tests.lab.mutating [NAME…]`: a line for each; exit code 1 if one lived."""
    lived = 0
    for mutant in mutants():
        if not names or any(mutant.name.startswith(name) for name in names):
            fate = try_on(mutant)
            lived += not fate.is_killed
            print(
                f"{'killed' if fate.is_killed else 'LIVES '} {mutant.name}, {fate.seconds:.0f} s, {fate.by}", flush=True
            )
    return 1 if lived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
