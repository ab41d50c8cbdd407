"""A signal from a run to a run arrives, or its sender is told: where it awaits the receipt, else by the log."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from holdfast import (
    App,
    Retry,
    Run,
    RunFinished,
    RunNotFound,
    Signal,
    Topic,
    current,
    sleep,
    start,
    step,
    sync,
    workflow,
)
from holdfast.core import events as e
from holdfast.core.turn import decode_row
from tests.support.world import World

go = Signal[int]("go")
news = Topic[int]("news")
plain_go = sync.Signal[int]("go")


@workflow
async def quick() -> None: ...


@workflow
async def waits() -> int:
    return await go.wait()


@workflow
async def sends(to: str, n: int = 1) -> str:
    try:
        await go.send(to, n)
    except RunFinished as error:
        return f"finished: {error.run_id} {error.status}: {error}"
    except RunNotFound as error:
        return f"not found: {error}"
    return "delivered"


@step
async def note(text: str) -> str:
    return text


async def journaled(world: World, run: Run[Any], *kinds: type[Any]) -> list[Any]:
    """The events of these kinds in a run's journal."""
    rows = await world.store.history(run.id)
    return [x for row in rows for x in decode_row(row).events if isinstance(x, kinds)]


async def test_who_awaits_a_receipt_is_told(world: World) -> None:
    """Contract: delivered, or the errors that a client gets; the journal holds what the program saw, and replays."""
    async with world.serving(quick, waits, sends, paranoid=True) as app:
        gone = await app.start(quick(), id="gone")
        await gone.wait("30s")
        target = await app.start(waits(), id="target")
        ok = await app.start(sends("target", 7))
        assert await ok.result("30s") == "delivered"
        assert await target.result("30s") == 7
        late = await app.start(sends("gone"))
        assert await late.result("30s") == (
            "finished: gone completed: run gone has completed: signal go was not delivered"
        )
        lost = await app.start(sends("nobody"))
        assert await lost.result("30s") == "not found: no run 'nobody' in this store: signal go was not delivered"
        for run, status in ((ok, "delivered"), (late, "completed"), (lost, "missing")):
            (settled,) = await journaled(world, run, e.SendSettled)
            assert (settled.key, settled.status) == ("send go", status)
        assert (await world.store.get(ok.id)).inbox_last == 0  # type: ignore[union-attr]


async def test_a_receipt_that_nobody_awaits_costs_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Contract: delivered, there is no event, no turn and no message more; lost, it is logged with both runs."""

    @workflow
    async def careless(to: str) -> str:
        _ = go.send(to, 1)
        return await note("sent")

    async with world.serving(quick, waits, careless) as app:
        await app.start(waits(), id="target")
        run = await app.start(careless("target"), id="heard")
        assert await run.result("30s") == "sent"
        assert len(await journaled(world, run, e.MessageSent, e.SendSettled)) == 1
        row = await world.store.get("heard")
        assert row is not None
        assert (row.inbox_last, row.next_ordinal) == (0, 4)
        with caplog.at_level(logging.WARNING, "holdfast.worker"):
            assert await (await app.start(careless("nobody"), id="unheard")).result("30s") == "sent"
        assert "run unheard: signal go to run nobody was not delivered: the run is missing" in caplog.text


async def test_a_run_that_ends_with_its_signal_is_only_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Contract: nobody is left to be told, but the log says it; a topic without watchers is no loss."""

    @workflow
    async def parting(to: str) -> str:
        _ = go.send(to, 1)
        news.publish(1)
        _ = go.send("target", 2)
        return "gone"

    async with world.serving(waits, parting) as app:
        target = await app.start(waits(), id="target")
        with caplog.at_level(logging.WARNING, "holdfast.worker"):
            assert await (await app.start(parting("nobody"), id="parting")).result("30s") == "gone"
            assert await target.result("30s") == 2
        assert "run parting: 1 of the signals of its last turn (go to run nobody, go to run target)" in caplog.text


async def test_delivered_to_whoever_is_not_gone(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Contract: to a child that has not begun, to itself, to a paused run; many at once; beside a step in flight."""
    release = asyncio.Event()

    @step
    async def long() -> str:
        await release.wait()
        return "done"

    @workflow
    async def parent() -> list[int]:
        task = asyncio.create_task(long())
        await asyncio.sleep(0)
        child = start(waits())
        await child.signal(go, 1)
        await go.send(child.id, 5)
        await asyncio.gather(go.send(current().run_id, 2), go.send("paused", 3))
        await asyncio.wait_for(go.send("paused", 4), 60)
        release.set()
        await task
        return [await child.result(), await go.wait()]

    async with world.serving(waits, parent) as app:
        paused = await app.start(waits(), id="paused", delay="1d")
        await paused.pause()
        assert await (await app.start(parent())).result("30s") == [1, 2]
        assert "not delivered" not in caplog.text


async def test_a_receipt_belongs_to_its_pass(world: World) -> None:
    """Contract: a body that begins again sends again; what became of the first try is not taken for the second."""

    @workflow(retry=Retry(3, first="10ms"))
    async def again() -> str:
        receipt = go.send("nobody" if current().attempt == 1 else "target", current().attempt)
        if current().attempt == 1:
            raise ValueError("not yet")
        await receipt
        return "delivered"

    async with world.serving(waits, again, paranoid=True) as app:
        target = await app.start(waits(), id="target")
        assert await (await app.start(again())).result("30s") == "delivered"
        assert await target.result("30s") == 2


async def test_an_outcome_is_kept_for_whoever_asks_later(world: World) -> None:
    """Contract: awaited twice, awaited later, by two tasks of which one is cancelled: always the same answer."""

    @workflow
    async def later() -> list[str]:
        receipt = go.send("nobody", 1)
        await note("first")
        await sleep("10ms")
        said: list[str] = []
        for _ in range(2):
            try:
                await receipt
            except RunNotFound:
                said.append("lost")
        fine = go.send("target", 2)

        async def awaits() -> str:
            await fine
            return "heard"

        one, other = asyncio.create_task(awaits()), asyncio.create_task(awaits())
        await asyncio.sleep(0)
        one.cancel()
        said.append(await other)
        await fine
        return said

    async with world.serving(waits, later, paranoid=True) as app:
        await app.start(waits(), id="target")
        assert await (await app.start(later())).result("30s") == ["lost", "lost", "heard"]


@sync.workflow
def plain_sends(to: str) -> str:
    try:
        plain_go.send(to, 1).wait()
    except RunNotFound:
        return "not found"
    return "delivered"


async def test_a_plain_workflow_waits_for_its_receipt(world: World) -> None:
    """Contract: `.wait()` in a `def` workflow is what `await` is in an async one."""
    async with world.serving(waits, plain_sends, paranoid=True) as app:
        await app.start(waits(), id="target")
        assert await (await app.start(plain_sends.call("target"))).result("30s") == "delivered"
        assert await (await app.start(plain_sends.call("nobody"))).result("30s") == "not found"


async def test_on_postgres(caplog: pytest.LogCaptureFixture) -> None:
    """Contract: the same with the functions of the schema."""
    from tests.support.postgres import clean_url

    app = App(clean_url(), workflows=[quick, waits, sends])
    async with app.worker():
        await (await app.start(quick(), id="gone")).wait("30s")
        target = await app.start(waits(), id="target")
        answers = [await app.start(sends(to)) for to in ("target", "gone", "nobody")]
        assert [(await run.result("30s")).split(":")[0] for run in answers] == ["delivered", "finished", "not found"]
        assert await target.result("30s") == 1
