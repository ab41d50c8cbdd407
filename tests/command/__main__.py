"""`python3 dev.py test` and `python3 dev.py lint`, once everything is installed.

test                     linters, the whole suite and the lab's short campaign, side by side
test --quick             lint of what changed, unit tests, conformance on memory and SQLite, kept seeds
test --changed [REV]     the tests that import what changed since REV (default: uncommitted, else the last commit)
test [--no-lint] -- ARGS only pytest, with these arguments
test --record            also renew the committed figures of what each test and stage takes
lint                     the linters alone
cover [-- ARGS]          the suite under coverage, processes included
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.command import durations, seeds
from tests.command.changed import changed_files, needed_for, sources
from tests.command.report import report
from tests.command.stages import NO_SERVERS, ROOT, Outcome, Stage, run_lanes, workers

BIN = Path(sys.executable).parent
CODE = ("src", "tests", "benchmarks", "examples", "dev.py")
UNIT = (
    "tests/unit",
    "tests/conformance/test_stores.py",
    "tests/conformance/test_one_port.py",
    "tests/conformance/test_differential.py",
    "tests/conformance/test_machine_logs.py",
    "tests/lab/test_simulation.py::test_kept_seeds",
)
QUICK = ("-k", "not postgres", "-m", "not slow and not server")
NEW_SEEDS = 1000
"""Seeds of the simulation at every commit: about two minutes of one core, and the crash points not one more."""


def linters(code: Sequence[str] = CODE) -> list[list[Stage]]:
    """The checks that need no test run, in lanes of about equal length."""
    return [
        [Stage("pyright, strict", [BIN / "pyright"])],
        [
            Stage("ruff check", [BIN / "ruff", "check", *code]),
            Stage("ruff format", [BIN / "ruff", "format", "--check", *code]),
            Stage("layers", [BIN / "lint-imports"]),
            Stage("dependencies", [BIN / "deptry", "src"]),
            Stage("mypy, strict", [BIN / "mypy", *CODE]),
            Stage("public API fully typed", [BIN / "pyright", "--verifytypes", "holdfast", "--ignoreexternal"]),
        ],
    ]


def linters_of(changed: Sequence[str]) -> list[list[Stage]]:
    """The same, of changed files as far as a linter can look at single files, and without those that take minutes."""
    code = [name for name in changed if name.endswith(".py") and (ROOT / name).exists() and name.startswith(CODE)]
    if not code:
        return []
    kept = {"ruff check", "ruff format", "layers", "mypy, strict"}
    return [[stage for stage in linters(code)[1] if stage.name in kept]]


def pytest(
    arguments: Sequence[str], seed: int, *, runner: Sequence[str | Path] = (), with_servers: bool = True
) -> Stage:
    """The suite."""
    words = [*workers(), f"--hypothesis-seed={seed}", *arguments]
    env = {seeds.SEED: str(seed), "PYTHONHASHSEED": str(seed)} | ({} if with_servers else {NO_SERVERS: "1"})
    return Stage("tests", [*(runner or (sys.executable, "-m")), "pytest", *words], env, is_live=True)


def lab(seed: int) -> Stage:
    """Crash points and new seeds, in whatever processor time the tests leave."""
    return Stage("lab", [sys.executable, "-m", "tests.lab", "--change", str(seed), "--seeds", str(NEW_SEEDS)], nice=10)


def finish(outcomes: Sequence[Outcome], tests: dict[str, durations.Cost], seconds: float, *, is_recorded: bool) -> int:
    """What failed, where the time went, and the exit code."""
    for one in outcomes:
        if not one.is_ok and one.output:
            say(f"\n== {one.name}: {one.verdict}\n{one.output}")
    for line in report(outcomes, tests, durations.committed(), seconds):
        say(line)
    if is_recorded:
        durations.record(tests, {one.name: one.processor for one in outcomes})
        say(f"== recorded in {durations.FIGURES.relative_to(ROOT)}")
    failed = [one.name for one in outcomes if not one.is_ok]
    say(f"== {'FAILED: ' + ', '.join(failed) if failed else 'all passed'} after {seconds:.0f} s")
    return 1 if failed else 0


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def test(asked: argparse.Namespace, for_pytest: list[str]) -> int:
    """Runs what was asked for."""
    started = time.monotonic()
    seed = seeds.chosen()
    say(f"== seed {seed}: repeat with {seeds.SEED}={seed}, or ask for a new one with {seeds.SEED}=random")
    others: list[list[Stage]] = []
    if asked.quick:
        changed = changed_files("")
        others, arguments = linters_of(changed), [*UNIT, *QUICK, *for_pytest]
    elif asked.changed is not None:
        changed = changed_files(asked.changed)
        chosen = needed_for(changed, sources())
        others, arguments = linters_of(changed), [*chosen, *for_pytest]
        say(f"== {len(changed)} changed files, {len(chosen)} files with tests that import them")
        if not chosen and not others:
            return 0
        if not chosen:
            return finish(run_lanes(others), {}, time.monotonic() - started, is_recorded=False)
    elif for_pytest or asked.no_lint:
        arguments = for_pytest
    else:
        others, arguments = [*linters(), [lab(seed)]], []
    with tempfile.TemporaryDirectory(prefix="holdfast-times-") as folder:
        times = Path(folder) / "times.json"
        os.environ[durations.TIMES] = str(times)
        outcomes = run_lanes([[pytest(arguments, seed, with_servers=not asked.quick)], *others])
        taken = durations.read(times)
    return finish(outcomes, taken, time.monotonic() - started, is_recorded=asked.record)


def lint() -> int:
    """The linters alone."""
    started = time.monotonic()
    outcomes = run_lanes(linters())
    return finish(outcomes, {}, time.monotonic() - started, is_recorded=False)


def cover(for_pytest: list[str]) -> int:
    """The suite under coverage, and the lines nobody reached."""
    started = time.monotonic()
    coverage = [sys.executable, "-m", "coverage"]
    lane = [
        Stage("erase", [*coverage, "erase"]),
        pytest(for_pytest, seeds.chosen(), runner=[*coverage, "run", "-m"]),
        Stage("combine", [*coverage, "combine", "--quiet"]),
        Stage("coverage", [*coverage, "report"], is_live=True),
    ]
    return finish(run_lanes([lane]), {}, time.monotonic() - started, is_recorded=False)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python3 dev.py", description="Checks the project.")
    commands = made.add_subparsers(dest="command", required=True)
    testing = commands.add_parser("test", help="linters, suite and lab; arguments for pytest go after `--`")
    part = testing.add_mutually_exclusive_group()
    part.add_argument("--quick", action="store_true", help="lint of what changed, unit tests, conformance, kept seeds")
    part.add_argument("--changed", nargs="?", const="", metavar="REV", help="the tests that import what changed")
    testing.add_argument("--no-lint", action="store_true", help="only pytest")
    testing.add_argument("--record", action="store_true", help="renew the committed figures")
    commands.add_parser("lint", help="the linters")
    commands.add_parser("cover", help="the suite under coverage; arguments for pytest go after `--`")
    return made


def main(arguments: list[str]) -> int:
    place = arguments.index("--") if "--" in arguments else len(arguments)
    asked, for_pytest = parser().parse_args(arguments[:place]), arguments[place + 1 :]
    try:
        match asked.command:
            case "test":
                return test(asked, for_pytest)
            case "cover":
                return cover(for_pytest)
            case _:
                return lint()
    except ValueError as error:
        say(f"dev.py: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
