"""Counts of what was done: the figures that do not depend on how busy the machine is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Self
from unittest.mock import patch

import apsw
import psycopg

from holdfast.adapters.postgres.binary import Statement
from holdfast.adapters.postgres.connections import TimedConnection


class Connections:
    """Every SQLite connection of this process that is opened in the block, and what is asked of it.

    A connection is traced from its opening on: to change that later would meet the thread that uses it.
    """

    def __init__(self) -> None:
        self._statements: Counter[str] | None = None

    def __enter__(self) -> Self:
        apsw.connection_hooks.append(self._trace)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        apsw.connection_hooks.remove(self._trace)

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """The statements begun in the block, by their text."""
        self._statements = statements = Counter[str]()
        try:
            yield statements
        finally:
            self._statements = None

    def _trace(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._traced)

    def _traced(self, event: dict[str, Any]) -> None:
        statements = self._statements
        if statements is not None and not event.get("trigger"):
            statements[" ".join(str(event["sql"]).split())] += 1


class _SyncCounted(apsw.VFSFile):
    """A file that counts how often it is synced."""

    counts: ClassVar[Counter[str]] = Counter()

    def xSync(self, flags: int) -> None:  # noqa: N802 apsw's name
        self.counts["syncs"] += 1
        super().xSync(flags)

    def xLock(self, level: int) -> None:  # noqa: N802 apsw's name
        try:
            super().xLock(level)
        except apsw.IOError:  # the last reader to close tries a checkpoint; SQLite itself makes nothing of that
            raise apsw.BusyError from None


class _SyncCounting(apsw.VFS):
    """A file system with counted syncs over another one, by whose name it is called."""

    def __init__(self, base: str) -> None:
        self._base = base
        super().__init__("counted", base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 apsw's name
        return _SyncCounted(self._base, name, flags)


@contextmanager
def counted_syncs() -> Iterator[Counter[str]]:
    """Syncs of all files that SQLite opens in the block."""
    base = apsw.vfs_names()[0]
    counting = _SyncCounting(base)
    _SyncCounted.counts = Counter()
    try:
        yield _SyncCounted.counts
    finally:
        apsw.set_default_vfs(base)
        counting.unregister()


@contextmanager
def counted_hops() -> Iterator[Counter[str]]:
    """Wake-ups of event loops by other threads, and functions handed to a pool."""
    counts: Counter[str] = Counter()
    kind = asyncio.BaseEventLoop
    woken, handed = kind.call_soon_threadsafe, kind.run_in_executor

    def call_soon_threadsafe(self: asyncio.BaseEventLoop, *args: Any, **kwargs: Any) -> Any:
        counts["wake-ups"] += 1
        return woken(self, *args, **kwargs)

    def run_in_executor(self: asyncio.BaseEventLoop, *args: Any) -> Any:
        counts["to a pool"] += 1
        return handed(self, *args)

    setattr(kind, "call_soon_threadsafe", call_soon_threadsafe)  # noqa: B010 patched for as long as the block lasts
    setattr(kind, "run_in_executor", run_in_executor)  # noqa: B010
    try:
        yield counts
    finally:
        setattr(kind, "call_soon_threadsafe", woken)  # noqa: B010
        setattr(kind, "run_in_executor", handed)  # noqa: B010


@contextmanager
def counted_questions() -> Iterator[Counter[str]]:
    """What is asked of PostgreSQL in the block by any connection, by its text: each is a transaction of its own."""
    counts: Counter[str] = Counter()
    execute, ask = psycopg.Connection.execute, TimedConnection.ask

    def executing(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        counts[" ".join(query.decode().split()) if isinstance(query, bytes) else str(query)] += 1
        return execute(self, query, *args, **kwargs)

    def asking(self: Any, statement: Statement, values: Any) -> Any:
        counts[" ".join(statement.text.decode().split())] += 1
        return ask(self, statement, values)

    with patch.object(psycopg.Connection, "execute", executing), patch.object(TimedConnection, "ask", asking):
        yield counts
