"""Sagas: completed steps undone in reverse, each durably."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import App, Retry, RunCancelled, RunFailed, Signal, Status, saga, sleep, step, workflow
from holdfast.core import events as e
from holdfast.core.turn import decode_row
from holdfast.ports.journal import Commit
from tests.support.faults import FaultyStore
from tests.support.world import World, crash, events, forget_programs

go = Signal[int]("go")


class Shop:
    """Steps with a way back, and what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        done = self.done
        self.hang: asyncio.Event | None = None

        @step(retry=Retry(2, first="1ms"))
        async def book(what: str) -> str:
            done.append(f"book {what}")
            if what == "broken":
                raise ValueError(what)
            return what.upper()

        @book.undo
        async def release(result: str, what: str) -> None:
            done.append(f"undo {result} {what}")
            if what == "sticky":
                raise ValueError("will not come off")
            if self.hang is not None:
                await self.hang.wait()

        self.book = book
        self.release = release


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_completed_steps_are_undone_in_reverse(world: World, shop: Shop) -> None:
    """Promise: undo takes the result first, then the step's own arguments; the failed step itself is not undone."""

    @workflow
    async def work() -> None:
        async with saga():
            await shop.book("a")
            await shop.book("b")
            await shop.book("broken")

    async with world.serving(work) as app:
        run = await app.start(work())
        with pytest.raises(RunFailed, match="broken"):
            await run.result("60s")
    assert shop.done == ["book a", "book b", "book broken", "book broken", "undo B b", "undo A a"]
    assert not (await events(run))[-1].data.get("undone")


async def test_a_saga_that_ends_well_undoes_nothing(world: World, shop: Shop) -> None:
    """Promise: after the block its steps are kept; a later failure does not undo them."""

    @workflow
    async def work() -> None:
        async with saga():
            await shop.book("a")
        raise ValueError("later")

    async with world.serving(work) as app:
        run = await app.start(work())
        assert await run.wait("60s") is Status.FAILED
    assert shop.done == ["book a"]
    assert not (await events(run))[-1].data.get("undone")


async def test_an_inner_saga_belongs_to_the_outer_one(world: World, shop: Shop) -> None:
    """Promise: what an inner saga completed is undone if the outer one fails, in the order of completion."""

    @workflow
    async def work() -> None:
        async with saga():
            await shop.book("a")
            async with saga():
                await shop.book("b")
                await shop.book("c")
            await shop.book("d")
            raise ValueError("now")

    async with world.serving(work) as app:
        await (await app.start(work())).wait("60s")
    assert shop.done[4:] == ["undo D d", "undo C c", "undo B b", "undo A a"]


async def test_an_inner_saga_that_fails_is_undone_alone(world: World, shop: Shop) -> None:
    """Promise: an error caught between the two undoes only the inner one."""

    @workflow
    async def work() -> str:
        async with saga():
            await shop.book("a")
            try:
                async with saga():
                    await shop.book("b")
                    raise ValueError("inner")  # noqa: TRY301 caught between the two
            except ValueError:
                await shop.book("instead")
        return "ok"

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == "ok"
    assert shop.done == ["book a", "book b", "undo B b", "book instead"]


@pytest.mark.spec("cano.S3")
async def test_a_failing_undo_does_not_stop_the_others(world: World, shop: Shop) -> None:
    """Promise: each undo is tried by its own policy; failures are collected, the others run, all is reported."""

    @workflow
    async def work() -> None:
        async with saga():
            await shop.book("a")
            await shop.book("sticky")
            await shop.book("c")
            raise KeyError("why it began")

    async with world.serving(work, step_retry=Retry(2, first="1ms")) as app:
        run = await app.start(work())
        with pytest.raises(RunFailed) as failed:
            await run.result("60s")
    assert failed.value.type == "CompensationFailed"
    assert "why it began" in failed.value.message
    assert "will not come off" in failed.value.message
    assert shop.done[3:] == ["undo C c", "undo STICKY sticky", "undo STICKY sticky", "undo A a"]
    assert (await events(run))[-1].data["undone"] == ["book:1"]


@pytest.mark.parametrize("cold", [False, True])
async def test_a_cancel_undoes(world: World, shop: Shop, cold: bool) -> None:
    """Promise: a cancel runs the undo steps durably, then the run ends cancelled."""

    @workflow
    async def work() -> None:
        async with saga():
            await shop.book("a")
            await shop.book("b")
            await go.wait()

    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work())
        await world.until_waiting(run, "signal")
        await world.until_parked(run)
        if cold:
            forget_programs(worker)
        await run.cancel("stop")
        with pytest.raises(RunCancelled):
            await run.result("60s")
    assert shop.done == ["book a", "book b", "undo B b", "undo A a"]


@pytest.mark.spec("traps.A2")
async def test_undo_survives_crashes_and_happens_once(still: World, shop: Shop) -> None:
    """Promise: three crashes in the middle of the way back: it goes on from there, no completed undo runs again."""
    shop.hang = asyncio.Event()

    @workflow
    async def work() -> None:
        async with saga():
            await shop.book("a")
            await shop.book("b")
            raise ValueError("now")

    app = still.app(work)
    run = await app.start(work())
    for count in (3, 4, 5):
        async with still.worker(app, ttl="15s") as worker:
            await still.beat(worker)
            await still.until(lambda: len(shop.done) == count)  # noqa: B023 awaited in this turn of the loop
            await crash(worker)
        still.clock.advance(16)
    shop.hang = None
    async with still.worker(app) as worker:
        await still.beat(worker)
        assert await run.wait("60s") is Status.FAILED
    assert shop.done == ["book a", "book b", *["undo B b"] * 4, "undo A a"]


async def test_a_step_in_flight_that_took_effect_is_undone(world: World) -> None:
    """Promise: a step cut off by a failing sibling, whose outcome still comes, is undone with the others."""
    entered = asyncio.Event()
    done: list[str] = []

    @step
    async def slow() -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            done.append("slow took effect")
        return "late"

    @slow.undo
    async def unslow(result: str) -> None:
        done.append(f"undo {result}")

    @step(retry=Retry.none)
    async def fails() -> None:
        await entered.wait()
        raise ValueError("no")

    @workflow
    async def work() -> None:
        async with saga(), asyncio.TaskGroup() as group:
            group.create_task(slow())
            group.create_task(fails())

    async with world.serving(work) as app:
        run = await app.start(work())
        assert await run.wait("60s") is Status.FAILED
    assert done == ["slow took effect", "undo late"]


async def test_a_cancelled_step_in_flight_that_took_effect_is_undone(world: World) -> None:
    """Promise: likewise when the run is cancelled while the step runs."""
    entered = asyncio.Event()
    done: list[str] = []

    @step
    async def slow() -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            done.append("took effect")
        return "late"

    @slow.undo
    async def unslow(result: str) -> None:
        done.append(f"undo {result}")

    @workflow
    async def work() -> None:
        async with saga():
            await slow()

    async with world.serving(work) as app:
        run = await app.start(work())
        await world.until_set(entered)
        await run.cancel("stop")
        assert await run.wait("60s") is Status.CANCELLED
    assert done == ["took effect", "undo late"]


class SlowToAbandon(FaultyStore):
    """Answers a turn that gives a step up only after the step's body has ended."""

    may_end: asyncio.Event
    has_ended: asyncio.Event

    def commit_now(self, commit: Commit) -> None:
        return None

    async def commit(self, batch: Sequence[Commit]) -> Any:
        verdicts = await self.inner.commit(batch)
        if any(isinstance(event, e.StepAbandoned) for each in batch for event in decode_row(each.row).events):
            self.may_end.set()
            await self.has_ended.wait()
            for _ in range(10):
                await asyncio.sleep(0)  # its outcome lands
        return verdicts


@pytest.mark.parametrize("is_broken", [False, True])
async def test_a_step_that_lands_while_it_is_given_up_has_one_outcome(world: World, is_broken: bool) -> None:
    """Promise: a body that ends while the turn that gives it up is being written is undone if it completed; the
    run is cancelled either way."""
    may_end, has_ended = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    @step(retry=Retry.none)
    async def slow() -> str:
        await may_end.wait()
        has_ended.set()
        if is_broken:
            raise ValueError("no")
        return "late"

    @slow.undo
    async def unslow(result: str) -> None:
        done.append(f"undo {result}")

    @workflow
    async def work() -> None:
        async with saga():
            await slow()

    store = SlowToAbandon(world.store)
    store.may_end, store.has_ended = may_end, has_ended
    app = App(workflows=[work], store=store.store)
    async with world.worker(app):
        run = await app.start(work())
        await world.until_waiting(run, "slow")
        await run.cancel("stop")
        assert await run.wait("60s") is Status.CANCELLED
    assert done == ([] if is_broken else ["undo late"])


async def test_undo_of_parallel_steps_is_in_reverse_of_completion(world: World, shop: Shop) -> None:
    """Promise: the order of the way back is the reverse of the recorded completions."""

    @workflow
    async def work() -> None:
        async with saga():
            await asyncio.gather(shop.book("a"), shop.book("b"), shop.book("c"))
            await sleep("1ms")
            raise ValueError("now")

    async with world.serving(work) as app:
        run = await app.start(work())
        await run.wait("60s")
    completed = [x.data["key"] for x in await events(run) if x.type == "done" and x.data["key"].startswith("book")]
    names = {"book": "A a", "book:1": "B b", "book:2": "C c"}
    assert shop.done[3:] == [f"undo {names[key]}" for key in reversed(completed)]
