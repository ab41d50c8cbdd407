"""The same world over real SQLite: its writer works on the caller's thread, at once, so that a seed repeats."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from holdfast.adapters.sqlite.attempt import Work, perform
from holdfast.adapters.sqlite.open_checks import prepare
from holdfast.adapters.sqlite.outbox import Batch
from holdfast.adapters.sqlite.store import SqliteStore
from holdfast.adapters.sqlite.transaction import Operation
from holdfast.adapters.sqlite.writer import Writer
from tests.lab.sim.loop import SimulatedClock
from tests.lab.sim.world import Result, World

T = TypeVar("T")


class WriterAtOnce(Writer):
    """Everything inline: whoever writes is alone on this thread."""

    async def run(self, operation: Operation[T], *, is_large: bool = False) -> T:
        work = Work(operation)
        while not self._run_inline(work):
            with self._lock:  # its thread moves the log into the file: nobody here sees that time
                pass
        result: T = work.outcome()
        return result

    async def run_all(self, operations: Sequence[Operation[T]]) -> list[T | Exception]:
        batch = Batch.of(operations)
        with self._lock:
            hints = perform(batch.pieces, self._link, self._clock)
        self._on_commit(hints)
        return batch.outcome()


def on_sqlite(seed: int, hints: str | None = None) -> Result:
    """One seed over a store in a file."""
    with tempfile.TemporaryDirectory(prefix="holdfast-lab-") as folder:
        location = prepare(Path(folder) / "store.db", auto_migrate=True, durability="off")
        opened: list[SqliteStore] = []

        def open_store(clock: SimulatedClock) -> SqliteStore:
            store = SqliteStore(location, clock, "off")
            store._writer.close()
            store._writer = WriterAtOnce(store._link(), clock, store._listeners.tell)
            opened.append(store)
            return store

        try:
            return World(seed, open_store=open_store, hints=hints).run()
        finally:
            for store in opened:
                asyncio.run(store.close())
