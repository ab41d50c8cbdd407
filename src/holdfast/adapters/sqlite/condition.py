"""The condition of a SQLite store, in words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw

from holdfast.adapters.sql.rows import backlog_row
from holdfast.adapters.sql.run_list import PIECE, damaged_of
from holdfast.adapters.sqlite import condition_statements
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.access import Access
from holdfast.adapters.sqlite.connections import Durability, open_writable, run
from holdfast.core.turn import micros
from holdfast.ports.condition import Backlog, Condition
from holdfast.ports.runs import RunRow

SOUND = (3, 51, 3)
"""The first sound version. In earlier ones, connections that write and checkpoint together could corrupt the file (the
WAL-reset bug)."""

_DURABILITY: dict[Durability, str] = {
    "full": "full: every commit is on disk before it counts",
    "normal": "normal: a power cut may lose the last commits",
    "off": "off: the data last as long as this process",
}


LONG_LOG = 64 * 1024 * 1024
"""Size in bytes at which the log counts as long. The writer keeps it far shorter unless a reader holds it up."""

LONG_WAIT, PATIENCE = 0.5, 1.0
"""Seconds: a write that waits longer than the first is reported, and the second is how long this check tries. A
transaction of Holdfast takes milliseconds."""


class Examined(Access):
    """The part of a SQLite store that reports damaged rows and waiting writers."""

    async def condition(self) -> Condition:
        """See `ports.condition`. Off the event loop."""
        return await asyncio.to_thread(condition_of, self._durability, path=self._location.path)

    async def backlog(self) -> Sequence[Backlog]:
        """See `ports.condition`. Off the event loop."""
        rows = await asyncio.to_thread(self._rows, condition_statements.BACKLOG, micros(self._clock.now()))
        return [backlog_row(row) for row in rows]

    async def damaged(self, *, limit: int) -> Sequence[RunRow]:
        """See `ports.condition`. Off the event loop."""
        rows = condition_statements.OPEN_RUNS
        return await asyncio.to_thread(damaged_of, lambda after: self._rows(rows, after, PIECE), limit)


def condition_of(durability: Durability, version: str | None = None, *, path: Path | None = None) -> Condition:
    """Checks the library, the durability, the length of the log, and waiting writes. Blocking. (`version` is for
    tests.)"""
    found = apsw.sqlite_lib_version() if version is None else version
    is_sound = tuple(int(part) for part in found.split(".")[:3]) >= SOUND
    fault = f"SQLite {found} has a bug that can corrupt the store: use {'.'.join(map(str, SOUND))} or later"
    return Condition(
        engine=f"SQLite {found}",
        durability=_DURABILITY[durability],
        faults=() if is_sound else (f"{fault} (apsw)",),
        warnings=() if path is None else (*_long_log(path), *_contention(path, durability)),
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


def _contention(path: Path, durability: Durability) -> Iterator[str]:
    """Asks for the write lock as a writer does, and gives it back unused."""
    try:
        connection = open_writable(path, durability)
    except apsw.Error:  # for readers only: no write of this process waits
        return
    began = time.monotonic()
    try:
        while True:
            waited = time.monotonic() - began
            try:
                run(connection, sql.BEGIN)
            except apsw.BusyError:
                if waited >= PATIENCE:
                    break
                time.sleep(0.005)
            else:
                run(connection, sql.ROLLBACK)
                break
    except apsw.Error:  # what is wrong with the file, other checks say
        return
    finally:
        connection.close()
    if waited >= LONG_WAIT:
        in_vain = " in vain" if waited >= PATIENCE else ""
        yield (
            f"a write waited {min(waited, PATIENCE):.1f} s for the write lock{in_vain}: "
            f"other processes write to this file. A tool that left a transaction open stops every run (lsof {path} "
            "names the processes); many workers on one file are better served by PostgreSQL"
        )
