"""The levels of the lab: each hits Holdfast in a way of its own, as long as it is told to, and says what came of it.

To add one, write a module with a function like this, and name the module in `MODULES`:

    @level("power cuts", "SQLite loses what was not synced", share=2)
    def power_cuts(effort: Effort) -> Report: ...
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

Figure: TypeAlias = int | float | str

MODULES = (
    "tests.lab.sim.campaign",
    "tests.lab.sim.crash_points",
    "tests.lab.properties.campaign",
    "tests.lab.examples",
    "tests.lab.damage.campaign",
    "tests.lab.disk.campaign",
    "tests.lab.crowds.campaign",
    "tests.lab.limits.campaign",
    "tests.lab.bits.campaign",
    "tests.lab.chaos.campaign",
    "tests.lab.leases.campaign",
    "tests.lab.buckets.campaign",
    "tests.lab.sweeps.campaign",
    "tests.lab.lint.campaign",
    "tests.lab.mutating",
    "tests.lab.flakes.campaign",
)
"""Where levels are found, in the order in which they run."""


@dataclass(frozen=True)
class Effort:
    """How much a level is to do: until so many seconds are over, or so many seeds were tried, whichever is given.

    `processes` may work at once. `first` is the first seed; `say` shows progress. `for_pytest` is what followed `--`.
    """

    seconds: float | None = None
    seeds: int | None = None
    first: int = 0
    processes: int = 1
    for_pytest: Sequence[str] = ()
    say: Callable[[str], None] = print
    began: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        """Whether the time is up; without a time it never is."""
        return self.seconds is not None and time.monotonic() - self.began >= self.seconds


@dataclass
class Report:
    """What a level found. `problems` make the campaign fail; each says how to see it again."""

    figures: dict[str, Figure] = field(default_factory=dict[str, Figure])
    sometimes: dict[str, int] = field(default_factory=dict[str, int])
    """How often each thing happened that a campaign has to meet; one that never did is a problem."""
    problems: list[str] = field(default_factory=list[str])
    listed: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """What was tried one by one, and what each came to: the rows of a table on the page."""

    @property
    def never(self) -> list[str]:
        """What a campaign has to meet and did not."""
        return [name for name, count in self.sometimes.items() if not count]


Run: TypeAlias = Callable[[Effort], Report]


@dataclass(frozen=True)
class Level:
    """One level. `share`: how much of a campaign's time it gets, beside the others.

    One that is `on_request` takes hours: a campaign leaves it out unless `--only` names it.
    """

    name: str
    title: str
    run: Run
    share: float
    on_request: bool = False


@contextmanager
def unheard() -> Iterator[None]:
    """What Holdfast logs is not printed: a level makes it complain at length."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


_LEVELS: dict[str, Level] = {}


def level(name: str, title: str, *, share: float = 1, on_request: bool = False) -> Callable[[Run], Run]:
    """Makes a function a level of the lab."""

    def register(run: Run) -> Run:
        _LEVELS[name] = Level(name, title, run, share, on_request)
        return run

    return register


def levels() -> Mapping[str, Level]:
    """All of them, by name, in the order of `MODULES`."""
    for module in MODULES:
        importlib.import_module(module)
    return {name: each for module in MODULES for name, each in _LEVELS.items() if each.run.__module__ == module}
