"""Journals as files: exported, imported, replayed."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, RunVar, Signal, sleep, step, workflow
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.postgres import open_postgres
from holdfast.adapters.sqlite import open_sqlite
from holdfast.client.exporting import export_journal, import_journal
from holdfast.client.verifying import verify_run
from holdfast.core.exported import by_run, decode_export
from holdfast.core.turn import Row
from holdfast.errors import Conflict, HoldfastError, InvalidInput, RunNotFound
from holdfast.ports.store import Store
from holdfast.testing import ReplayFailed, Sim, replay
from holdfast.testing.sim import at_once
from tests.support.flows import flow
from tests.support.postgres import clean_url

approved = Signal[bool]("approved")
progress = RunVar[str]("progress")


@step
async def charge(cents: int) -> str:
    return "x" * 200_000 if cents == 1 else f"paid {cents}"


@workflow
async def ship(cents: int) -> str:
    await sleep("1h")
    return f"shipped {len(await charge(cents))}"


@workflow
async def fulfil(cents: int) -> str:
    progress.set(f"charged {len(await charge(cents))}")
    await approved.wait()
    return await ship(cents)


def recorded(*, is_open: bool = False) -> bytes:
    """A journal of a run with a child, a signal, a sleep, a shown value and a large payload."""
    with Sim() as sim:
        run = sim.start(fulfil(1), id="order-42")
        run.signal(approved, True)
        if not is_open:
            sim.advance("1h")
            assert run.result() == "shipped 200000"
        return at_once(export_journal(sim.store, "order-42"))


def scrubbed(data: bytes) -> tuple[str, dict[str, list[tuple[object, ...]]], dict[str, bytes]]:
    """Everything but the seqs, which are places in a store."""

    def facts(row: Row) -> tuple[object, ...]:
        return (row.run, row.ordinal, row.epoch, row.at, row.format, row.checksum, row.body)

    root, rows, blobs = decode_export(data, "file")
    return root, {run: [facts(row) for row in journal] for run, journal in by_run(rows).items()}, blobs


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncGenerator[Store]:
    store: Store
    match kind:
        case "memory":
            store = MemoryStore()
        case "sqlite":
            store = await open_sqlite(folder / "other.db")
        case _:
            store = await open_postgres(clean_url("&notices=off"))
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.parametrize("is_open", [False, True], ids=["ended", "open"])
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_an_imported_journal_is_identical(kind: str, is_open: bool, tmp_path: Path) -> None:
    """Contract S27: each row of each run is the one that was exported, and the run's row is its fold."""
    data = _in_thread(is_open)
    async with opened(kind, tmp_path) as store:
        made = await import_journal(store, data, "file")
        assert made[0] == "order-42"
        assert len(made) == 2
        assert scrubbed(await export_journal(store, "order-42")) == scrubbed(data)
        for name in made:
            row = await store.get(name)
            assert row is not None
            assert row.instance == ""
            assert (await verify_run(store, row)).problem == ""
        assert await store.exposed("order-42", "progress") is not None


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_an_import_never_overwrites(kind: str, tmp_path: Path) -> None:
    """Contract S27: a run that is there stays as it is, and nothing of the file is written."""
    data = _in_thread(False)
    async with opened(kind, tmp_path) as store:
        await import_journal(store, data, "file")
        before = await export_journal(store, "order-42")
        with pytest.raises(Conflict, match=r"order-42 is in .* already: nothing was imported"):
            await import_journal(store, data, "file")
        assert await export_journal(store, "order-42") == before


async def test_an_imported_open_run_is_not_woken_by_time() -> None:
    data = _in_thread(True)
    store = MemoryStore()
    await import_journal(store, data, "file")
    row = await store.get("order-42/ship")
    assert row is not None
    assert row.available_at is None


def test_a_changed_file_is_refused(rng: random.Random) -> None:
    """Contract S19: one flipped byte is an error, or nothing at all; never another journal."""
    data = recorded()
    expected = scrubbed(data)
    refused = 0
    for _ in range(300):
        place, bit = rng.randrange(len(data)), 1 << rng.randrange(8)
        flipped = bytearray(data)
        flipped[place] ^= bit
        try:
            assert scrubbed(bytes(flipped)) == expected
        except HoldfastError:
            refused += 1
    assert refused > 250


async def test_what_is_no_journal_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"notes\.json is no exported journal.*holdfast export RUN"):
        await import_journal(MemoryStore(), b'{"a": 1}', "notes.json")
    data = b'{"holdfast_journal": 99, "root": "x", "rows": [], "blobs": {}}'
    with pytest.raises(InvalidInput, match="newer Holdfast"):
        await import_journal(MemoryStore(), data, "file")
    with pytest.raises(RunNotFound, match="no run 'nobody'"):
        await export_journal(MemoryStore(), "nobody")


def test_recorded_journals_replay(tmp_path: Path) -> None:
    """Contract: the code that wrote a journal replays it, children too; a pattern finds the files."""
    (tmp_path / "ended.json").write_bytes(recorded())
    (tmp_path / "open.json").write_bytes(recorded(is_open=True))
    report = replay(str(tmp_path / "*.json"), App(workflows=[fulfil, ship]))
    report.assert_ok()
    assert (report.files, report.runs) == (2, 4)


def test_a_change_that_breaks_open_runs_is_found(tmp_path: Path) -> None:
    """Contract: a divergence shows what the journal holds, what the code asks for, and the line."""

    @step
    async def reserve(cents: int) -> str:
        return "shelf"

    async def changed(cents: int) -> str:
        await reserve(cents)
        return await charge(cents)

    file = tmp_path / "order.json"
    file.write_bytes(recorded(is_open=True))
    app = App(workflows=[workflow(name="fulfil")(changed), ship])
    with pytest.raises(ReplayFailed) as caught:
        replay(file, app).assert_ok()
    text = str(caught.value)
    assert "1 do not replay" in text
    assert "the journal says step 'charge'" in text
    assert "the code asked for step 'reserve'" in text
    assert "test_exported_journals.py:" in text
    (problem,) = caught.value.report.problems
    assert (problem.source, problem.run) == (str(file), "order-42")


def test_a_flow_is_replayed_by_the_definition_it_began_with(tmp_path: Path) -> None:
    """Contract: a flow that was edited since breaks no run that is open; what it calls has to be served."""
    paid: dict[str, Any] = {"paid": {"call": "charge", "with": {"cents": 5}}}
    with Sim() as sim:
        sim.start(
            flow("bill", {**paid, "nap": {"sleep": "1h", "needs": ["paid"]}}, "${steps.nap}", brings=(charge,))(None)
        )
        (tmp_path / "bill.json").write_bytes(at_once(export_journal(sim.store, "run-1")))
    edited = flow("bill", {"first": {"sleep": "1h"}}, "${steps.first}")
    replay(tmp_path / "bill.json", App(workflows=[edited, "tests.integration.test_exported_journals"])).assert_ok()
    with pytest.raises(ReplayFailed, match="workflow bill, which the app does not serve: flow bill calls charge"):
        replay(tmp_path / "bill.json", App(workflows=[edited])).assert_ok()


def test_what_cannot_be_checked_is_said(tmp_path: Path) -> None:
    """Contract: no journals, or a workflow that the app does not serve, never count as a success."""
    with pytest.raises(InvalidInput, match="no file matches"):
        replay(str(tmp_path / "*.json"), App(workflows=[ship]))
    file = tmp_path / "order.json"
    file.write_bytes(recorded())
    with pytest.raises(ReplayFailed, match="workflow fulfil, which the app does not serve"):
        replay([file], App(workflows=[ship])).assert_ok()


def _in_thread(is_open: bool) -> bytes:
    """Simulations drive an event loop of their own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: recorded(is_open=is_open)).result(timedelta(minutes=1).total_seconds())
