"""`python -m benchmarks.machines`: a machine beside the loop one would write by hand, and the reading of a long log.

The figures are ratios and times of this machine at this moment; the tests guard counts instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from holdfast import LogRow, Machine
from holdfast.core.machine_history import rehydrate
from holdfast.testing.machines import MemoryLog

TRANSITIONS = 10_000
ROWS = 10_000
ROUNDS = 15


@dataclass(slots=True)
class Ping:
    """One side."""

    left: int


@dataclass(slots=True)
class Pong:
    """The other."""

    left: int


@dataclass(slots=True)
class Over:
    """The end."""

    left: int


game = Machine[Ping, Over]("game")


@game.state
async def ping(s: Ping) -> Pong:
    return Pong(s.left - 1)


@game.state
async def pong(s: Pong) -> Ping | Over:
    return Ping(s.left - 1) if s.left > 0 else Over(0)


TABLE: dict[type, Callable[[Any], Awaitable[Any]]] = {
    Ping: ping.definition.function,
    Pong: pong.definition.function,
}


async def by_hand(state: Any) -> Any:
    """The loop over the same functions."""
    while not isinstance(state, Over):
        state = await TABLE[type(state)](state)
    return state


def long_log(rows: int = ROWS) -> list[LogRow]:
    """A log of that many entries: one machine that went on and on."""
    states = ("Ping", "Pong")
    return [LogRow(n, "entry", states[n % 2], states[n % 2].lower(), n + 1, "", b'{"left":0}') for n in range(rows)]


def measure() -> tuple[float, float, float, float]:
    """Nanoseconds a transition by hand and as a machine, their ratio, and milliseconds to read a long log."""
    hand: list[float] = []
    machine: list[float] = []
    for _ in range(ROUNDS):  # side by side, so that what else the machine does hits both
        for work, times in ((by_hand, hand), (game.run, machine)):
            begin = time.perf_counter()
            asyncio.run(work(Ping(TRANSITIONS)))
            times.append((time.perf_counter() - begin) / TRANSITIONS * 1e9)
    log, reading = long_log(), []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        rehydrate("run", log)
        reading.append((time.perf_counter() - begin) * 1e3)
    ratio = median(b / a for a, b in zip(hand, machine, strict=True))
    return median(hand), median(machine), ratio, median(reading)


async def resumed() -> float:
    """Milliseconds from `resume` to the last state of a long log, the store in memory."""
    store = MemoryLog()
    store.runs["run"] = dict(enumerate(long_log(ROWS - 1)))
    begin = time.perf_counter()
    await game.resume("run", store=store)
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    """Prints the figures."""
    hand, machine, ratio, reading = measure()
    print(f"a transition: {hand:.0f} ns by hand, {machine:.0f} ns as a machine without a store: {ratio:.2f} times")
    print(f"a log of {ROWS:,} rows is read in {reading:.1f} ms, resumed from in {asyncio.run(resumed()):.1f} ms")


if __name__ == "__main__":
    main()
