"""Schedules with the real worker, engine and client: on virtual time, and on real stores."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Conflict, Fact, Hook, Schedule, ScheduleNotFound, Status, facts, sleep, sync, workflow
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.sqlite import open_sqlite
from holdfast.adapters.telemetry.logs import logged
from holdfast.client import schedules
from holdfast.client.client import Client
from holdfast.client.inspect.findings import store_findings
from holdfast.core.schedule import Overlap
from holdfast.errors import InvalidId, InvalidInput, InvalidSchedule, StoreUnavailable
from holdfast.ports.runs import Filter
from holdfast.ports.schedules import Move
from holdfast.ports.store import Store
from holdfast.schedules.due import declare, fire_due
from holdfast.testing import Sim
from holdfast.testing.conformance.world import World as StoreWorld
from holdfast.testing.virtual_loop import at_once
from tests.support.faults import FaultyStore

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TELL = logged().tell


@workflow
async def quick(text: str = "") -> str:
    return text


@workflow
async def slow() -> str:
    await sleep("100m")
    return "done"


def ids(sim: Sim) -> list[str]:
    return [run.id for run in sim.runs()]


# -- on virtual time ---------------------------------------------------------------------------------------------------


def test_a_month_of_nights() -> None:
    """Promise: a schedule that an app declares starts one run per night, at three in Berlin also across the change of
    summer time, with its arguments; thirty days cost no waiting."""
    nightly = Schedule("nightly", quick("prices"), cron="0 3 * * *", tz="Europe/Berlin")
    app = App("memory://", workflows=[quick], schedules=[nightly])
    with Sim(app, now=datetime(2026, 3, 14, 12, tzinfo=UTC)) as sim:
        sim.advance("30d")
        runs = sim.runs()
        assert [run.id for run in runs] == [
            f"nightly@2026-0{3 + (day > 31)}-{(day - 1) % 31 + 1:02}T03:00:00+0{1 + (day >= 29)}:00"
            for day in range(15, 45)
        ]
        assert {(run.status, run.attributes["schedule"]) for run in runs} == {(Status.COMPLETED, "nightly")}
        assert runs[0].started_at == datetime(2026, 3, 15, 2, tzinfo=UTC)
        assert sim.get("nightly@2026-03-29T03:00:00+02:00", quick).result() == "prices"


@pytest.mark.parametrize(
    ("overlap", "ended", "skipped"),
    [
        ("skip", ["13:00 completed", "15:00 completed", "17:00 running"], 2),
        ("buffer_one", ["13:00 completed", "14:00 completed", "15:00 running"], 1),
        ("cancel", ["13:00 cancelled", "14:00 cancelled", "15:00 cancelled", "16:00 cancelled", "17:00 running"], 0),
        ("kill", ["13:00 cancelled", "14:00 cancelled", "15:00 cancelled", "16:00 cancelled", "17:00 running"], 0),
        ("allow", ["13:00 completed", "14:00 completed", "15:00 completed", "16:00 running", "17:00 running"], 0),
    ],
)
def test_runs_that_take_longer_than_the_period(overlap: Any, ended: list[str], skipped: int) -> None:
    """Promise: what happens to the next slot is what `overlap` says."""
    with Sim(now=NOON) as sim:
        handle = sim.schedule(Schedule("s", slow(), every="1h", overlap=overlap))
        sim.advance("5h20m")
        assert [f"{run.id[13:18]} {run.status.value}" for run in sim.runs()] == ended
        assert handle.view().skipped == skipped


def test_a_buffered_slot_begins_at_once_when_the_run_before_ends() -> None:
    """Promise: no worker has to poll for it."""
    with Sim(now=NOON) as sim:
        sim.schedule(Schedule("s", slow(), every="1h", overlap="buffer_all", times=2))
        sim.advance("10h")
        assert [run.started_at for run in sim.runs()] == [NOON + HOUR, NOON + timedelta(hours=2, minutes=40)]


def test_pause_and_resume() -> None:
    """Promise: no slot of the pause is started, then or later; the reason is shown."""
    with Sim(now=NOON) as sim:
        handle = sim.schedule(Schedule("s", quick(), every="1h"))
        sim.advance("1h")
        handle.pause("stock-taking")
        view = handle.view()
        assert (view.paused, view.reason, view.next) == (True, "stock-taking", None)
        sim.advance("5h30m")
        handle.resume()
        assert (handle.view().paused, handle.view().next) == (False, NOON + 7 * HOUR)
        sim.advance("1h")
        assert [run.started_at for run in sim.runs()] == [NOON + HOUR, NOON + 7 * HOUR]
        assert handle.view().missed == 0


def test_trigger_starts_one_now() -> None:
    """Promise: with an id of its own, once per call; refused while an earlier run is open and slots would be
    skipped."""
    with Sim(now=NOON) as sim:
        handle = sim.schedule(Schedule("s", slow(), every="1d"))
        run = handle.trigger()
        assert run.id == "s@trigger:2026-01-01T12:00:00+00:00"
        sim.advance("1m")
        with pytest.raises(Conflict, match="an earlier run is open"):
            handle.trigger()
        sim.advance("2h")
        assert run.result() == "done"
        handle.trigger()
        assert len(sim.runs()) == 2
        assert handle.view().fired == 0


def test_backfill_starts_the_slots_of_a_range() -> None:
    """Promise: one run per slot, each once, with progress; too many are refused before one is started."""
    with Sim(now=NOON) as sim:
        handle = sim.schedule(Schedule("s", quick(), every="1h", overlap="allow"))
        since = NOON - timedelta(days=1)
        with pytest.raises(InvalidSchedule, match="more than 10 slots"):
            list(handle.backfill(since, NOON, most=10))
        with pytest.raises(InvalidInput, match="most="):
            list(handle.backfill(since, NOON, most=1_000_000))
        with pytest.raises(InvalidInput, match="most='5'"):
            list(handle.backfill(since, NOON, most="5"))  # type: ignore[arg-type]
        for until in (since, since - HOUR):
            with pytest.raises(InvalidInput, match="since must lie before until"):
                list(handle.backfill(since, until))
        assert ids(sim) == []
        slots = list(handle.backfill(since, since + 3 * HOUR, most=10))
        assert [(slot.at, slot.fate) for slot in slots] == [(since + HOUR * n, "started") for n in range(3)]
        assert [slot.run for slot in slots] == ids(sim)
        again = list(handle.backfill(since, since + 3 * HOUR))
        assert [slot.run for slot in again] == ids(sim)


def test_a_backfill_leaves_out_slots_that_have_not_come() -> None:
    """Promise: a slot that is still to come starts at its time, and not a second time by a backfill."""
    with Sim(now=NOON) as sim:
        handle = sim.schedule(Schedule("s", quick(), every="1h", overlap="allow"))
        slots = list(handle.backfill(NOON - HOUR, NOON + 3 * HOUR))
        assert [slot.at for slot in slots] == [NOON - HOUR]
        with pytest.raises(InvalidInput, match="in the future"):
            list(handle.backfill(NOON + HOUR, NOON + 3 * HOUR))


def test_change_and_remove() -> None:
    """Promise: a schedule of the same name is changed, and counts from then on; a removed one starts nothing more."""
    with Sim(now=NOON) as sim:
        handle = sim.schedule(Schedule("s", quick("a"), every="1h"))
        sim.advance("1h")
        sim.schedule(Schedule("s", quick("b"), every="2h"))
        sim.advance("2h")
        assert [sim.get(run, quick).result() for run in ids(sim)] == ["a", "b"]
        handle.remove()
        sim.advance("1d")
        assert len(ids(sim)) == 2
        for verb in (handle.view, handle.pause, handle.resume, handle.trigger, handle.remove):
            with pytest.raises(ScheduleNotFound, match="no schedule 's'"):
                verb()


def test_at_and_times() -> None:
    """Promise: instants come once; a number of times is kept."""
    with Sim(now=NOON) as sim:
        sim.schedule(Schedule("once", quick(), at=[NOON + HOUR, NOON - HOUR]))
        thrice = sim.schedule(Schedule("thrice", quick(), every="1m", times=3))
        sim.advance("1d")
        assert len(ids(sim)) == 4
        assert (thrice.view().fired, thrice.view().next, thrice.view().upcoming) == (3, None, ())


class Ear(Hook):
    """Hears of runs that schedules start."""

    def __init__(self) -> None:
        self.heard: list[Fact] = []

    def on(self, fact: Fact) -> None:
        if isinstance(fact, facts.RunStarted):
            self.heard.append(fact)


def test_hooks_hear_of_each_slot_that_is_started() -> None:
    """Promise: by the name of its schedule, also of one that was buffered."""
    ear = Ear()
    hourly = Schedule("hourly", slow(), every="1h", overlap="buffer_one", times=2)
    with Sim(App("memory://", workflows=[slow], schedules=[hourly], hooks=[ear]), now=NOON) as sim:
        sim.advance("3h")
        assert ear.heard == [facts.RunStarted(run, "slow", "", "default", "hourly") for run in ids(sim)]
        assert len(ear.heard) == 2


async def test_hooks_hear_of_a_run_that_is_triggered() -> None:
    """Promise: without a worker too. A reason that no store can keep is refused, and nothing is paused."""
    ear = Ear()
    async with App("memory://", workflows=[quick], hooks=[ear]) as app:
        handle = await app.schedule(Schedule("s", quick(), every="1h"))
        run = await handle.trigger()
        assert ear.heard == [facts.RunStarted(run.id, "quick", "", "default", "s")]
        with pytest.raises(InvalidInput, match="reason"):
            await handle.pause("\0")
        assert not (await handle.view()).paused


def test_a_worker_that_stops_leaves_the_duty_to_the_next() -> None:
    """Promise: another worker fires at once, and need not wait until the duty has run out."""
    with Sim(now=NOON) as sim:
        sim.schedule(Schedule("s", quick(), every="1h"))
        sim.advance("1h")
        assert len(ids(sim)) == 1
        assert not at_once(sim.store.take_duty("schedules", holder="next", ttl=timedelta(seconds=10)))
    assert at_once(sim.store.take_duty("schedules", holder="next", ttl=timedelta(seconds=10)))


# -- on real stores ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store on a clock that the test moves."""
    clock = VirtualClock(NOON)
    made = MemoryStore(clock) if request.param == "memory" else await open_sqlite(tmp_path / "s.db", clock=clock)
    yield made
    await made.close()


async def runs_of(store: Store) -> list[str]:
    found = (await store.list(Filter(), limit=1000)).runs
    return sorted(run.id for run in found)


class Unreliable:
    """Moves that fail before they are written, or whose answer is lost."""

    def __init__(self, store: Any, rng: random.Random) -> None:
        self._move = store.move_schedule
        self._rng = rng
        store.move_schedule = self

    async def __call__(self, move: Move) -> Any:
        chance = self._rng.random()
        if chance < 0.15:
            raise StoreUnavailable("killed before the write")
        answer = await self._move(move)
        if chance > 0.85:
            raise StoreUnavailable("killed after the write")
        return answer


async def test_no_slot_twice_and_none_lost_whatever_crashes(store: Any, rng: random.Random) -> None:
    """Promise: four workers that all think they have the duty, and die before and after their writes: the runs are the
    slots, each once."""

    async def always(*_: Any, **__: Any) -> bool:
        return True

    minutely = Schedule("s", quick(), every="1m", overlap="allow", missed="all", catch_up="1d")
    await declare(store, {"s": minutely.definition}, instance="i1", by="w1")
    store.take_duty = always
    Unreliable(store, rng)
    clock: VirtualClock = store.clock
    for _ in range(30):
        clock.advance(timedelta(seconds=rng.choice([5, 60, 200])))
        workers = (fire_due(store, holder=f"i{number}", tell=TELL) for number in range(4))
        await asyncio.gather(*workers, return_exceptions=True)
    del store.move_schedule
    while (fired := await fire_due(store, holder="i1", tell=TELL)) is not None and not fired.wait:
        pass
    minutes = int((clock.now() - NOON) / timedelta(minutes=1))
    assert await runs_of(store) == [f"s@{(NOON + timedelta(minutes=n)).isoformat()}" for n in range(1, minutes + 1)]
    await StoreWorld(store, clock).verify()


@pytest.mark.parametrize("overlap", ["skip", "allow", "buffer_all", "cancel"])
async def test_a_trigger_is_repeated_with_its_id_after_a_lost_answer(store: Any, overlap: Overlap) -> None:
    """Promise: however often it is called with the id, also while its own run is open, one run starts; none counts as
    skipped."""
    faulty = FaultyStore(store)
    async with App(store=faulty.store, workflows=[quick]) as app:
        handle = await app.schedule(Schedule("s", quick("x"), every="1d", overlap=overlap))
        faulty.fail("move_schedule", faulty.calls["move_schedule"] + 1, mode="answer lost")
        with pytest.raises(StoreUnavailable):
            await handle.trigger(id="mail-17")
        store.clock.advance(timedelta(seconds=1))
        again = await handle.trigger(id="mail-17")
        assert again.id == "s@trigger:mail-17"
        assert (await handle.trigger(id="mail-17")).id == again.id
        assert await runs_of(store) == [again.id]
        assert (await handle.view()).skipped == 0


@pytest.mark.parametrize(
    ("mark", "says"), [("", "id of a trigger: '' is empty"), ("a\nb", "control character"), ("x" * 250, "260 bytes")]
)
async def test_an_invalid_id_of_a_trigger_starts_nothing(mark: str, says: str) -> None:
    """Promise: refused with what is wrong; nothing is written."""
    async with App("memory://", workflows=[quick]) as app:
        handle = await app.schedule(Schedule("s", quick(), every="1h"))
        with pytest.raises(InvalidId, match=says):
            await handle.trigger(id=mark)
        assert [run async for run in app.runs()] == []


async def test_one_worker_at_a_time_has_the_duty(store: Any) -> None:
    """Promise: the second leaves what is due to the first, until that has been silent for ten seconds. With nothing
    due, nobody writes."""
    await declare(store, {"s": Schedule("s", quick(), every="1m").definition}, instance="i1", by="w1")
    clock: VirtualClock = store.clock
    idle = await fire_due(store, holder="i2", tell=TELL)
    assert idle is not None
    assert idle.wait == timedelta(minutes=1)
    clock.advance(timedelta(minutes=1))
    assert await store.take_duty("schedules", holder="i1", ttl=timedelta(seconds=10))
    assert await fire_due(store, holder="i2", tell=TELL) is None
    assert await runs_of(store) == []
    clock.advance(timedelta(seconds=11))
    assert await fire_due(store, holder="i2", tell=TELL) is not None
    assert len(await runs_of(store)) == 1


async def test_a_run_that_is_gone_when_it_is_to_be_killed_delays_nothing(store: Any) -> None:
    """Promise: with overlap="kill", the run before may end and be removed by retention at any moment; the slot starts
    all the same, and at once."""
    definition = Schedule("s", quick(), every="1m", overlap="kill").definition
    await declare(store, {"s": definition}, instance="i1", by="w1")

    async def gone(*_: Any, **__: Any) -> None:
        return None

    for minute in (1, 2):
        store.clock.advance(timedelta(minutes=1))
        if minute == 2:
            store.take = gone
        await fire_due(store, holder="i1", tell=TELL)
        assert len(await runs_of(store)) == minute
    del store.take
    moved = await store.schedule("s")
    assert moved.next_at == store.clock.now() + timedelta(minutes=1)


async def test_a_schedule_that_cannot_be_decided_hurts_no_other(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: it is put off and logged; the others are fired in the same pass, and it can be made again."""
    for name in ("a", "b", "c"):
        await declare(store, {name: Schedule(name, quick(), every="1m").definition}, instance="i1", by="w1")
    broken = await store.schedule("b")
    await store.move_schedule(
        Move(name="b", revision=broken.revision, next_at=NOON, workflow="quick", body=b'{"cursor":1}')
    )
    store.clock.advance(timedelta(minutes=1))
    await fire_due(store, holder="i1", tell=TELL)
    assert [run[0] for run in await runs_of(store)] == ["a", "c"]
    assert "schedule b" in caplog.text
    put_off = await store.schedule("b")
    assert put_off.next_at == store.clock.now() + timedelta(minutes=1)
    client = Client(store, App("memory://").registry)
    handle = await schedules.make(client, Schedule("b", quick(), every="1m"))
    assert (await handle.view()).fired == 0
    client.close()


async def test_doctor_names_a_schedule_that_no_live_worker_declares(store: Any) -> None:
    """Promise: declared once and by no live worker any more is a warning; made by hand is none."""
    client = Client(store, App("memory://").registry)
    await declare(store, {"gone": Schedule("gone", quick(), every="1h").definition}, instance="dead", by="w9")
    await schedules.make(client, Schedule("kept", quick(), every="1h"))
    found = [finding async for finding in store_findings(client) if finding.check == "schedules"]
    assert [(finding.state, "gone" in finding.text) for finding in found] == [("warning", True), ("ok", False)]
    client.close()


def test_plain_code_and_a_real_clock(tmp_path: Path) -> None:
    """Promise: the blocking app makes, lists and uses schedules; a worker on a real clock fires one within its
    second."""
    with sync.App(f"sqlite:///{tmp_path}/s.db", workflows=[quick]) as app, app.worker():
        handle = app.schedule(Schedule("beat", quick("x"), every="1s", times=1, overlap="allow"))
        assert [view.name for view in app.schedules()] == ["beat"]
        assert app.get_schedule("beat", quick).trigger().result("60s") == "x"
        with pytest.raises(Conflict, match="starts workflow 'quick'"):
            app.get_schedule("beat", slow)
        until = time.monotonic() + 60
        while not (view := handle.view()).fired:
            assert time.monotonic() < until, "it was not fired"
        assert app.get(view.last_run, quick).result("60s") == "x"
        handle.remove()
        with pytest.raises(ScheduleNotFound):
            app.get_schedule("beat")
