"""Flaky tests as a level: those with processes, servers or clocks run ten times, each time with another seed.

`dev.py lab --only flakes` runs them all; after `--` follows what to run instead, such as `tests/chaos -k kill`.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.command.changed import sources
from tests.lab.flakes.listener import VARIABLE
from tests.lab.flakes.selection import selection
from tests.lab.levels import Effort, Report, level

ROOT = Path(__file__).resolve().parents[3]
ROUNDS = 10


@dataclass
class Tally:
    """What became of each test so far."""

    rounds: int = 0
    passed: int = 0
    failed: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """By test: the seeds with which it failed."""
    broken: list[str] = field(default_factory=list[str])
    """Rounds that pytest could not finish."""


@level("flakes", "tests with processes, servers or clocks, again and again with other seeds", on_request=True)
def flakes(effort: Effort) -> Report:
    """Runs them as often as `--seeds` says, or until the time is over."""
    words = effort.for_pytest or chosen(effort.say)
    most = effort.seeds or (ROUNDS if effort.seconds is None else sys.maxsize)
    tally = Tally()
    while tally.rounds < most and (not tally.rounds or not effort.is_over):
        play(words, (effort.first + tally.rounds) % 2**32, effort, tally)
    for line in table(tally):
        effort.say(line)
    return Report(
        figures={"rounds": tally.rounds, "tests that failed": len(tally.failed)},
        sometimes={"a test passed": tally.passed},
        problems=[*tally.broken, *(problem(test, seeds, tally) for test, seeds in tally.failed.items())],
    )


def chosen(say: Callable[[str], None]) -> list[str]:
    """The test files of the project that depend on the machine."""
    texts = sources()
    found = selection(texts)
    every = [path for path in texts if Path(path).name.startswith("test_")]
    reasons = Counter(reason for reasons in found.values() for reason in reasons)
    counted = ", ".join(f"{count} with {reason}" for reason, count in reasons.items())
    say(f"   {len(found)} of {len(every)} test files: {counted}")
    return list(found)


def play(words: Sequence[str], seed: int, effort: Effort, tally: Tally) -> None:
    """One round: pytest runs once, and what it tells is counted."""
    began, ended, failed, tenths = time.monotonic(), set[str](), set[str](), set[int]()
    tally.rounds += 1
    name = f"round {tally.rounds}, seed {seed}"
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed, bar() as progress:
        shown = progress.add_task(name, total=None)
        with closing(heard(command_of(words, seed, effort.processes), seed, printed)) as told:
            for one in told:
                match one:
                    case {"count": count}:
                        progress.update(shown, total=count)
                        tenths = {count * tenth // 10 for tenth in range(1, 10)} if progress.disable else set()
                    case {"test": test, "problem": ""}:
                        ended.add(test)
                    case {"test": test, "problem": text}:
                        failed.add(test)
                        effort.say(f"\n!! seed {seed}: {test}\n{text}")
                    case {"code": code} if code and not failed:
                        printed.seek(0)
                        tally.broken.append(f"seed {seed}: pytest ended with {code}:\n{printed.read()[-4000:]}")
                    case _:
                        pass
                progress.update(shown, completed=(done := len(ended | failed)))
                if done in tenths:
                    tenths.remove(done)
                    effort.say(f"   {name}: {done} tests after {time.monotonic() - began:.0f} s")
    for test in sorted(failed):
        tally.failed.setdefault(test, []).append(seed)
    tally.passed += len(ended - failed)
    figures = f"{len(ended - failed)} passed, {len(failed)} failed, {time.monotonic() - began:.0f} s"
    effort.say(f"   {name}: {figures}")


def command_of(words: Sequence[str], seed: int, processes: int) -> list[str]:
    """As `dev.py test` runs the suite: a worker more than there are cores."""
    spread = ["-n", str(processes + 1), "--maxschedchunk", "4", f"--hypothesis-seed={seed}"]
    return [sys.executable, "-m", "pytest", "-p", "tests.lab.flakes.listener", *spread, *words]


def heard(command: Sequence[str], seed: int, printed: Any) -> Generator[dict[str, Any]]:
    """What the listener in that pytest tells, and at the end its exit code."""
    reading, writing = os.pipe()
    told = {VARIABLE: str(writing), "HOLDFAST_TEST_SEED": str(seed), "PYTHONHASHSEED": str(seed)}
    with os.fdopen(reading, encoding="utf-8") as lines:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **told},
            pass_fds=[writing],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        os.close(writing)
        try:
            yield from map(json.loads, lines)
            yield {"code": process.wait()}
        finally:
            process.terminate()
            process.wait()


def bar() -> Progress:
    """A bar in a terminal; nothing in a pipe, where lines say how far a round is."""
    columns = (TextColumn("   {task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, transient=True, disable=not sys.stdout.isatty())


def table(tally: Tally) -> Iterator[str]:
    """The tests that failed, most often first."""
    if tally.failed:
        yield f"\n   {'failures':>8}  test"
    for test, seeds in sorted(tally.failed.items(), key=lambda pair: -len(pair[1])):
        yield f"   {len(seeds):>2} of {tally.rounds:<2}  {test}  (seeds {', '.join(map(str, seeds))})"


def problem(test: str, seeds: Sequence[int], tally: Tally) -> str:
    """How often a test failed, and how to run it again."""
    seed = seeds[0]
    again = f"HOLDFAST_TEST_SEED={seed} PYTHONHASHSEED={seed} .venv/bin/pytest --hypothesis-seed={seed}"
    return f"{test} failed {len(seeds)} of {tally.rounds} times: {again} {shlex.quote(test)}"
