"""The writer's connection: what a look for the writes of others costs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from benchmarks.counting import Connections
from holdfast.adapters.sqlite.connections import open_writable, pragma
from holdfast.adapters.sqlite.store import SqliteStore, open_sqlite

AN_HOUR = 3600 * 10**9


def aged(path: Path) -> None:
    """The log as it is long after the last write."""
    found = path.stat()
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns - AN_HOUR))


@contextmanager
def questions(connections: Connections) -> Iterator[list[int]]:
    """How often SQLite was asked whether others wrote."""
    found: list[int] = []
    with connections.counted() as statements:
        yield found
    found.append(sum(count for text, count in statements.items() if "data_version" in text))


async def changed_by_another(store: SqliteStore, path: Path) -> bool:
    """Whether the next look sees what another connection writes."""
    seen = store.changes()
    with closing(open_writable(path, "full")) as other:
        pragma(other, "user_version", pragma(other, "user_version"))
    return store.changes() != seen


async def test_a_look_at_a_log_that_stands_still_asks_nothing(tmp_path: Path) -> None:
    """Promise: an idle process looks at the log, not into the store, and still sees the next write of another."""
    path, log = tmp_path / "a.db", tmp_path / "a.db-wal"
    with Connections() as connections:
        store = await open_sqlite(path)
        try:
            assert await changed_by_another(store, path)
            aged(log)
            store.changes()
            with questions(connections) as asked:
                for _ in range(100):
                    store.changes()
            assert asked == [0]
            assert await changed_by_another(store, path)
        finally:
            await store.close()


async def test_a_log_written_just_now_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: two writes in one tick of the file system's clock, one before a look and one after it, are both seen."""
    path, log = tmp_path / "a.db", tmp_path / "a.db-wal"
    store = await open_sqlite(path)
    try:
        assert await changed_by_another(store, path)
        first = log.stat()
        real = os.stat

        def in_one_tick(asked: object, **options: object) -> object:
            return first if asked == str(log) else real(asked, **options)  # type: ignore[arg-type]

        monkeypatch.setattr("holdfast.adapters.sqlite.link.time.time_ns", lambda: first.st_mtime_ns)
        monkeypatch.setattr("holdfast.adapters.sqlite.link.os.stat", in_one_tick)
        store.changes()
        assert await changed_by_another(store, path)
    finally:
        monkeypatch.undo()
        await store.close()
