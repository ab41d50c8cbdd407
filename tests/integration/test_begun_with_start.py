"""A run started beside its worker is made, claimed and begun in one transaction; nobody may see less than all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Run, Signal, Status, current, step, workflow
from holdfast.client import waiters
from holdfast.errors import RunCancelled, StoreError
from holdfast.ports.leases import Held
from holdfast.ports.runs import Creation
from holdfast.worker.worker import Worker
from tests.support.faults import FaultyStore
from tests.support.world import World, open_world


class Slow(FaultyStore):
    """Holds answers back: `create` before it is done and before it is answered, `held` before it is answered."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store)
        self.asked, self.made, self.compared = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.may_make, self.may_answer, self.may_compare = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.slow_run = ""

    async def create(self, new: Any, **options: Any) -> Creation:
        if new.row.run != self.slow_run:
            return await self.inner.create(new, **options)
        self.asked.set()
        await self.may_make.wait()
        made = await self.inner.create(new, **options)
        self.made.set()
        await self.may_answer.wait()
        return made

    async def held(self, instance: str) -> dict[str, Held]:
        found = dict(await self.inner.held(instance))
        self.compared.set()
        await self.may_compare.wait()
        return found


class Looked(FaultyStore):
    """Counts how often somebody looked for what others wrote."""

    looks = 0

    def changes(self) -> int:
        self.looks += 1
        return self.inner.changes()


class Note:
    """What the bodies of one test did, and whether they may end."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.ran: list[tuple[str, int]] = []
        self.may_end = asyncio.Event()


note = Note()
go = Signal[int]("go")


@step(once=True)
async def touch(name: str) -> str:
    note.ran.append((name, current().attempt))
    await note.may_end.wait()
    return name


@workflow
async def work(name: str) -> str:
    note.entered.append(name)
    return await touch(name)


@pytest.fixture
async def still_world(tmp_path: Path) -> AsyncIterator[World]:
    """No loop asks on its own: the tests ask."""
    note.__init__()  # type: ignore[misc] # anew for each test, on its own event loop
    async with open_world("memory", tmp_path, virtual=False) as world:
        yield world


async def compared(worker: Worker) -> None:
    await worker.engine.check_held(worker.options.instance)


async def test_a_comparison_asked_before_the_run_was_made_does_not_drop_it(still_world: World) -> None:
    """Promise: what is held is asked for before a run is made and answered after it has begun: the run is still
    advanced here, by the session that began it."""
    slow = Slow(still_world)
    slow.slow_run = "second"
    app = App(workflows=[work], store=slow.store)
    async with app.worker(poll="1h", ttl="3h") as worker:
        first = await app.start(work("first"), id="first")
        starting = asyncio.create_task(app.start(work("second"), id="second"))
        await still_world.until_set(slow.asked)
        comparing = asyncio.create_task(compared(worker))
        await still_world.until_set(slow.compared)
        slow.may_make.set()
        slow.may_answer.set()
        second = await starting
        await still_world.until(lambda: ("second", 1) in note.ran)
        session = worker.engine.sessions["second"]
        assert not session.is_settling
        slow.may_compare.set()
        await comparing
        assert worker.engine.sessions.get("second") is session
        note.may_end.set()
        assert [await first.result("30s"), await second.result("30s")] == ["first", "second"]
    assert note.ran == [("first", 1), ("second", 1)]


async def test_a_run_whose_start_is_not_answered_yet_is_not_given_back(still_world: World) -> None:
    """Promise: however often it is compared meanwhile, and whatever else is in doubt, the run stays ours, and the
    answer finds its session."""
    slow = Slow(still_world)
    slow.slow_run = "late"
    slow.may_make.set()
    slow.may_compare.set()
    app = App(workflows=[work], store=slow.store)
    async with app.worker(poll="1h", ttl="3h") as worker:
        starting = asyncio.create_task(app.start(work("late"), id="late"))
        await still_world.until_set(slow.made)
        for _ in range(4):
            worker.engine.doubt()
            await compared(worker)
        row = await still_world.row("late")
        assert (row.instance, row.epoch, row.status) == (worker.options.instance, 1, Status.RUNNING)
        assert note.ran == []
        slow.may_answer.set()
        note.may_end.set()
        assert await (await starting).result("30s") == "late"
    assert note.ran == [("late", 1)]


async def test_no_body_starts_before_the_run_is_durable(still_world: World) -> None:
    """Promise: the workflow's code may be entered before, a step's body never."""
    slow = Slow(still_world)
    slow.slow_run = "r"
    app = App(workflows=[work], store=slow.store)
    async with app.worker() as worker:
        starting = asyncio.create_task(app.start(work("r"), id="r"))
        await still_world.until_set(slow.asked)
        assert (note.entered, note.ran, worker.engine.busy) == (["r"], [], 1)
        assert await still_world.store.get("r") is None
        slow.may_make.set()
        slow.may_answer.set()
        note.may_end.set()
        assert await (await starting).result("30s") == "r"


async def test_no_more_begin_at_once_than_there_are_slots(still_world: World) -> None:
    """Promise: however many runs are started in the same moment, a worker begins no more than it has slots; the others
    follow as slots come free."""
    app = App(workflows=[work], store=still_world.store)
    async with app.worker(concurrency=3) as worker:
        runs = await asyncio.gather(*(app.start(work(f"{n}")) for n in range(20)))
        await still_world.until(lambda: len(note.ran) == 3)
        assert (len(note.entered), worker.engine.busy) == (3, 3)
        note.may_end.set()
        assert [await run.result("30s") for run in runs] == [f"{n}" for n in range(20)]
    assert sorted(note.ran) == sorted((f"{n}", 1) for n in range(20))


@pytest.mark.parametrize("by", ["id", "key"])
async def test_an_id_or_key_in_use_enters_nothing(still_world: World, by: str) -> None:
    """Promise: the run that is there is given, and not even the workflow's code is entered again."""
    app = App(workflows=[work], store=still_world.store)
    note.may_end.set()
    async with app.worker():
        first: Run[str] = await app.start(work("r"), **{by: "given"})  # type: ignore[arg-type]
        assert await first.result("30s") == "r"
        again: Run[str] = await app.start(work("r"), **{by: "given"})  # type: ignore[arg-type]
        assert again.id == first.id
    assert note.entered == ["r"]
    assert note.ran == [("r", 1)]


async def test_many_starts_of_one_id_make_one_run(still_world: World) -> None:
    """Promise: those who start it together get one run, begun once."""
    app = App(workflows=[work], store=still_world.store)
    note.may_end.set()
    async with app.worker():
        runs = await asyncio.gather(*(app.start(work("r"), id="r") for _ in range(5)))
        assert [await run.result("30s") for run in runs] == ["r"] * 5
    assert note.ran == [("r", 1)]


async def test_somebody_else_was_quicker(still_world: World) -> None:
    """Promise: if another process makes a run of that id in the last moment, its run is given and ours never was."""
    slow = Slow(still_world)
    slow.slow_run = "r"
    app = App(workflows=[work], store=slow.store)
    async with app.worker() as worker:
        starting = asyncio.create_task(app.start(work("r"), id="r"))
        await still_world.until_set(slow.asked)
        await still_world.app(work).start(work("r"), id="r", delay="1h")
        slow.may_make.set()
        slow.may_answer.set()
        run = await starting
        assert worker.engine.busy == 0
        assert await run.status() is Status.PENDING
        assert len(await still_world.store.history("r")) == 1
    assert note.ran == []


async def test_a_start_whose_answer_was_lost_is_found(still_world: World) -> None:
    """Promise: the caller hears of the fault, the run goes on where it began: a step that may be tried once is tried
    once, and is not in doubt."""
    faulty = FaultyStore(still_world.store)
    faulty.fail("create", 1, mode="answer lost")
    app = App(workflows=[work], store=faulty.store)
    note.may_end.set()
    async with app.worker(poll="1h", ttl="3h") as worker:
        with pytest.raises(StoreError):
            await app.start(work("r"), id="r")
        assert note.ran == []
        for _ in range(2):
            await compared(worker)
        assert await (await app.get("r", work)).result("30s") == "r"
    assert note.ran == [("r", 1)]


async def test_a_start_that_was_refused_leaves_nothing(still_world: World) -> None:
    """Promise: no run, no session, no slot taken; the same start works afterwards."""
    faulty = FaultyStore(still_world.store)
    faulty.fail("create", 1)
    app = App(workflows=[work], store=faulty.store)
    note.may_end.set()
    async with app.worker(poll="1h", ttl="3h") as worker:
        with pytest.raises(StoreError):
            await app.start(work("r"), id="r")
        for _ in range(3):
            await compared(worker)
        assert (worker.engine.busy, worker.engine.is_quiet) == (0, True)
        assert await still_world.store.get("r") is None
        assert await (await app.start(work("r"), id="r")).result("30s") == "r"


@pytest.mark.parametrize("is_made", [False, True])
async def test_a_caller_who_gives_up_does_not_lose_the_run(still_world: World, is_made: bool) -> None:
    """Promise: a cancelled start is answered all the same, whether it was carried out before or not. Its run goes on in
    the session that began it: the step that may be tried once is tried once."""
    slow = Slow(still_world)
    slow.slow_run = "r"
    if is_made:
        slow.may_make.set()
    app = App(workflows=[work], store=slow.store)
    note.may_end.set()
    async with app.worker(poll="1h", ttl="3h") as worker:
        starting = asyncio.create_task(app.start(work("r"), id="r"))
        await still_world.until_set(slow.made if is_made else slow.asked)
        starting.cancel()
        await asyncio.wait([starting])
        assert (note.ran, worker.engine.busy) == ([], 1)
        slow.may_make.set()
        slow.may_answer.set()
        await still_world.until(lambda: note.ran == [("r", 1)])
        assert await (await app.get("r", work)).result("30s") == "r"
        assert (note.entered, worker.engine.busy) == (["r"], 0)
    assert note.ran == [("r", 1)]


async def test_a_late_answer_that_cannot_be_used_frees_its_slot(
    still_world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: if a run whose caller gave up cannot be taken on, its slot is free again, the log says so, and the
    comparison with the store takes the run on."""
    slow = Slow(still_world)
    slow.slow_run = "r"
    slow.may_make.set()
    app = App(workflows=[work], store=slow.store)
    note.may_end.set()
    async with app.worker(poll="1h", ttl="3h") as worker:
        take_on = worker.engine.take_on

        async def fail(*_: object) -> None:
            raise StoreError("the store is away")

        monkeypatch.setattr(worker.engine, "take_on", fail)
        starting = asyncio.create_task(app.start(work("r"), id="r", unique="one of its kind"))
        await still_world.until_set(slow.made)
        starting.cancel()
        await asyncio.wait([starting])
        assert worker.engine.busy == 1
        slow.may_answer.set()
        slow.may_compare.set()
        await still_world.until(lambda: worker.engine.busy == 0)
        assert "could not be begun at once; it is tried again" in caplog.text
        monkeypatch.setattr(worker.engine, "take_on", take_on)
        for _ in range(2):  # an unknown run is taken on when it was seen twice
            await compared(worker)
        assert await (await app.get("r", work)).result("30s") == "r"
    assert note.ran == [("r", 1)]


async def test_a_worker_that_stops_waits_for_the_answer(still_world: World) -> None:
    """Promise: a run made in the moment its worker stops is given back, and another worker has it at once."""
    slow = Slow(still_world)
    slow.slow_run = "r"
    slow.may_make.set()
    app = App(workflows=[work], store=slow.store)
    note.may_end.set()
    async with app.worker(poll="1h", ttl="3h") as worker:
        starting = asyncio.create_task(app.start(work("r"), id="r"))
        await still_world.until_set(slow.made)
        stopping = asyncio.create_task(worker.stop())
        await still_world.until(lambda: worker.engine.is_draining)
        slow.may_answer.set()
        run = await starting
        await stopping
        assert (await still_world.row("r")).instance == ""
        assert note.ran == []
    other = still_world.app(work)
    async with still_world.worker(other):
        assert await (await other.get(run.id, work)).result("30s") == "r"
    assert note.ran == [("r", 1)]


async def test_a_message_to_itself_in_the_first_turn_is_heard(still_world: World) -> None:
    """Promise: what the first turn sends to its own run is taken in by the session that wrote it."""

    @workflow
    async def talks_to_itself() -> int:
        _ = go.send(current().run_id, 7)
        return await go.wait()

    app = App(workflows=[talks_to_itself], store=still_world.store)
    async with app.worker(poll="1h", ttl="3h"):
        assert await (await app.start(talks_to_itself())).result("30s") == 7


async def test_who_waits_beside_the_worker_does_not_ask_the_store(
    still_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: however often it polls, whoever waits for a run that is advanced in this process is told of its end;
    once the worker has lost the run, the poll asks for it."""
    monkeypatch.setattr(waiters, "POLL", 0.0)
    looked = Looked(still_world.store)
    app = App(workflows=[work], store=looked.store)
    async with app.worker(poll="1h", ttl="3h") as worker:
        run = await app.start(work("r"))
        result = asyncio.create_task(run.result("30s"))
        await still_world.until(lambda: looked.looks > 10)
        assert looked.calls["get"] == 0
        worker.engine.sessions[run.id].drop("taken over")
        await still_world.until(lambda: looked.calls["get"] > 0)
        await run.kill("nobody has it")
        with pytest.raises(RunCancelled):
            await result
