"""A store whose file is deleted or replaced while it is open."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sqlite.store import open_sqlite
from holdfast.errors import StoreUnavailable
from holdfast.ports.leases import WorkerRow
from holdfast.testing.conformance.world import START, new_run

LOST = r"store\.db was deleted or replaced while it was open: nothing more is written\. Put the file back"


async def test_nothing_is_written_into_a_file_that_was_deleted(tmp_path: Path) -> None:
    """Promise: no start is answered, no heart beats, and the error names the file; once it is back, all is well."""
    path = tmp_path / "store.db"
    store = await open_sqlite(path, clock=VirtualClock(START))
    worker = WorkerRow(instance="i", worker="w", queues=(), definitions=(), pid=1, host="here", started_at=START)
    await store.register(worker, timedelta(seconds=15), takes_over="none")
    heart = store.heart("i", timedelta(seconds=15))
    heart.beat()
    await store.create(new_run("before", START), key_since=START)
    path.rename(tmp_path / "away.db")
    with pytest.raises(StoreUnavailable, match=LOST):
        await store.create(new_run("lost", START), key_since=START)
    with pytest.raises(StoreUnavailable, match=LOST):
        heart.beat()
    assert not path.exists()
    (tmp_path / "away.db").rename(path)
    await store.create(new_run("after", START), key_since=START)
    heart.beat()
    heart.close()
    assert await store.get("lost") is None
    await store.close()


async def test_nothing_is_written_beside_a_file_that_was_put_in_place_of_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = await open_sqlite(path, clock=VirtualClock(START))
    await store.create(new_run("before", START), key_since=START)
    other = await open_sqlite(tmp_path / "other.db", clock=VirtualClock(START))
    await other.close()
    path.rename(tmp_path / "away.db")
    (tmp_path / "other.db").rename(path)
    with pytest.raises(StoreUnavailable, match=LOST):
        await store.create(new_run("lost", START), key_since=START)
    await store.close()
