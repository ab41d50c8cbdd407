"""What each test takes. Committed figures decide the order of a run, and a run's own figures are compared with them.

`figures.json` beside this file holds the tests that take a second or more and the processor seconds of each stage.
`python3 dev.py test --record` renews it. The seconds of a test tell how long a developer waits; its processor seconds
(with the processes it started and waited for) tell what it costs, and hardly change on a busy machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

FIGURES = Path(__file__).with_name("figures.json")
TIMES = "HOLDFAST_TEST_TIMES"
"""The variable that names the file to which a run writes what each test took."""

SLOW = 1.0
"""Tests that take less are not listed, and keep the order in which they are collected."""

PROPERTY = "processor"
Item = TypeVar("Item")


class Cost(msgspec.Struct, frozen=True, array_like=True):
    """What one test takes."""

    seconds: float = 0.0
    processor: float = 0.0

    @property
    def is_listed(self) -> bool:
        return max(self.seconds, self.processor) >= SLOW


class Figures(msgspec.Struct, frozen=True):
    """What a run takes: each listed test, and the processor seconds of each stage."""

    tests: dict[str, Cost] = {}
    stages: dict[str, float] = {}


def committed(path: Path = FIGURES) -> Figures:
    """The figures the project keeps; none yet if the file is missing."""
    return msgspec.json.decode(path.read_bytes(), type=Figures) if path.exists() else Figures()


def slowest_first(items: Iterable[tuple[str, Item]], known: Mapping[str, Cost]) -> list[Item]:
    """Long tests at the front, longest first, so that no core idles at the end of a run; the rest as they come."""
    nothing = Cost()
    return [item for _, item in sorted(items, key=lambda pair: -known.get(pair[0], nothing).seconds)]


def order(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts slow tests first if several processes share the work; every process computes the same order."""
    if hasattr(config, "workerinput") or getattr(config.option, "numprocesses", None):
        items[:] = slowest_first([(item.nodeid, item) for item in items], committed().tests)


def measured(item: pytest.Item) -> Iterator[None]:
    """Around the teardown: notes the processor seconds since `begin` where the teardown's report carries them along."""
    yield
    item.user_properties.append((PROPERTY, sum(os.times()[:4]) - item.stash[_BEGAN]))


def begin(item: pytest.Item) -> None:
    """Before the setup of a test."""
    item.stash[_BEGAN] = sum(os.times()[:4])


_BEGAN = pytest.StashKey[float]()


def write(reporter: pytest.TerminalReporter) -> None:
    """Leaves what each test took in the file that the command asked for."""
    if TIMES not in os.environ:
        return
    seconds: dict[str, float] = {}
    processor: dict[str, float] = {}
    reports: list[Any] = [report for kind in reporter.stats.values() for report in kind]
    for report in reports:
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
            for value in (value for name, value in report.user_properties if name == PROPERTY):
                processor[report.nodeid] = float(str(value))
    costs = {name: Cost(seconds[name], processor.get(name, 0.0)) for name in seconds}
    Path(os.environ[TIMES]).write_bytes(msgspec.json.encode(costs))


def read(path: Path) -> dict[str, Cost]:
    """What a run wrote; empty if it did not come that far."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Cost]) if path.exists() else {}


def record(tests: Mapping[str, Cost], stages: Mapping[str, float], path: Path = FIGURES) -> None:
    """Renews the committed figures."""
    listed = {
        name: Cost(round(cost.seconds, 1), round(cost.processor, 1))
        for name, cost in sorted(tests.items())
        if cost.is_listed
    }
    figures = Figures(listed, {name: round(seconds) for name, seconds in stages.items()})
    compact = msgspec.json.encode(figures).decode()
    path.write_text(re.sub(r"(\],|\},|\{)(?=\")", r"\1\n ", compact) + "\n", encoding="utf-8")  # a line for each test
