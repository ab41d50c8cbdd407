"""`python -m benchmarks`: runs the workloads, prints the table, writes `results.json` and `results.md`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import profiling
from benchmarks.machine import machine, versions
from benchmarks.process import Child
from benchmarks.report import Line, lines_of, markdown, save, show
from benchmarks.workloads import WORKLOADS

HERE = Path(__file__).resolve().parent


class Progress:
    """One line that is overwritten on a terminal; one line for each thing done in a pipe."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._started_at = time.monotonic()
        self._is_terminal = sys.stderr.isatty()

    def begin(self, what: str) -> None:
        """Something takes a while now."""
        if self._is_terminal:
            elapsed = time.monotonic() - self._started_at
            sys.stderr.write(f"\r\x1b[K[{self._done + 1}/{self._total}] {what} … {elapsed:.0f} s")
            sys.stderr.flush()

    def end(self, what: str, seconds: float) -> None:
        """It is done."""
        self._done += 1
        if not self._is_terminal:
            print(f"[{self._done}/{self._total}] {what}: {seconds:.1f} s", file=sys.stderr, flush=True)
        elif self._done == self._total:
            sys.stderr.write("\r\x1b[K")


def measure(names: Sequence[str], rounds: int, scale: str, folder: str | None) -> dict[str, list[float]]:
    """All rounds. They are interleaved, so that a busy minute of the machine meets every workload once."""
    found: dict[str, list[float]] = {}
    progress = Progress(rounds * len(names))
    for number in range(rounds):
        for name in names:
            title = f"{name}, round {number + 1} of {rounds}"
            progress.begin(title)
            started = time.monotonic()
            with Child("cell", name, scale, *([folder] if folder else [])) as cell:
                figures = cell.line()
            for key, value in figures.items():
                found.setdefault(key, []).append(value)
            progress.end(title, time.monotonic() - started)
    return found


def chosen(only: str | None) -> list[str]:
    """The workloads named, in their order; all without a name. The raw limits always come along."""
    if only is None:
        return list(WORKLOADS)
    wanted = {word.strip() for word in only.split(",") if word.strip()}
    unknown = sorted(wanted - set(WORKLOADS))
    if unknown:
        raise SystemExit(f"bench: no workload {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    return [name for name in WORKLOADS if name in wanted or name == "raw"]


def main(arguments: Sequence[str]) -> int:
    """What `dev.py bench` runs."""
    parser = argparse.ArgumentParser(prog="dev.py bench", description="Measures Holdfast beside what the disk allows.")
    parser.add_argument("--only", metavar="W1,W3", help="only these workloads")
    parser.add_argument("--quick", action="store_true", help="smaller sizes: for a look, not for the record")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (3)")
    parser.add_argument("--profile", choices=profiling.PROFILED, help="say where the time of one workload goes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--folder", help="where stores are made; default: the system's folder for temporary files")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a required figure is missed")
    options = parser.parse_args(arguments)
    scale = "quick" if options.quick else "full"
    if options.profile:
        return profiling.main(options.profile, scale, options.folder)
    names = chosen(options.only)
    rounds_wanted = max(1, options.rounds)
    facts: dict[str, Any] = {
        "machine": machine(),
        "versions": versions(),
        "scale": scale,
        "rounds": rounds_wanted,
    }
    rounds = measure(names, rounds_wanted, scale, options.folder)
    lines = lines_of(rounds)
    show(lines)
    if options.json is not None:
        save(options.json, lines, facts, rounds)
    if names == list(WORKLOADS) and scale == "full":
        save(HERE / "results.json", lines, facts, rounds)
        (HERE / "results.md").write_text(markdown(lines, facts), encoding="utf-8")
    return judged(lines) if options.check else 0


def judged(lines: Sequence[Line]) -> int:
    """Says which required figures are missed."""
    missed = [line.figure.title for line in lines if line.verdict == "MISSED"]
    for title in missed:
        print(f"missed: {title}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
