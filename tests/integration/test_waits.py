"""Sleeps, signals and topics: what a run waits for, and how it is woken."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from holdfast import (
    App,
    Run,
    RunFailed,
    RunFinished,
    RunNotFound,
    Signal,
    Status,
    Topic,
    current,
    now,
    sleep,
    step,
    workflow,
)
from holdfast.client.client_run import ClientRun
from holdfast.core.events import WaitStarted
from holdfast.errors import InvalidInput
from tests.support.world import START, World, crash, events, forget_programs

go = Signal[int]("go")
maybe = Signal[int | None]("maybe")
text = Signal[str]("text")
news = Topic[str]("news")


@workflow
async def takes_three() -> list[int]:
    return [await go.wait(), await go.wait(), await go.wait()]


# -- sleeps ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "openworkflow.O4", "openworkflow.O23", "openworkflow.O45", "openworkflow.O46", "vectorbea.V6", "stem.S40"
)
async def test_a_sleep_parks_the_run(still: World) -> None:
    """Promise: a sleeping run is `running` without a worker, available at its end, and says so; its slot is free."""

    @workflow
    async def naps() -> list[datetime]:
        before = now()
        await sleep("3d")
        return [before, now()]

    app = still.app(naps)
    async with still.worker(app, concurrency=1) as worker:
        run = await app.start(naps())
        row = await still.until_parked(run)
        assert row.available_at == START + timedelta(days=3)
        assert "sleeping until 2026-01-04 12:00 UTC, 3 d left" in (await run.view()).waiting
        assert worker.free == 1
        await still.advance("2d")
        assert await run.status() is Status.RUNNING
        await still.advance("1d")
        assert await run.result("60s") == [START, START + timedelta(days=3)]


@pytest.mark.spec("openworkflow.O45", "openworkflow.O47")
async def test_asyncio_sleep_and_until_are_the_same(still: World) -> None:
    """Promise: `asyncio.sleep`, `sleep(until=)` and `sleep(timedelta)` are durable alike; a crash skips none."""
    done: list[str] = []

    @step
    async def note(name: str) -> None:
        done.append(name)

    @workflow
    async def naps() -> None:
        await asyncio.sleep(3600)
        await note("a")
        await sleep(until=START + timedelta(hours=2))
        await note("b")
        await sleep(timedelta(hours=1), name="last")
        await note("c")

    app = still.app(naps)
    run = await app.start(naps())
    for expected in ([], ["a"], ["a", "b"]):
        async with still.worker(app, ttl="15s") as worker:
            await still.until(lambda: done == expected)  # noqa: B023 awaited in this turn of the loop
            await still.until_waiting(run, "sleeping")
            await still.until_parked(run)
            await crash(worker)
        still.clock.advance(timedelta(hours=1))
    async with still.worker(app):
        await run.result("60s")
    assert done == ["a", "b", "c"]


async def test_an_end_in_the_past_is_no_wait(still: World) -> None:
    """Promise: `sleep(0)` and a past `until=` go on in the same claim."""

    @workflow
    async def naps() -> str:
        await sleep(0)
        await sleep(until=datetime(2020, 1, 1, tzinfo=UTC))
        return "awake"

    async with still.serving(naps) as app:
        assert await (await app.start(naps())).result("60s") == "awake"


@pytest.mark.spec("openworkflow.O86", "openworkflow.O99")
@pytest.mark.parametrize("duration", ["soon", -1, float("nan"), "5 parsecs"])
async def test_a_bad_duration_fails_the_run(world: World, duration: str | float) -> None:
    """Promise: a duration that does not parse is an error at the call, so by default the run fails at once."""

    @workflow
    async def naps() -> None:
        await sleep(duration)

    async with world.serving(naps) as app:
        with pytest.raises(RunFailed) as failed:
            await (await app.start(naps())).result("60s")
    assert failed.value.type == "InvalidDuration"


@pytest.mark.spec("openworkflow.O55", "traps.B3")
async def test_parallel_waits_park_until_the_earliest(still: World) -> None:
    """Promise: the run is available at the earliest of its waits, and each wake-up is evaluated on its own."""
    woken: list[str] = []

    @workflow
    async def naps() -> list[str]:
        async def nap(name: str, hours: int) -> None:
            await sleep(timedelta(hours=hours))
            woken.append(f"{name} {current().run_id}")

        async def listen() -> None:
            woken.append(str(await go.wait(timeout="10h", default=-1)))

        await asyncio.gather(nap("three", 3), nap("one", 1), listen())
        return woken

    async with still.serving(naps) as app:
        run = await app.start(naps(), id="r")
        assert (await still.until_parked(run)).available_at == START + timedelta(hours=1)
        await run.signal(go, 7)
        await still.until(lambda: woken == ["7"])
        row = await still.until_parked(run)
        assert row.available_at == START + timedelta(hours=1)
        epoch = row.epoch
        await still.nudge()
        assert (await still.row(run)).epoch == epoch, "no hot loop of claims while a sleep is pending"
        await still.advance("1h")
        await still.until(lambda: len(woken) == 2)
        assert (await still.until_parked(run)).available_at == START + timedelta(hours=3)
        await still.advance("2h")
        assert await run.result("60s") == ["7", "one r", "three r"]


@pytest.mark.spec("openworkflow.O46", "openworkflow.O47")
async def test_a_replay_in_the_middle_does_not_move_the_end_of_a_sleep(still: World) -> None:
    """Promise: the end of a sleep is fixed when it is first met: a replay in the middle makes it neither shorter nor
    longer."""

    heard: list[int] = []

    async def hear() -> None:
        heard.append(await go.wait())

    @workflow
    async def work() -> str:
        await asyncio.gather(sleep("1h"), hear())
        return "ok"

    app = still.app(work)
    async with still.worker(app) as worker:
        run = await app.start(work())
        await still.until_parked(run)
        forget_programs(worker)
        await still.advance("30m")
        await run.signal(go, 1)
        await still.until(lambda: heard == [1])
        assert (await still.until_parked(run)).available_at == START + timedelta(hours=1)
        forget_programs(worker)
        await still.advance("30m")
        assert await run.result("60s") == "ok"


async def test_a_timeout_around_steps_and_waits(still: World) -> None:
    """Promise: `asyncio.timeout` is durable: it cuts a long wait after its time, also after a cold replay."""

    @workflow
    async def work() -> str:
        try:
            async with asyncio.timeout(3600):
                await go.wait()
        except TimeoutError:
            return "late"
        return "in time"

    app = still.app(work)
    async with still.worker(app) as worker:
        run = await app.start(work())
        assert (await still.until_parked(run)).available_at == START + timedelta(hours=1)
        forget_programs(worker)
        await still.advance("1h")
        assert await run.result("60s") == "late"


# -- signals -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("openworkflow.O118", "traps.B2")
async def test_signals_sent_before_the_start_are_kept(world: World) -> None:
    """Promise: signals are buffered, also those that come before a worker exists; FIFO."""
    app = world.app(takes_three)
    run = await app.start(takes_three())
    for number in (1, 2, 3):
        await run.signal(go, number)
    async with world.worker(app):
        assert await run.result("60s") == [1, 2, 3]


async def test_a_signal_wakes_a_parked_run(world: World) -> None:
    """Promise: in order, one wait each, warm or cold."""
    app = world.app(takes_three)
    async with world.worker(app) as worker:
        run = await app.start(takes_three())
        for number in (1, 2, 3):
            await world.until_waiting(run, "waiting for signal go")
            await world.until_parked(run)
            if number == 2:
                forget_programs(worker)
            await run.signal(go, number)
            if number < 3:
                await world.until_waiting(run, "waiting for signal go")
        assert await run.result("60s") == [1, 2, 3]


async def test_a_signal_counts_once_by_its_id(world: World) -> None:
    """Promise: the same id again is the same signal, also after it was taken."""
    app = world.app(takes_three)
    async with world.worker(app):
        run = await app.start(takes_three())
        await run.signal(go, 1, id="m1")
        await run.signal(go, 1, id="m1")

        async def taken() -> bool:
            row = await world.row(run)
            return row.inbox_read == row.inbox_last and not row.instance

        await world.until(taken)
        await run.signal(go, 1, id="m1")
        await run.signal(go, 2, id="m2")
        await run.signal(go, 3, id="m3")
        assert await run.result("60s") == [1, 2, 3]


@pytest.mark.spec("openworkflow.O112", "traps.B9")
async def test_a_delivered_null_is_no_timeout(still: World) -> None:
    """Promise: a signal that carries None differs from none at all; a timeout gives the default or `TimeoutError`."""

    @workflow
    async def work() -> list[int | str | None]:
        found: list[int | str | None] = [await maybe.wait(timeout="1h", default=7)]
        found.append(await maybe.wait(timeout="1h", default=8))
        try:
            await maybe.wait(timeout="1h")
        except TimeoutError as error:
            found.append(type(error).__name__)
        return found

    app = still.app(work)
    async with still.worker(app) as worker:
        run = await app.start(work())
        await run.signal(maybe, None)
        for key in ("maybe:1", "maybe:2"):
            await still.until(lambda key=key: waits_under(run, key))  # type: ignore[misc]
            await still.until_parked(run)
            forget_programs(worker)
            await still.advance("1h")
        assert await run.result("60s") == [None, 8, "TimeoutError"]


async def waits_under(run: Run[object], key: str) -> bool:
    """Whether the journal says that the run began to wait under that key."""
    assert isinstance(run, ClientRun)
    return any(isinstance(x, WaitStarted) and x.key == key for turn in await run.history() for x in turn.events)


async def test_a_wait_with_its_time_up_leaves_later_signals_for_the_next(still: World) -> None:
    """Promise: a signal that comes after a timeout is buffered for the next wait, none is lost."""

    @workflow
    async def work() -> list[int]:
        first = await go.wait(timeout="1h", default=-1)
        await sleep("1h")
        return [first, await go.wait()]

    async with still.serving(work) as app:
        run = await app.start(work())
        await still.until_parked(run)
        await still.advance("1h")
        await still.until_waiting(run, "sleeping")
        await run.signal(go, 5)
        await still.until(lambda: True)
        await still.advance("1h")
        assert await run.result("60s") == [-1, 5]


@pytest.mark.spec("traps.B9", "traps.B8")
async def test_a_message_that_came_in_time_wins_over_a_late_look(still: World) -> None:
    """Promise: a signal sent before the timeout but seen after it counts."""
    app = still.app(takes_one)
    async with still.worker(app):
        run = await app.start(takes_one())
        await still.until_parked(run)
    await run.signal(go, 5)
    still.clock.advance(timedelta(hours=2))
    async with still.worker(app):
        assert await run.result("60s") == 5


@workflow
async def takes_one() -> int:
    return await go.wait(timeout="1h", default=-1)


async def test_a_signal_to_a_run_that_ended_is_refused(world: World) -> None:
    """Promise: `RunFinished` with the status; an unknown run is `RunNotFound`; nothing is swallowed."""

    @workflow
    async def work() -> None: ...

    async with world.serving(work) as app:
        run = await app.start(work())
        await run.result("60s")
        with pytest.raises(RunFinished) as refused:
            await run.signal(go, 1)
        assert (refused.value.run_id, refused.value.status) == (run.id, "completed")
        with pytest.raises(RunNotFound):
            await app.get("nobody")


async def test_a_large_signal_travels_as_a_blob(world: World) -> None:
    """Promise: above the inline limit the payload is a blob; live, cold and buffered reads agree."""

    @workflow
    async def work() -> int:
        first = await text.wait()
        second = await text.wait()
        await go.wait()
        return len(first) + len(second)

    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work())
        await world.until_parked(run)
        await run.signal(text, "x" * 300_000)
        await run.signal(text, "y" * 300_001)
        await world.until_waiting(run, "signal go")
        await world.until_parked(run)
        forget_programs(worker)
        await run.signal(go, 1)
        assert await run.result("60s") == 600_001
    taken = [event.data for event in await events(run) if event.type == "signal"]
    assert all(x.get("blob") for x in taken[:2])


@pytest.mark.spec("openworkflow.O116")
async def test_a_signal_of_the_wrong_type_is_refused_at_the_sender(world: World) -> None:
    """Promise: the value is checked against the channel's type before anything is written."""
    app = world.app(takes_three)
    run = await app.start(takes_three())
    with pytest.raises(InvalidInput):
        await run.signal(go, cast("int", "seven"))
    assert (await world.row(run)).inbox_last == 0


async def test_runs_signal_each_other(world: World) -> None:
    """Promise: `Signal.send` from a run is part of its turn: exactly once, FIFO."""

    @workflow
    async def sender(to: str) -> None:
        for number in (1, 2, 3):
            _ = go.send(to, number)

    async with world.serving(takes_three, sender) as app:
        run = await app.start(takes_three(), id="receiver")
        await (await app.start(sender("receiver"))).result("60s")
        assert await run.result("60s") == [1, 2, 3]


async def test_two_waits_on_one_signal_share_it_in_order(world: World) -> None:
    """Promise: several branches may wait on one signal; each message goes to one of them, the earliest first."""

    @workflow
    async def work() -> list[int]:
        return list(await asyncio.gather(go.wait(), go.wait(name="second")))

    async with world.serving(work) as app:
        run = await app.start(work())
        await world.until_parked(run)
        await run.signal(go, 1)
        await run.signal(go, 2)
        assert await run.result("60s") == [1, 2]


# -- topics ------------------------------------------------------------------------------------------------------------


@workflow
async def reads_news() -> str:
    return await news.wait()


@pytest.mark.spec("openworkflow.O111", "openworkflow.O113")
async def test_a_topic_reaches_everybody_who_waits_now(world: World) -> None:
    """Promise: `publish` says whom it woke, `waiting` who waits; nobody waits, nothing is kept."""
    async with world.serving(reads_news) as app:
        assert await app.publish(news, "unheard") == []
        runs = [await app.start(reads_news(), id=f"reader-{n}") for n in range(3)]
        for run in runs:
            await world.until_waiting(run, "waiting for topic news")
        assert sorted(await app.waiting(news)) == ["reader-0", "reader-1", "reader-2"]
        assert sorted(await app.publish(news, "rain")) == ["reader-0", "reader-1", "reader-2"]
        assert [await run.result("60s") for run in runs] == ["rain"] * 3
        assert await app.waiting(news) == []


@pytest.mark.spec("openworkflow.O113")
async def test_of_two_publications_a_wait_takes_the_first(world: World) -> None:
    """Promise: one delivery for each wait: what is published before the run takes the first one changes nothing."""
    app = world.app(reads_news)
    async with world.worker(app):
        run = await app.start(reads_news())
        await world.until_waiting(run, "waiting for topic news")
        await world.until_parked(run)
    for text in ("rain", "snow"):
        assert await app.publish(news, text) == [run.id]
    async with world.worker(app):
        assert await run.result("60s") == "rain"


@pytest.mark.spec("openworkflow.O111")
async def test_a_topic_wait_can_time_out_and_stops_watching(still: World) -> None:
    """Promise: after its time the default; the run no longer watches."""

    @workflow
    async def work() -> str:
        first = await news.wait(timeout="1h", default="none")
        await sleep("1h")
        return first

    async with still.serving(work) as app:
        run = await app.start(work())
        await still.until_parked(run)
        assert await app.waiting(news) == [run.id]
        await still.advance("1h")
        await still.until_waiting(run, "sleeping")
        assert await app.waiting(news) == []
        await still.advance("1h")
        assert await run.result("60s") == "none"


async def test_a_run_publishes(world: World) -> None:
    """Promise: `Topic.publish` from a run reaches current watchers with its turn."""

    @workflow
    async def tells() -> None:
        news.publish("from a run")

    async with world.serving(reads_news, tells) as app:
        run = await app.start(reads_news())
        await world.until_waiting(run, "topic")
        await (await app.start(tells())).result("60s")
        assert await run.result("60s") == "from a run"


async def test_the_memory_store_by_its_address() -> None:
    """Promise: `memory://` is a store of the app's own."""
    app = App("memory://", workflows=[takes_three])
    async with app.worker():
        run = await app.start(takes_three())
        for number in (1, 2, 3):
            await run.signal(go, number)
        assert await run.result("60s") == [1, 2, 3]
