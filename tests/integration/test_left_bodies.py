"""Bodies that nobody waits for: the run ends, or goes on, without them, and stops them once that is durable."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import (
    App,
    OutcomeUnknown,
    Retry,
    Run,
    RunCancelled,
    RunFailed,
    Signal,
    Status,
    StepFailed,
    continue_as,
    current,
    heartbeat,
    saga,
    sleep,
    step,
    transaction,
    workflow,
)
from holdfast.core import events as e
from holdfast.core.recovery import decode_recovery
from holdfast.core.turn import decode_row
from holdfast.ports.journal import Commit
from tests.support.faults import FaultyStore
from tests.support.world import World, crash, events, open_world, types

QUICK = "3s"
"""Less than any wait for a body would take."""


class Thread:
    """The body of a `def` step: blocks until the test lets it go, and then says what it was told."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.ended = threading.Event()
        self.was_cancelled: list[bool] = []
        self.raised: list[str] = []

    def run(self) -> str:
        self.begun.set()
        self.may_end.wait(20)
        self.was_cancelled.append(current().is_cancelled)
        try:
            heartbeat("further")
        except BaseException as error:
            self.raised.append(type(error).__name__)
            raise
        finally:
            self.ended.set()
        return "late"

    async def end(self) -> None:
        self.may_end.set()
        assert await asyncio.to_thread(self.ended.wait, 10)


@pytest.fixture
async def thread() -> AsyncIterator[Thread]:
    made = Thread()
    yield made
    made.may_end.set()


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
            assert await run.wait("10s") is Status.CANCELLED
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
            assert await run.wait("5s") is Status.CANCELLED
        end = await last(run)
        assert (end["left"], end["imposed"]) == (["tidy"], True)
        assert sql(apsw.Connection(str(world.path)), "SELECT * FROM noted") == []


# -- runs that go on ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["timeout around it", "its own timeout", "loser of a race"])
async def test_a_run_goes_on_without_a_thread_it_gave_up(world: World, thread: Thread, how: str) -> None:
    """Promise: once a thread is given up, later steps, a durable wait and the end are as quick as ever."""
    go = Signal[str]("go")

    @step(retry=Retry.none, timeout="100ms" if how == "its own timeout" else None)
    def slow() -> str:
        return thread.run()

    @step
    async def quick() -> str:
        return "quick"

    @workflow
    async def work() -> str:
        slowly = asyncio.ensure_future(asyncio.to_thread(slow))
        if how == "timeout around it":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await slowly
        elif how == "its own timeout":
            with pytest.raises(StepFailed):
                await slowly
        else:
            await asyncio.wait([slowly, asyncio.ensure_future(quick())], return_when=asyncio.FIRST_COMPLETED)
            slowly.cancel()
        return await quick() + await go.wait()

    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work())
        await world.until_parked(run)
        await world.until(lambda: worker.engine.bodies.left == ((run.id, "slow"),))
        await run.signal(go, " go")
        assert await run.result(QUICK) == "quick go"
        await thread.end()
    assert thread.was_cancelled == [True]


async def test_a_worker_that_stops_waits_for_no_thread_that_was_given_up(world: World, thread: Thread) -> None:
    """Promise: what nobody wants does not use up the grace."""
    hold, held = asyncio.Event(), asyncio.Event()

    @step
    def slow() -> str:
        return thread.run()

    @step
    async def holding() -> str:
        held.set()
        await hold.wait()
        return "held"

    @workflow
    async def work() -> str:
        slowly = asyncio.ensure_future(asyncio.to_thread(slow))
        await asyncio.wait([slowly], timeout=0.1)
        slowly.cancel()
        return await holding() + await holding()

    app = world.app(work)
    async with world.worker(app, grace="1h") as worker:
        run = await app.start(work())
        await held.wait()
        stopping = asyncio.create_task(worker.stop())
        await world.until(lambda: worker.is_stopping)
        hold.set()
        async with asyncio.timeout(3):
            await stopping
    async with world.worker(app):
        assert await run.result(QUICK) == "heldheld"


async def test_a_thread_given_up_in_a_saga_is_undone_when_it_has_taken_effect(world: World, thread: Thread) -> None:
    """Promise: the outcome of a step that can be undone is waited for, though the saga has failed."""
    undone: list[str] = []

    @step
    def book() -> str:
        thread.begun.set()
        thread.may_end.wait(20)
        return "seat 5"

    @book.undo
    async def release(result: str) -> None:
        undone.append(result)

    @step(retry=Retry.none)
    async def fails() -> None:
        assert await asyncio.to_thread(thread.begun.wait, 10)
        raise ValueError("no")

    @workflow
    async def work() -> None:
        async with saga(), asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(book))
            group.create_task(fails())

    async with world.serving(work) as app:
        run = await app.start(work())
        no = (await world.row(run)).no

        async def is_given_up() -> bool:
            rows = (await world.store.read({no: 1}))[no]
            return any(isinstance(x, e.StepAbandoned) for row in rows for x in decode_row(row).events)

        await world.until(is_given_up)
        thread.may_end.set()
        assert await run.wait("5s") is Status.FAILED
    assert undone == ["seat 5"]


async def test_a_left_thread_keeps_its_place_in_the_pool(world: World, thread: Thread) -> None:
    """Promise: threads that were left count against the worker's threads until they return, so there are never more of
    them, and the worker's row names them, for `holdfast doctor`; what needs no thread goes on."""
    ran: list[str] = []

    @step
    def slow() -> str:
        return thread.run()

    @step
    def other() -> None:
        ran.append("other")

    @step
    async def quick() -> None:
        assert await asyncio.to_thread(thread.begun.wait, 10)

    @workflow
    async def leaves() -> None:
        slowly = asyncio.ensure_future(asyncio.to_thread(slow))
        await quick()
        assert not slowly.done()

    @workflow
    async def needs() -> None:
        await asyncio.to_thread(other)

    app = world.app(leaves, needs)
    async with world.worker(app, concurrency=1, ttl="1s") as worker:
        run = await app.start(leaves())
        await run.result(QUICK)

        async def is_told() -> bool:
            rows = await world.store.workers()
            return any(decode_recovery(row.recovery).left == ((run.id, "slow"),) for row in rows)

        await world.until(is_told)
        waiting = await app.start(needs())
        await world.until_waiting(waiting, "other")
        await world.until(lambda: len(worker.engine.bodies.left) == 1)
        assert ran == []
        await thread.end()
        await waiting.result(QUICK)
    assert ran == ["other"]


async def test_a_body_that_waits_for_a_thread_when_it_is_given_up_never_begins(world: World, thread: Thread) -> None:
    """Promise: neither after the run's end, nor after a timeout around it. It is not said to be left running."""
    ran: list[str] = []

    @step
    def slow() -> str:
        return thread.run()

    @step
    def late(text: str) -> None:
        ran.append(text)

    @workflow
    async def holds() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.to_thread(slow)

    @workflow
    async def gives_up() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.to_thread(late, "given up")
        queued = asyncio.ensure_future(asyncio.to_thread(late, "at the end"))
        await sleep("50ms")
        assert not queued.done()

    app = world.app(holds, gives_up)
    async with world.worker(app, concurrency=1) as worker:
        await (await app.start(holds())).result(QUICK)
        run = await app.start(gives_up())
        await run.result(QUICK)
        assert len(worker.engine.bodies.left) == 1
        await thread.end()
        await world.until(lambda: not worker.engine.bodies.left)
    assert "left" not in await last(run)
    assert ran == []


async def test_after_a_crash_a_once_step_that_never_began_is_no_doubt(still: World) -> None:
    """Promise: a worker that was told to go leaves a once=True step unbegun; another one begins it."""
    entered, leave = asyncio.Event(), asyncio.Event()
    bodies: list[str] = []

    @step
    async def first() -> None:
        entered.set()
        await leave.wait()

    @step(once=True)
    async def charge() -> str:
        bodies.append("charge")
        return "paid"

    @workflow
    async def work() -> str:
        await first()
        try:
            return await charge()
        except OutcomeUnknown:
            return "doubt"

    app = still.app(work)
    async with still.worker(app) as worker:
        run = await app.start(work())
        await entered.wait()
        stopping = asyncio.create_task(worker.stop())
        await still.until(lambda: worker.is_stopping)
        leave.set()
        await stopping
    async with still.worker(app) as worker:
        assert await run.result(QUICK) == "paid"
        await crash(worker)
    assert bodies == ["charge"]
