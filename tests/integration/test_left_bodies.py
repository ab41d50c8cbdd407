"""Bodies that a run leaves at its end: the run ends without them, and stops them once the end is durable."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import (
    App,
    Retry,
    Run,
    RunCancelled,
    RunFailed,
    Signal,
    Status,
    continue_as,
    current,
    sleep,
    step,
    transaction,
    workflow,
)
from holdfast.ports.journal import Commit
from tests.support.faults import FaultyStore
from tests.support.stuck_thread import Thread
from tests.support.world import World, events, open_world, types

QUICK = "60s"
"""Less than any wait for a body would take."""


def sql(connection: Any, statement: str) -> list[Any]:
    return list(connection.execute(statement))


async def last(run: Run[Any]) -> dict[str, Any]:
    """What the last event of an ended run says."""
    return (await events(run))[-1].data


# -- ends that are refused ---------------------------------------------------------------------------------------------


class Interrupting(FaultyStore):
    """A signal arrives just before the first turn that would end a run: the store refuses that end."""

    run: Run[Any]
    go: Signal[str]
    was_refused = False

    async def perform(self, name: str, found: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "commit" and any(commit.is_terminal for commit in args[0]) and not self.was_refused:
            self.was_refused = True
            await self.run.signal(self.go, "now")
        return await super().perform(name, found, args, kwargs)


@pytest.mark.parametrize("is_once", [True, False])
async def test_a_refused_end_disturbs_no_body(world: World, is_once: bool) -> None:
    """Promise: a body in flight at an end that the store refuses goes on, and its outcome counts. It does not run a
    second time, least of all if its step is declared once=True."""
    go = Signal[str]("go")
    bodies: list[int] = []
    may_pay = asyncio.Event()

    @step(once=is_once)
    async def charge() -> str:
        bodies.append(current().attempt)
        await may_pay.wait()
        return "paid"

    @workflow
    async def pay() -> str:
        charging = asyncio.ensure_future(charge())
        signalled = asyncio.ensure_future(go.wait())
        timer = asyncio.ensure_future(sleep("50ms"))
        done, _ = await asyncio.wait({charging, signalled, timer}, return_when=asyncio.FIRST_COMPLETED)
        if signalled not in done:
            return "too late"
        may_pay.set()
        return f"{await signalled}: {await charging}"

    store = Interrupting(world.store)
    app = App(workflows=[pay], store=store.store)
    async with world.worker(app):
        store.run, store.go = run, _ = await app.start(pay()), go
        assert await run.result(QUICK) == "now: paid"
    assert store.was_refused
    assert bodies == [1]
    assert (await types(run)).count("claimed") == 1


async def test_an_end_by_grace_that_is_refused_begins_no_body_again(tmp_path: Path) -> None:
    """Promise: on a store with one writer a body in a transaction is stopped before an end by grace. If that end is
    refused, the next one follows, and the body does not begin again in between."""
    bodies: list[int] = []

    @step(tx=True)
    async def tidy() -> None:
        bodies.append(current().attempt)
        await asyncio.Event().wait()

    @workflow
    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await tidy()

    async with open_world("sqlite", tmp_path, virtual=False) as world:
        store = Interrupting(world.store)
        app = App(workflows=[work], store=store.store, cancel_grace="300ms")
        async with world.worker(app):
            store.run, store.go = run, _ = await app.start(work()), Signal[str]("go")
            await run.cancel("stop")
            assert await run.wait(QUICK) is Status.CANCELLED
        assert store.was_refused
        assert bodies == [1]


# -- ends --------------------------------------------------------------------------------------------------------------


async def test_the_end_waits_for_no_thread_and_names_it(world: World, thread: Thread) -> None:
    """Promise: a run that returns while a thread works ends at once, with the outcomes that there are. The thread is
    told, and what it still says is nobody's."""

    @step
    def slow() -> str:
        return thread.run()

    @step
    async def charge() -> str:
        assert await asyncio.to_thread(thread.begun.wait, 10)
        return "paid"

    @workflow
    async def pay() -> str:
        racing = [asyncio.ensure_future(asyncio.to_thread(slow)), asyncio.ensure_future(charge())]
        done, _ = await asyncio.wait(racing, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()

    app = world.app(pay)
    async with world.worker(app) as worker:
        run = await app.start(pay())
        assert await run.result(QUICK) == "paid"
        assert (await last(run))["left"] == ["slow"]
        await world.until(lambda: worker.engine.bodies.left == ((run.id, "slow"),))
        await thread.end()
        await world.until(lambda: not worker.engine.bodies.left)
        assert worker.surroundings.progress() == ""
    assert thread.was_cancelled == [True]
    assert thread.raised == ["CancelledError"]
    assert [x.data["key"] for x in await events(run) if x.type == "done"] == ["charge"]


async def test_bodies_are_stopped_after_the_end_is_durable(world: World) -> None:
    """Promise: whatever becomes of the end, no body was stopped for it before."""
    entered = asyncio.Event()
    stopped: list[str] = []
    at_the_end: list[list[str]] = []

    @step
    async def slow() -> None:
        entered.set()
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.append("slow")

    @step(retry=Retry.none)
    async def fails() -> None:
        await entered.wait()
        raise ValueError("no")

    @workflow
    async def work() -> None:
        await asyncio.gather(slow(), fails())

    async def look(name: str, args: tuple[Any, ...]) -> None:
        batch: list[Commit] = args[0] if name == "commit" else []
        if any(commit.is_terminal for commit in batch):
            at_the_end.append(list(stopped))

    store = FaultyStore(world.store)
    store.before = look
    app = App(workflows=[work], store=store.store)
    async with world.worker(app):
        run = await app.start(work())
        with pytest.raises(RunFailed, match="no"):
            await run.result(QUICK)
        await world.until(lambda: stopped == ["slow"])
    assert at_the_end == [[]]
    assert (await last(run))["left"] == ["slow"]


async def test_the_end_of_a_pass_waits_for_no_thread(world: World, thread: Thread) -> None:
    """Promise: a workflow that is tried again, and one that begins anew, do so at once."""

    @step(retry=Retry.none)
    def slow() -> str:
        return thread.run() if current().attempt == 1 else "second"

    @workflow(retry=Retry(2, first="10ms"))
    async def again() -> str:
        slowly = asyncio.ensure_future(asyncio.to_thread(slow))
        if current().attempt == 1:
            await sleep("10ms")
            raise ValueError("no")
        return await slowly

    @step
    async def quick() -> int:
        return 1

    @workflow
    async def anew(number: int) -> int:
        if number:
            return number
        slowly = asyncio.ensure_future(asyncio.to_thread(slow))
        if not slowly.done():
            continue_as(anew(await quick()))
        return 0

    async with world.serving(again, anew) as app:
        assert await (await app.start(again())).result(QUICK) == "second"
        assert await (await app.start(anew(0))).result(QUICK) == 1
        await thread.end()
    assert set(thread.was_cancelled) == {True}


async def test_a_cancelled_run_ends_without_its_thread(world: World, thread: Thread) -> None:
    @step
    def slow() -> str:
        return thread.run()

    @workflow
    async def work() -> str:
        return await asyncio.to_thread(slow)

    async with world.serving(work) as app:
        run = await app.start(work())
        assert await asyncio.to_thread(thread.begun.wait, 10)
        await run.cancel("enough")
        with pytest.raises(RunCancelled):
            await run.result(QUICK)
    assert (await last(run))["left"] == ["slow"]


async def test_a_run_past_its_deadline_ends_without_its_thread(world: World, thread: Thread) -> None:
    @step
    def slow() -> str:
        return thread.run()

    @workflow(deadline="100ms")
    async def work() -> str:
        return await asyncio.to_thread(slow)

    async with world.serving(work) as app:
        run = await app.start(work())
        with pytest.raises(RunFailed, match="deadline"):
            await run.result(QUICK)
    assert (await last(run))["left"] == ["slow"]


async def test_an_end_by_grace_takes_the_file_from_a_body_in_a_transaction(tmp_path: Path) -> None:
    """Promise: on a store with one writer a body whose run has to end keeps the transaction no longer: it is stopped
    first, and nothing it wrote is there."""

    @step(tx=True)
    async def tidy() -> None:
        sql(transaction(apsw.Connection), "INSERT INTO noted VALUES ('tidy')")
        await asyncio.Event().wait()

    @workflow
    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await tidy()

    async with open_world("sqlite", tmp_path, virtual=False) as world:
        sql(apsw.Connection(str(world.path)), "CREATE TABLE noted (text text)")
        async with world.serving(work, cancel_grace="300ms") as app:
            run = await app.start(work())
            await run.cancel("stop")
            assert await run.wait(QUICK) is Status.CANCELLED
        end = await last(run)
        assert (end["left"], end["imposed"]) == (["tidy"], True)
        assert sql(apsw.Connection(str(world.path)), "SELECT * FROM noted") == []
