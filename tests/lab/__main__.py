"""`python3 dev.py lab`: a campaign over the levels of the lab. Its figures go to `reliability.json` and a page in docs.

python3 dev.py lab                      a whole campaign: about ten minutes on two cores
python3 dev.py lab --seconds 2700       longer
python3 dev.py lab --change 4711        what `dev.py test` tries beside the suite, with this seed
python3 dev.py lab --seeds 10000 --only simulation
python3 dev.py lab --seed 4711          one seed of the simulation, told in full
python3 dev.py lab --date +400d         the suite at another date; what follows `--` goes to pytest
python3 dev.py lab --only flakes        tests with processes, servers or clocks, ten times; `--` as above
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.lab.levels import Effort, Level, Report, levels
from tests.lab.page import write_page

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "reliability.json"
OF_A_CHANGE = ("crash points", "simulation")
"""The levels that `dev.py test` runs; the suite has the kept seeds, and a short form of every other level."""

SEED_BITS = 20
"""Each commit has a million seeds of its own."""


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """What was asked for; a mistake ends the program with a usage message."""
    parser = argparse.ArgumentParser(prog="dev.py lab", description="Hits Holdfast as hard as it can, and counts.")
    parser.add_argument("--seconds", type=float, help="how long in all, shared among the levels")
    parser.add_argument("--seeds", type=int, help="how many seeds (for levels that count them)")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--change", type=int, metavar="SEED", help="crash points and new seeds drawn from this seed")
    parser.add_argument("--seed", type=int, help="this seed of the simulation alone, with its story")
    parser.add_argument("--date", metavar="SHIFT", help="run the suite at this date (+400d, -40d, 2028-02-29T12:00)")
    parser.add_argument("pytest", nargs="*", help="with --date or --only flakes, after `--`: for pytest")
    parser.add_argument("--only", action="append", default=[], metavar="LEVEL", help="this level; may be repeated")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at once")
    parser.add_argument("--write", action="store_true", help="write reliability.json and the page in docs/")
    words = list(given)
    if "--date" in words[:-1]:  # as one word, or argparse would take the -40d of `--date -40d` for an option
        place = words.index("--date")
        words[place : place + 2] = [f"--date={words[place + 1]}"]
    asked = parser.parse_args(words)
    if asked.pytest and asked.date is None and asked.only != ["flakes"]:
        parser.error(f"unrecognized arguments: {' '.join(asked.pytest)}")
    return asked


def main(given: Sequence[str]) -> int:
    """Runs the campaign; 1 if anything was lost, doubled, wrong, or never met."""
    asked = arguments(given)
    if asked.seed is not None:
        from tests.lab.sim.telling import tell

        return tell(asked.seed)
    if asked.change is not None:
        asked.only, asked.first = asked.only or list(OF_A_CHANGE), asked.change << SEED_BITS
    if asked.date is not None:
        from tests.lab.dates import main as suite_at_date

        return suite_at_date(asked.date, asked.pytest)
    known = levels()
    if unknown := [name for name in asked.only if name not in known]:
        print(f"lab: there is no level {', '.join(unknown)}; there are {', '.join(known)}")
        return 2
    chosen = [known[name] for name in asked.only] or [each for each in known.values() if not each.on_request]
    whole = sum(each.share for each in chosen)
    began = time.monotonic()
    reports: dict[str, Report] = {}
    for each in chosen:
        seconds = None if asked.seconds is None else asked.seconds * each.share / whole
        reports[each.name] = run_level(each, Effort(seconds, asked.seeds, asked.first, asked.processes, asked.pytest))
    is_whole = asked.change is None
    problems = [f"{name}: {x}" for name, report in reports.items() for x in problems_of(report, is_whole=is_whole)]
    print(f"\n== lab: {time.monotonic() - began:.0f} s, {'FAILED' if problems else 'nothing lost, doubled or wrong'}")
    for problem in problems:
        print(f"   {problem}")
    if asked.write:
        command = shlex.join(["python3", "dev.py", "lab", *(word for word in given if word != "--write")])
        figures = merged(command, {name: figures_of(known[name], r) for name, r in reports.items()}, asked.only)
        FIGURES.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        write_page(figures)
        print(f"== written: {FIGURES.name} and docs/explanation/reliability.md")
    return 1 if problems else 0


def run_level(level: Level, effort: Effort) -> Report:
    """One level, with what it found printed."""
    print(f"\n== {level.name}: {level.title}", flush=True)
    report = level.run(effort)
    for name, figure in {**report.figures, **report.sometimes}.items():
        print(f"   {figure:>12,}  {name}" if not isinstance(figure, str) else f"   {figure:>12}  {name}")
    return report


def problems_of(report: Report, *, is_whole: bool = True) -> list[str]:
    """What makes the campaign fail. One of a change is too short to meet everything; a whole one has to."""
    never = report.never if is_whole else []
    return [*report.problems, *(f"never met: {name}. A campaign without it proves nothing" for name in never)]


def merged(command: str, levels: dict[str, dict[str, object]], only: Sequence[str]) -> dict[str, Any]:
    """What is written: a campaign, or the last one with some of its levels run anew, each with its own command."""
    if not only or not FIGURES.exists():
        return {"command": command, "levels": levels}
    figures: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    figures["levels"] |= {name: {**level, "command": command} for name, level in levels.items()}
    return figures


def figures_of(level: Level, report: Report) -> dict[str, object]:
    """As `reliability.json` holds it."""
    return {
        "title": level.title,
        "figures": report.figures,
        "sometimes": report.sometimes,
        "problems": problems_of(report),
        **({"listed": report.listed} if report.listed else {}),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
