"""Two levels over real SQLite files: calls that fail, and power cuts.

The oracle is the same for both: the file is sound, every journal's row is its fold, and nothing is missing that was
acknowledged.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias, get_args
from unittest import mock

import apsw

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sqlite import open_sqlite, writer
from holdfast.adapters.sqlite.connections import Durability
from holdfast.errors import HoldfastError, StoreError
from holdfast.testing.conformance.world import START, World
from tests.lab.disk.files import Faults, Power
from tests.lab.disk.trace import Acknowledged, Trace, integrity
from tests.lab.levels import Effort, Report, level, unheard

TURNS = 12
PAGES = 8
"""A short log, so that moving it into the file is tried too."""

POINTS = 300
"""Calls that fail in a campaign, at least, unless a number was asked for. Below it a campaign is void."""

MOST = 3 * POINTS
"""Traces that are tried at most to reach it."""

CUTS = 60
"""Moments of one trace at which power is cut."""

Mode: TypeAlias = Literal["all lost", "some torn"]
MODES: tuple[Mode, ...] = get_args(Mode)
CODES: tuple[type[apsw.Error], ...] = (apsw.IOError, apsw.FullError)


@dataclass(frozen=True)
class Fault:
    """The number-th call of a verb fails, once or from then on."""

    verb: str
    number: int
    code: type[apsw.Error]
    stays: bool

    def __str__(self) -> str:
        return f"{self.verb} {self.number}, {self.code.__name__}{' for good' if self.stays else ''}"


@dataclass
class Outcome:
    """What came of one fault or one cut: whether it was met at all, and what is wrong afterwards."""

    is_met: bool
    refused: int
    problem: str


@contextmanager
def short_log() -> Iterator[None]:
    """The log is moved into the file every few pages."""
    with mock.patch.object(writer, "CHECKPOINT_PAGES", PAGES):
        yield


def failing(fault: Fault, seed: int) -> Outcome:
    """One trace on a disk with one fault."""
    faults = Faults()
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-disk-") as folder, short_log():
            return asyncio.run(_failing(fault, seed, faults, Path(folder) / "store.db"))
    finally:
        faults.unregister()


async def _failing(fault: Fault, seed: int, faults: Faults, path: Path) -> Outcome:
    noted = Acknowledged()
    store = await open_sqlite(path, clock=VirtualClock(START))
    faults.arm(fault.verb, fault.number, fault.code, stays=fault.stays)
    trace = Trace(store, Random(seed), noted)
    try:
        await trace.run(TURNS)
        faults.disarm()
        await store.close()
    finally:
        faults.disarm()
    return Outcome(faults.hits > 0, trace.refused, await judged(path, noted))


async def judged(path: Path, noted: Acknowledged) -> str:
    """What is wrong with a store that was left behind; empty if nothing is."""
    clock = VirtualClock(START)
    try:
        store = await open_sqlite(path, clock=clock)
    except HoldfastError as error:
        return f"it does not open: {error}" if noted.rows else ""
    world = World(store, clock)
    try:
        await world.verify()
        lost = await noted.missing(world)
    except (AssertionError, StoreError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        await store.close()
    return "; ".join([*(f"lost {what}" for what in lost), *filter(None, [integrity(str(path))])])


def cut(seed: int, at: frozenset[int], mode: Mode, *, durability: Durability = "full") -> tuple[list[Outcome], int]:
    """One trace, and what power cuts at those calls would leave. Also says how many calls there were."""
    with tempfile.TemporaryDirectory(prefix="holdfast-power-") as folder:
        base = Path(folder)
        path = base / "live" / "store.db"
        path.parent.mkdir()
        noted = Acknowledged()
        left: list[tuple[Path, Acknowledged]] = []

        def called(power: Power) -> None:
            if power.calls in at:
                rng = None if mode == "all lost" else Random(f"{seed}:{power.calls}")
                left.append((power.leave(path, base / f"cut-{power.calls}", rng), noted.copy()))

        power = Power(called)
        try:
            with short_log():
                asyncio.run(_worked(path, seed, noted, durability))
        finally:
            power.unregister()
        return [Outcome(True, 0, asyncio.run(judged(file, then))) for file, then in left], power.calls


async def _worked(path: Path, seed: int, noted: Acknowledged, durability: Durability) -> None:
    store = await open_sqlite(path, clock=VirtualClock(START), durability=durability)
    await Trace(store, Random(seed), noted).run(TURNS)
    await store.close()


def chosen(rng: Random) -> Fault:
    """A fault, most of them where data is written."""
    verb = rng.choice(("write", "write", "write", "write", "sync", "sync", "sync", "sync", "truncate", "read"))
    return Fault(verb, rng.randint(1, 60), rng.choice(CODES), stays=rng.random() < 0.3)


def is_wanted(effort: Effort, tried: int, met: int) -> bool:
    """Whether one more fault is to be tried: as many as were asked for, or until the floor is reached and the time is
    over."""
    if effort.seeds is not None:
        return tried < effort.seeds and not effort.is_over
    if met < POINTS:
        return tried < MOST
    return effort.seconds is not None and not effort.is_over


@level("disk faults", "calls of SQLite to its files fail, once or for good")
def disk_faults(effort: Effort) -> Report:
    """One trace of work for each fault. Some faults lie behind the end of their trace, so it goes on until enough were
    met."""
    met = refused = 0
    report = Report()
    for seed in count(effort.first):
        if not is_wanted(effort, seed - effort.first, met):
            break
        rng = Random(f"disk faults:{seed}")
        fault = chosen(rng)
        with unheard():
            outcome = failing(fault, seed)
        met += outcome.is_met
        refused += outcome.refused
        if outcome.problem:
            report.problems.append(f"failing({fault}, seed {seed}): {outcome.problem}")
    if effort.seeds is None and met < POINTS:
        report.problems.append(f"void: {met} calls failed, {POINTS} are the least")
    report.figures = {"calls that failed": met, "operations refused": refused}
    report.sometimes = {"a failed call was met": met, "an operation was refused": refused}
    return report


@level("power cuts", "what was not synced is lost or torn")
def power_cuts(effort: Effort) -> Report:
    """Each seed is a trace of work with cuts at many of its moments, once with all that was not synced lost, once with
    some of it torn."""
    report = Report()
    cuts = 0
    for seed in seeds(effort, 4):
        for mode in MODES:
            _, calls = cut(seed, frozenset(), mode)
            moments = Random(f"{seed}:{mode}").sample(range(1, calls + 1), min(CUTS, calls))
            outcomes, _ = cut(seed, frozenset(moments), mode)
            cuts += len(outcomes)
            found = [outcome.problem for outcome in outcomes if outcome.problem]
            report.problems += [f"cut(seed {seed}, {mode!r}): {problem}" for problem in found]
    report.figures = {"power cuts": cuts}
    report.sometimes = {"power was cut": cuts}
    return report


def seeds(effort: Effort, usual: int) -> Iterator[int]:
    """The seeds of a level: as many as were asked for, and no longer than the time allows; asked for neither, the usual
    number."""
    most = effort.seeds if effort.seeds is not None or effort.seconds is not None else usual
    for seed in count(effort.first):
        if effort.is_over or (most is not None and seed >= effort.first + most):
            return
        yield seed
