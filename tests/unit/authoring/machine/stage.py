"""States and helpers that the tests of machines share."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from holdfast import LogRow, Machine, Retry
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.testing.machines import MemoryLog
from holdfast.testing.virtual_loop import VirtualLoop

T = TypeVar("T")
ONCE = Retry.none


@dataclass
class A:
    n: int = 0


@dataclass
class B:
    n: int = 0


@dataclass
class C:
    n: int = 0


@dataclass
class D:
    n: int = 0


@dataclass
class End:
    n: int = 0


class Boom(Exception):
    """What tests let go wrong."""


def play(work: Coroutine[Any, Any, T]) -> T:
    """Runs it on virtual time: nothing sleeps for real."""
    return timed(work)[0]


def timed(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """As `play`, with the virtual seconds it took."""
    loop = VirtualLoop(VirtualClock(datetime(2026, 1, 1, tzinfo=UTC)))
    asyncio.set_event_loop(loop)
    try:
        begin = loop.time()
        return loop.finish(work, "the test"), loop.time() - begin
    finally:
        loop.end()
        asyncio.set_event_loop(None)


def failing(work: Coroutine[Any, Any, Any]) -> BaseException:
    """The error it ends with."""

    async def run() -> BaseException:
        try:
            value = await work
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 the test looks at it
            return error
        raise AssertionError(f"it ended with {value!r}")

    return play(run())


def kinds(rows: Any) -> list[tuple[int, str, str, str]]:
    """Rows, short: sequence, kind, state, task."""
    return [(row.sequence, row.kind, row.state, row.task) for row in rows]


class Chain:
    """A → B → C → D → End, each with an undo that says so; what happens is noted in `done`."""

    def __init__(self, *, undo: str = "ABC", fail: str = "", undo_fails: str = "", **options: Any) -> None:
        self.done: list[str] = []
        self.fail = fail
        self.undo_fails = undo_fails
        self.machine = machine = Machine[A, End]("chain", retry=ONCE, **options)

        async def note(name: str) -> None:
            self.done.append(name)
            await asyncio.sleep(0)
            if name in self.fail:
                raise Boom(name)

        async def back(name: str) -> None:
            self.done.append(f"undo {name}")
            await asyncio.sleep(0)
            if name in self.undo_fails:
                raise Boom(f"undo {name}")

        @machine.state
        async def a(s: A) -> B:
            await note("A")
            return B(s.n + 1)

        @machine.state
        async def b(s: B) -> C:
            await note("B")
            return C(s.n + 1)

        @machine.state
        async def c(s: C) -> D:
            await note("C")
            return D(s.n + 1)

        @machine.state
        async def d(s: D) -> End:
            await note("D")
            return End(s.n + 1)

        if "A" in undo:

            @a.undo
            async def undo_a(left: B, s: A) -> None:
                await back("A")

        if "B" in undo:

            @b.undo
            async def undo_b(left: C, s: B) -> None:
                await back("B")

        if "C" in undo:

            @c.undo
            async def undo_c(left: D, s: C) -> None:
                await back("C")


class FaultyLog(MemoryLog):
    """Refuses the appends it is told to: by sequence, by kind, or all after a sequence."""

    def __init__(self, *, at: int | None = None, kind: str = "", clear: bool = False) -> None:
        super().__init__()
        self.at = at
        self.kind = kind
        self.refuses_clear = clear

    async def append(self, run_id: str, row: LogRow) -> None:
        if row.sequence == self.at or row.kind == self.kind:
            raise OSError("the disk is gone")
        await super().append(run_id, row)

    async def clear(self, run_id: str) -> None:
        if self.refuses_clear:
            raise OSError("the disk is gone")
        await super().clear(run_id)
