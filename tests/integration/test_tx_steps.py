"""Steps with tx=True: what they write and their outcome are one transaction, exactly once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from pathlib import Path

import apsw
import pytest

import holdfast.sync as hs
from holdfast import App, Retry, Status, StepFailed, step, transaction, workflow
from holdfast.errors import DefinitionError, NotAllowedHere, NotInRun, RunFailed
from holdfast.testing import Fake, Sim
from holdfast.testing.conformance.world import settle
from tests.integration.tx_notes import (
    MAKE_LITE,
    SELECT,
    noted,
    prepare,
    quick,
    write,
    write_blocking,
)
from tests.support.world import World, events, open_world, types


@pytest.fixture
async def shared(shared: World) -> World:
    """A store that can share a transaction, with an empty table beside the journal."""
    await prepare(shared)
    return shared


@pytest.fixture
async def sqlite(sqlite: World) -> World:
    await prepare(sqlite)
    return sqlite


@pytest.fixture
async def postgres(postgres: World) -> World:
    await prepare(postgres)
    return postgres


# -- the common way ----------------------------------------------------------------------------------------------------


async def test_rows_and_outcome_are_there_together(shared: World) -> None:
    """Promise: the step's writes are committed with the turn that records its outcome: one row of the journal more, no
    attempt more, and the value is that of the body. Async and sync steps alike."""

    @step(tx=True)
    async def first(text: str) -> str:
        await write(text)
        return text.upper()

    @step(tx=True)
    def second(text: str) -> str:
        write_blocking(text)
        return text.upper()

    @workflow
    async def both() -> list[str]:
        return [await first("a"), await asyncio.to_thread(second, "b")]

    async with shared.serving(both) as app:
        run = await app.start(both())
        assert await run.result(timeout=30) == ["A", "B"]
    assert await noted(shared) == ["a", "b"]
    assert (await types(run)).count("done") == 2


async def test_a_body_that_fails_leaves_nothing_and_is_retried(shared: World) -> None:
    """Promise: an attempt that raises is undone and recorded; the next one writes again, once. When the attempts are
    spent the workflow gets the failure, and the table is empty of it."""
    tries = count(1)

    @step(tx=True, retry=quick())
    async def third_time() -> int:
        await write("good")
        number = next(tries)
        if number < 3:
            raise ValueError(number)
        return number

    @step(tx=True, retry=quick(2))
    def never() -> None:
        write_blocking("bad")
        raise ValueError("never")

    @workflow
    async def flow() -> int:
        number = await third_time()
        try:
            await asyncio.to_thread(never)
        except StepFailed as failed:
            return number * failed.attempts
        return 0

    async with shared.serving(flow) as app:
        run = await app.start(flow())
        assert await run.result(timeout=30) == 3 * 2
    assert await noted(shared) == ["good"]
    assert (await types(run)).count("attempt_failed") == 3


async def test_an_outcome_that_comes_while_a_body_has_the_file_waits_for_it(
    sqlite: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: on SQLite a body with tx=True has the only write transaction there is. What another step of its run
    gives meanwhile is written after it: sent at once, that turn would wait for the body, and the body's outcome for
    it."""
    has_begun, has_landed = asyncio.Event(), asyncio.Event()

    @step(tx=True)
    async def holds() -> str:
        await write("held")
        has_begun.set()
        await has_landed.wait()
        return "held"

    @step
    async def lands() -> str:
        await has_begun.wait()
        _later(100, has_landed.set)  # long after its outcome was taken in
        return "landed"

    @workflow
    async def both() -> list[str]:
        return list(await asyncio.gather(holds(), lands()))

    async with sqlite.serving(both) as app:
        run = await app.start(both())
        assert await run.result(timeout=60) == ["held", "landed"]
    assert await noted(sqlite) == ["held"]
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert "attempt_failed" not in await types(run)


def _later(passes: int, then: Callable[[], object]) -> None:
    """After so many passes of the event loop."""
    if passes:
        asyncio.get_running_loop().call_soon(_later, passes - 1, then)
    else:
        then()


async def test_parallel_transactions_of_one_run_each_commit_once(shared: World) -> None:
    """Promise: steps of one run that run side by side, with and without transactions, all complete, each once, and the
    journal keeps its order."""

    @step
    async def plain(number: int) -> int:
        return number

    @step(tx=True)
    async def noting(number: int) -> int:
        await write(f"n{number}")
        return number

    @step(tx=True)
    def noting_too(number: int) -> int:
        write_blocking(f"n{number}")
        return number

    @workflow
    async def wide() -> int:
        some = [plain(n) for n in range(5)]
        more = [noting(n) for n in range(5)]
        rest = [asyncio.to_thread(noting_too, n) for n in range(5, 8)]
        return sum(await asyncio.gather(*some, *more, *rest))

    async with shared.serving(wide) as app:
        runs = [await app.start(wide()) for _ in range(1)]
        assert [await run.result(timeout=60) for run in runs] == [10 + 28]
    assert await noted(shared) == [f"n{n}" for n in range(8)]
    seqs = [event.seq for event in await events(runs[0])]
    assert seqs == sorted(seqs)


async def test_a_turn_in_an_old_transaction_still_comes_last(postgres: World) -> None:
    """Promise: a transaction that began, and wrote, before other turns of the run were committed gets a later place in
    the journal than they: seq rises with the ordinal."""
    written, others = asyncio.Event(), asyncio.Event()

    @step(tx=True)
    async def slow() -> str:
        await write("slow")
        written.set()
        await others.wait()
        return "slow"

    @step
    async def plain() -> str:
        await written.wait()
        return "plain"

    @workflow
    async def both() -> list[str]:
        async def tail() -> str:
            await plain()
            return await plain()

        return list(await asyncio.gather(slow(), tail()))

    async with postgres.serving(both) as app:
        run = await app.start(both())

        async def has_both() -> bool:
            rows = await postgres.store.history(run.id)
            return sum(row.body.count(b'"done"') for row in rows) == 2

        await postgres.until(has_both)
        others.set()
        assert await run.result(timeout=30) == ["slow", "plain"]
    rows = await postgres.store.history(run.id)
    assert [row.ordinal for row in rows] == list(range(1, len(rows) + 1))
    assert [row.seq for row in rows] == sorted({row.seq for row in rows})
    await settle(postgres.store, run.id)
    assert [row.seq for row in await postgres.store.read_tree(run.id)] == [row.seq for row in rows]


async def test_a_run_started_in_the_step_comes_with_it(shared: World) -> None:
    """Promise: a tx step may start runs in its own transaction: they are there if, and only if, the step completed."""
    tries = count(1)

    @workflow
    async def sent(text: str) -> str:
        return text

    @step(tx=True, retry=quick())
    async def outbox() -> None:
        number = next(tries)
        await app.start(sent("x"), id=f"sent-{number}", connection=transaction(object))
        if number == 1:
            raise ValueError("once more")

    @workflow
    async def sender() -> None:
        await outbox()

    async with shared.serving(sender, sent) as app:
        await (await app.start(sender())).result(timeout=30)
        assert await (await app.get("sent-2", sent)).result(timeout=30) == "x"
    assert await shared.store.get("sent-1") is None


async def test_a_large_outcome_comes_with_its_transaction(tmp_path: Path) -> None:
    """Promise: an outcome that is kept as a blob, also in a folder, is stored with the same turn."""

    @step(tx=True)
    async def large() -> str:
        await write("large")
        return "x" * 300_000

    @workflow
    async def flow() -> int:
        return len(await large())

    url, blobs = f"sqlite:///{tmp_path / 'large.db'}", f"file://{tmp_path / 'blobs'}"
    app = App(url, workflows=[flow], blobs=blobs)
    async with app:
        async with app.connection() as connection:
            connection.execute(MAKE_LITE)
        async with app.worker():
            assert await (await app.start(flow())).result(timeout=30) == 300_000
        async with app.connection() as connection:
            assert list(connection.execute(SELECT)) == [("large",)]
    assert any((tmp_path / "blobs").rglob("*"))


async def test_sync_workflows_and_sagas_take_them_too(shared: World) -> None:
    """Promise: a `def` workflow calls a tx step directly; the undo of a step may be a tx step, and is exactly once."""

    @step(tx=True)
    def book(text: str) -> str:
        write_blocking(text)
        return text

    @book.undo
    @step(tx=True)
    def unbook(result: str, text: str) -> None:
        write_blocking(f"un{text}")

    @workflow
    def flow() -> None:
        with hs.saga():
            book("a")
            book("b")
            raise ValueError("no")

    async with shared.serving(flow) as app:
        with pytest.raises(RunFailed):
            await (await app.start(flow.call())).result(timeout=30)
    assert await noted(shared) == ["a", "b", "una", "unb"]


# -- definitions and wrong uses ----------------------------------------------------------------------------------------


def test_definitions_that_cannot_be() -> None:
    """Promise: refused where they are made, with the reason."""
    with pytest.raises(DefinitionError, match="exactly once already"):
        step(tx=True, once=True)
    with pytest.raises(DefinitionError, match="leave out executor='process'"):
        step(tx=True, executor="process")


async def test_wrong_uses_say_what_to_do(shared: World) -> None:
    """Promise: outside a step, in a step without tx=True, with the wrong kind: each says what is wrong."""
    with pytest.raises(NotInRun, match=r"transaction\(\) works in the body of a step"):
        transaction(apsw.Connection)

    @step(retry=Retry.none)
    async def without() -> None:
        transaction(apsw.Connection)

    @step(tx=True, retry=Retry.none)
    async def wrong() -> None:
        transaction(dict)

    @workflow
    async def flow() -> list[str]:
        said: list[str] = []
        for body in (without, wrong):
            try:
                await body()
            except StepFailed as failed:
                said.append(failed.message)
        try:
            transaction(apsw.Connection)
        except NotAllowedHere as refused:
            said.append(str(refused))
        return said

    async with shared.serving(flow) as app:
        first, second, third = await (await app.start(flow())).result(timeout=30)
    assert "declare it with @step(tx=True)" in first
    assert "this store gives a" in second
    assert "in a workflow" in third


def test_in_memory_the_step_is_faked(sim: Sim) -> None:
    """Promise: the memory store has no transaction to give and says so; a Fake stands for the step."""

    @step(tx=True)
    async def noting() -> int:
        raise AssertionError

    @workflow
    async def flow() -> int:
        return await noting()

    bare = sim.start(flow())
    with pytest.raises(RunFailed, match="memory://"):
        bare.result()
    sim.use(Fake(noting, lambda: 7))
    assert sim.start(flow()).result() == 7


async def test_writing_to_the_store_in_a_body_does_not_stand_still(tmp_path: Path) -> None:
    """Promise: on SQLite a body that writes to the store beside its transaction gets an error, not a standstill."""
    async with open_world("sqlite", tmp_path, virtual=False) as world:

        @step(tx=True, retry=Retry.none)
        async def starts() -> None:
            await app.start(flow())

        @workflow
        async def flow() -> str:
            try:
                await starts()
            except StepFailed as failed:
                return failed.message
            return ""

        async with world.serving(flow) as app:
            said = await (await app.start(flow())).result(timeout=30)
        assert "the only write transaction" in said
        assert (await world.store.count())[Status.COMPLETED] == 1
