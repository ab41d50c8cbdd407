"""What stands behind a SQLite store, in words."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from holdfast.adapters.sql.rows import backlog_row
from holdfast.adapters.sql.run_list import PIECE, damaged_of
from holdfast.adapters.sqlite import condition_statements as sql
from holdfast.adapters.sqlite.connection import Durability
from holdfast.core.turn import micros
from holdfast.ports.clock import Clock
from holdfast.ports.condition import Backlog, Condition
from holdfast.ports.runs import RunRow

SOUND = (3, 51, 3)
"""Before it, connections that write and checkpoint together could corrupt the file (the WAL-reset bug)."""

_DURABILITY: dict[Durability, str] = {
    "full": "full: every commit is on disk before it counts",
    "normal": "normal: a power cut may take the last commits",
    "off": "off: for this process only",
}


LONG_LOG = 64 * 1024 * 1024
"""Bytes. The writer keeps the log far below this unless a reader is in its way."""


class Examined(ABC):
    """The part of a SQLite store that says what is wrong with its rows, and who waits."""

    @abstractmethod
    def _rows(self, statement: str, *values: object) -> Any: ...

    @property
    @abstractmethod
    def clock(self) -> Clock:
        """The clock of the store."""

    async def backlog(self) -> Sequence[Backlog]:
        """See `ports.condition`. Off the event loop."""
        rows = await asyncio.to_thread(self._rows, sql.BACKLOG, micros(self.clock.now()))
        return [backlog_row(row) for row in rows]

    async def damaged(self, *, limit: int) -> Sequence[RunRow]:
        """See `ports.condition`. Off the event loop."""
        return await asyncio.to_thread(damaged_of, lambda after: self._rows(sql.OPEN_RUNS, after, PIECE), limit)


def condition_of(durability: Durability, version: str | None = None, *, path: Path | None = None) -> Condition:
    """The library, what a power cut can take, and a log that is long. (`version` is for tests.)"""
    found = apsw.sqlite_lib_version() if version is None else version
    is_sound = tuple(int(part) for part in found.split(".")[:3]) >= SOUND
    fault = f"SQLite {found} has a bug that can corrupt the store: use {'.'.join(map(str, SOUND))} or later"
    return Condition(
        engine=f"SQLite {found}",
        durability=_DURABILITY[durability],
        faults=() if is_sound else (f"{fault} (apsw)",),
        warnings=() if path is None else tuple(_long_log(path)),
    )


def _long_log(path: Path) -> Iterator[str]:
    log = Path(f"{path}-wal")
    try:
        size = log.stat().st_size
    except OSError:
        return
    if size > LONG_LOG:
        yield (
            f"the log {log} has {size / 1e6:.0f} MB: a process keeps a read transaction open, so the log cannot be "
            f"emptied. Find it (lsof {path}), for example a database tool or a backup, and end it; the log shrinks "
            "with the next writes"
        )
