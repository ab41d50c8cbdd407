"""The write-ahead log: our own readers let it be emptied, and another program's reader that does not is reported."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sqlite import condition, link, open_sqlite, writer
from holdfast.ports.runs import Filter
from holdfast.testing.conformance.world import START, World


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of a few pages counts as long."""
    monkeypatch.setattr(writer, "CHECKPOINT_PAGES", 4)
    monkeypatch.setattr(link, "URGENT_PAGES", 8)
    monkeypatch.setattr(link, "LONG_PAGES", 16)
    monkeypatch.setattr(condition, "LONG_LOG", 16 * 4096)


@pytest.mark.usefixtures("short")
async def test_a_reader_that_stays_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: while a program keeps a read transaction open, `doctor` and the log say so with what to do; when it
    ends, the log is emptied by itself."""
    path = tmp_path / "store.db"
    store = await open_sqlite(path)
    world = World(store, VirtualClock(START))
    await world.make("before")
    assert not (await store.condition()).warnings
    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    reader.execute("begin")  # pyright: ignore[reportUnknownMemberType]
    reader.execute("select count(*) from runs").fetchall()  # pyright: ignore[reportUnknownMemberType]
    for number in range(40):
        await world.make(f"during-{number}")
    [warning] = (await store.condition()).warnings
    assert f"lsof {path}" in warning
    assert "read transaction" in warning
    await store.close()
    told = [record for record in caplog.records if "cannot be emptied" in record.getMessage()]
    assert 1 <= len(told) <= 6  # once, and again when it has doubled
    store = await open_sqlite(path)
    reader.execute("commit")  # pyright: ignore[reportUnknownMemberType]
    await World(store, VirtualClock(START)).make("after")
    await store.close()  # the reader's connection is still open: closing does not empty the log
    assert _size(path) <= condition.LONG_LOG
    reader.close()


@pytest.mark.usefixtures("short")
async def test_a_page_of_runs_keeps_no_snapshot_open(tmp_path: Path) -> None:
    """Promise: between two pages of a list, a history or a tree nothing of ours stands in the way of the log."""
    path = tmp_path / "store.db"
    store = await open_sqlite(path)
    world = World(store, VirtualClock(START))
    for number in range(10):
        await world.make(f"run-{number}")
    await store.list(Filter(), limit=2)
    await store.history("run-1", limit=1)
    await store.read_tree("run-1", limit=1)
    await store.trees(limit=1)
    other = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    other.set_busy_timeout(5_000)
    other.execute("select count(*) from runs").fetchall()  # pyright: ignore[reportUnknownMemberType] opens the log
    async with asyncio.timeout(20):
        emptied = await _emptied(other)
    other.close()
    assert emptied == (0, 0)  # the frames that are left, and those moved; the store may write again at once
    await store.close()


async def _emptied(connection: apsw.Connection) -> tuple[int, int]:
    """What emptying the log does, as soon as no checkpoint of the store is under way: SQLite refuses a second one at
    once, whatever the timeout. Beside a reader it is refused forever."""
    while True:
        try:
            return connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            await asyncio.sleep(0.01)


def _size(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size
