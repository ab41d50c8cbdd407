"""Files that older code left: HEAD opens every schema version there ever was, and its runs go on to their ends."""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from holdfast import RunFailed, Status
from holdfast.adapters.sqlite import open_sqlite
from holdfast.adapters.sqlite.migrations import MIGRATIONS
from holdfast.client.verification import verify_run
from holdfast.core.turn import instant
from holdfast.errors import StoreRefused
from holdfast.ports.runs import Filter
from tests.golden import flows
from tests.golden.make_stores import FOLDER, WORKFLOWS
from tests.support import warm
from tests.support.world import open_world

STORES = sorted(FOLDER.glob("sqlite-*.sql"))
PATIENCE = 60.0
RUNS = 6


def laid_down(golden: Path, folder: Path) -> Path:
    """The golden store as a file."""
    path = folder / "store.db"
    connection = apsw.Connection(str(path))
    connection.execute(golden.read_text(encoding="utf-8"))
    connection.close()
    return path


def left_at(path: Path) -> datetime:
    """When the last row of that file was written."""
    connection = apsw.Connection(str(path))
    ((last,),) = connection.execute("SELECT max(at) FROM events").fetchall()
    connection.close()
    return instant(cast("int", last))


async def problems(path: Path) -> list[str]:
    """What does not hold in a store, after it was brought up to date."""
    store = await open_sqlite(path)
    rows = (await store.list(Filter(), limit=100)).runs
    found = [f"{row.id}: {problem}" for row in rows if (problem := (await verify_run(store, row)).problem)]
    await store.close()
    assert len(rows) >= RUNS - 1
    return found


def test_every_version_has_its_golden_store() -> None:
    """Contract: a new migration comes with a golden store; `make_stores.py` writes it."""
    assert [path.stem for path in STORES] == [f"sqlite-{number}" for number in range(1, len(MIGRATIONS) + 1)]


@pytest.mark.parametrize("golden", STORES, ids=lambda path: path.stem)
async def test_runs_of_an_old_file_go_on(golden: Path, tmp_path: Path) -> None:
    """Promise (V9, S20): ended runs are as they were; those that slept, waited or were pending reach their ends.

    It is the time of the file, whatever day this is: waits of a day, and retention, would else make the test another.
    """
    path = laid_down(golden, tmp_path)
    assert not await problems(path)
    async with (
        open_world("sqlite", tmp_path, virtual=True, start=left_at(path)) as world,
        world.serving(*WORKFLOWS) as app,
    ):
        assert (await (await app.get("ended", flows.sequence)).result())[0] == "paid a"
        with pytest.raises(RunFailed, match="negative"):
            await (await app.get("failed")).result()
        await world.advance("1s")
        assert await (await app.get("pending", flows.ship)).result(timeout=PATIENCE) == "later"
        waiting = await app.get("waiting", flows.signalled)
        for _ in range(3):
            await waiting.signal(flows.approved, True)
        await world.until_waiting(waiting, "waiting for topic orders.paid")
        await app.publish(flows.paid, "o")
        assert await waiting.result(timeout=PATIENCE) == ["True", "True", "True", "o"]
        asleep = await app.get("asleep", flows.sleeping)
        assert (await asleep.view()).status is Status.RUNNING
        await world.advance("1h")
        await world.until_waiting(asleep, "1 min left")
        await world.advance("1m")
        assert await asleep.result(timeout=PATIENCE) == "in time"
    assert not await problems(path)


@pytest.mark.slow
@pytest.mark.timeout(400)  # dozens of processes, one after the other
def test_a_kill_at_any_statement_of_a_migration(tmp_path: Path, record_property: Any) -> None:
    """Promise (V8, S20): whichever statement was the last, the file opens afterwards, and all its runs are there."""
    kills = 0
    while True:
        folder = tmp_path / str(kills)
        folder.mkdir()
        path = laid_down(STORES[0], folder)
        answer = warm.run(
            [sys.executable, "-m", "tests.golden.opening", str(path), str(kills + 1)], check=False, timeout=PATIENCE
        )
        assert not asyncio.run(problems(path)), f"killed at statement {kills + 1}"
        if answer.returncode == 0:
            break
        assert answer.returncode == -signal.SIGKILL
        kills += 1
    record_property("figure", f"migration: killed at each of {kills} statements, nothing lost")
    assert kills > len(MIGRATIONS)


async def test_older_code_refuses_a_newer_file(tmp_path: Path) -> None:
    """Promise (V7, S20): a file of a version that this code does not know is left alone."""
    path = laid_down(STORES[-1], tmp_path)
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreRefused, match="newer"):
        await open_sqlite(path)
    assert path.read_bytes() == before
