"""Journals as files: exported, imported, replayed."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from msgspec.structs import replace

from holdfast import App, RunVar, Signal, sleep, step, workflow
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.postgres import open_postgres
from holdfast.adapters.sqlite import open_sqlite
from holdfast.client.exports import export_journal, import_journal
from holdfast.client.verification import verify_run
from holdfast.core.exported import by_run, decode_export, encode_export
from holdfast.core.turn import Row, checksum, is_compacted
from holdfast.errors import Conflict, HoldfastError, InvalidInput, RunNotFound
from holdfast.ports.store import Store
from holdfast.testing import ReplayFailed, Sim, replay
from holdfast.testing.virtual_loop import at_once
from holdfast.upkeep.compaction import compact
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


@workflow
async def lengthy(count: int) -> int:
    total = sum([len(await charge(number + 2)) for number in range(count)])
    return total + await approved.wait()


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
    with pytest.raises(InvalidInput, match=r"notes\.json is not an exported journal.*holdfast export RUN"):
        await import_journal(MemoryStore(), b'{"a": 1}', "notes.json")
    data = b'{"holdfast_journal": 99, "root": "x", "rows": [], "blobs": {}}'
    with pytest.raises(InvalidInput, match="newer Holdfast"):
        await import_journal(MemoryStore(), data, "file")
    with pytest.raises(RunNotFound, match="no run 'nobody'"):
        await export_journal(MemoryStore(), "nobody")


def compacted() -> bytes:
    """A journal whose first rows are gone, of a run that is still open."""
    with Sim() as sim:
        run = sim.start(lengthy(40), id="long")
        row = at_once(sim.store.get("long"))
        assert row is not None
        assert sim.call(compact(sim.store, "long", row.no, row.next_ordinal - 1)) > 30
        run.signal(approved, True)
        return at_once(export_journal(sim.store, "long"))


def test_a_compacted_journal_is_exported_and_replays(tmp_path: Path) -> None:
    """Contract S27: the file holds what a replay needs of the rows that are gone, and the rows since; code that asks
    for something else there is found."""
    file = tmp_path / "long.json"
    file.write_bytes(compacted())
    _, rows, blobs = decode_export(file.read_bytes(), "file")
    assert is_compacted(rows[0])
    assert blobs
    replay(file, App(workflows=[lengthy])).assert_ok()

    async def other(count: int) -> int:
        return len(await charge(count))

    with pytest.raises(ReplayFailed, match="run long"):
        replay(file, App(workflows=[workflow(name="lengthy")(other)])).assert_ok()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_a_compacted_journal_is_not_imported(kind: str, tmp_path: Path) -> None:
    """Contract S27: what cannot be written again row by row is refused, with the reason and what to do; nothing is
    written."""
    with ThreadPoolExecutor(1) as pool:
        data = pool.submit(compacted).result(60)
    async with opened(kind, tmp_path) as store:
        with pytest.raises(InvalidInput, match=r"run long was compacted: its rows 1 to \d+ are gone.*before it is"):
            await import_journal(store, data, "file")
        assert await store.get("long") is None
        _, _, blobs = decode_export(data, "file")
        assert [await store.blob_kind(name) for name in blobs] == [None] * len(blobs)


Damage: TypeAlias = Callable[[list[Row], dict[str, bytes]], bytes]


def _again(rows: Sequence[Row], blobs: dict[str, bytes]) -> bytes:
    """A file whose digest holds, as somebody would write it who means harm or has a bug."""
    return encode_export("order-42", rows, blobs)


def _gap(rows: list[Row], blobs: dict[str, bytes]) -> bytes:
    return _again([*rows[:2], *rows[3:]], blobs)


def _headless(rows: list[Row], blobs: dict[str, bytes]) -> bytes:
    return _again(rows[1:], blobs)


def _other_body(rows: list[Row], blobs: dict[str, bytes]) -> bytes:
    return _again([*rows[:2], replace(rows[2], body=rows[1].body), *rows[3:]], blobs)


def _other_order(rows: list[Row], blobs: dict[str, bytes]) -> bytes:
    return _again([*rows[:2], rows[3], rows[2], *rows[4:]], blobs)


def _ends_with(row: Row, body: bytes, *, format: int) -> Row:
    """A row whose chain holds, whatever it says."""
    ordinal = row.ordinal + 1
    chain = checksum(row.checksum, ordinal, row.epoch, row.at, body, format=format)
    return replace(row, ordinal=ordinal, body=body, checksum=chain, format=format)


def _unknown_event(rows: list[Row], blobs: dict[str, bytes]) -> bytes:
    last = next(row for row in reversed(rows) if row.run == "order-42")
    return _again([*rows, _ends_with(last, b'[{"t":"teleported","key":"charge"}]', format=last.format)], blobs)


def _newer_format(rows: list[Row], blobs: dict[str, bytes]) -> bytes:
    last = next(row for row in reversed(rows) if row.run == "order-42")
    return _again([*rows, _ends_with(last, last.body, format=99)], blobs)


def _other_blob(rows: list[Row], blobs: dict[str, bytes]) -> bytes:
    return _again(rows, dict.fromkeys(blobs, b"other bytes"))


def _other_digest(rows: list[Row], blobs: dict[str, bytes]) -> bytes:
    return _again(rows, blobs).replace(b'"digest":"', b'"digest":"0')


def _older_than_we_know(rows: list[Row], blobs: dict[str, bytes]) -> bytes:
    return _again(rows, blobs).replace(b'{"holdfast_journal":2', b'{"holdfast_journal":0')


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_gap, "row 3 is missing, found 4"),
        (_headless, "row 1 is missing, found 2"),
        (_other_body, "the checksum of row 3 does not match"),
        (_other_order, "row 3 is missing, found 4"),
        (_unknown_event, "teleported"),
        (_newer_format, "format 99"),
        (_other_blob, "does not hold the bytes of that name"),
        (_other_digest, "its digest does not match"),
        (_older_than_we_know, "format 0"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
async def test_what_an_import_refuses(damage: Damage, says: str) -> None:
    """Contract S19, S27: a gap, a chain that does not hold, events and formats nobody knows, other blobs: each is an
    error that says which, though the digest is right, and nothing is written."""
    _, rows, blobs = decode_export(_in_thread(False), "file")
    store = MemoryStore()
    with pytest.raises(HoldfastError, match=re.escape(says)):
        await import_journal(store, damage(rows, blobs), "file")
    assert await store.get("order-42") is None
    assert [await store.blob_kind(name) for name in blobs] == [None] * len(blobs)


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
    other = MemoryStore()
    at_once(import_journal(other, (tmp_path / "bill.json").read_bytes(), "file"))
    row = at_once(other.get("run-1"))
    assert row is not None
    assert at_once(other.blob_kind(row.code)) == "definition"
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
