"""Recovery: a worker's own runs at its start, the runs of dead workers periodically, and what is met on the way."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from functools import partial
from typing import Any, Literal, get_args

import msgspec
import pytest

from holdfast import App, Retry, Signal, Status, StepFailed, current, step, workflow
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.sqlite import SqliteStore
from holdfast.config import Configuration, RecoverySettings
from holdfast.core.recovery import Recovery, decode_recovery
from holdfast.engine.store_reads import Asking
from holdfast.errors import InvalidInput
from holdfast.ports.leases import Taken, Taking, WorkerRow
from holdfast.ports.store import Store
from holdfast.testing.conformance.leases import finished_pid
from holdfast.worker.worker import Worker
from holdfast.worker.worker_options import worker_options
from tests.support.faults import FaultyStore
from tests.support.world import World, crash, seconds

go = Signal[int]("go")
TTL = "15s"


class Stage:
    """A workflow of two steps whose second one stands still until it is let go; who ran what is noted."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str, int]] = []
        self.leave = asyncio.Event()
        stage = self

        @step
        async def first() -> None:
            stage.ran.append((current().run_id, "first", current().attempt))

        @step
        async def second() -> int:
            attempt = current().attempt
            stage.ran.append((current().run_id, "second", attempt))
            await stage.leave.wait()
            return attempt

        @workflow
        async def work() -> int:
            await first()
            return await second()

        self.work = work

    def begun(self) -> Counter[str]:
        """How often the second step of each run began."""
        return Counter(run for run, name, _ in self.ran if name == "second")


def recovering(**settings: Any) -> Configuration:
    return Configuration(recovery=RecoverySettings(**settings))


async def met_by(world: World, worker: Worker) -> Recovery:
    """What the worker's row says of its recovery, after its next heartbeat."""
    await world.beat(worker)
    rows = await world.store.workers()
    return decode_recovery(next(row.recovery for row in rows if row.instance == worker.options.instance))


Damage = Literal["unreadable", "without its last row", "empty"]


async def damage(store: Store, run: str, how: Damage) -> None:
    """Does that to a run's journal, or to its last row, behind everybody's back."""
    row = await store.get(run)
    assert row is not None
    first = 1 if how == "empty" else row.next_ordinal - 1
    if isinstance(store, MemoryStore):
        rows = store._tables.rows[row.no]
        last = msgspec.structs.replace(rows[-1], body=b"\xff not an event")
        rows[first - 1 :] = [last] if how == "unreadable" else []
    else:
        assert isinstance(store, SqliteStore)
        verb = "UPDATE events SET body = x'ff'" if how == "unreadable" else "DELETE FROM events"
        statement = f"{verb} WHERE run = ? AND ordinal >= ?"
        await store._write(lambda transaction: transaction.run(statement, (row.no, first)))


# -- start-up ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("stepflow.R1", "stepflow.R6", "stepflow.R10", "stepflow.R19", "traps.A8")
async def test_a_restarted_worker_takes_its_own_runs_before_others(still: World) -> None:
    """Promise: its own at once and first, before older runs of a higher priority; completed steps are not run again."""
    stage = Stage()
    app = still.app(stage.work)
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        own = [(await app.start(stage.work(), id=f"own{count}")).id for count in range(2)]
        await still.until(lambda: len(stage.begun()) == 2)
        await crash(worker)
    for count in range(3):
        await app.start(stage.work(), id=f"waiting{count}", priority=9)
    async with still.worker(app, id="w1", ttl=TTL, concurrency=2) as worker:
        await still.until(lambda: [stage.begun()[run] for run in own] == [2, 2])
        assert set(stage.begun()) == set(own)
        assert worker.recovery.counts == {"own": 2, "taken over": 2}
        stage.leave.set()
        assert [await (await app.get(run, stage.work)).result("30s") for run in own] == [2, 2]
    assert Counter(run for run, name, _ in stage.ran if name == "first")[own[0]] == 1


@pytest.mark.spec("stepflow.R8")
async def test_own_runs_that_another_worker_got_faster_are_counted(still: World) -> None:
    """Promise: they are left to it, and counted as contention, which `doctor` shows."""
    stage = Stage()
    app = still.app(stage.work)
    async with still.worker(app, id="w2"), still.worker(still.app(), id="w1") as worker:
        await app.start(stage.work(), id="r")
        await still.until(lambda: stage.begun() == {"r": 1})
        await worker.recovered(["r"], ())
        assert worker.recovery.counts == {"contended": 1}
        assert [(met.run, met.detail) for met in worker.recovery.recent] == [("r", "worker w2 holds it")]
        stage.leave.set()


async def test_runs_taken_over_together_are_read_together(still: World) -> None:
    """Promise: what a worker asks of the store to go on with runs grows with the passes of its claims, not with the
    runs they bring."""
    stage = Stage()
    app = still.app(stage.work)
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        for count in range(40):
            await app.start(stage.work(), id=f"own{count}")
        await still.until(lambda: len(stage.begun()) == 40)
        await crash(worker)
    asked = FaultyStore(still.store)
    again = App(workflows=[stage.work], store=asked.store)
    async with still.worker(again, id="w1", ttl=TTL):
        await still.until(lambda: sum(stage.begun().values()) == 80)
        reads = {name: asked.calls[name] for name in ("read", "workers", "unread", "snapshots", "get", "history")}
        stage.leave.set()
        for count in range(40):
            await (await app.get(f"own{count}", stage.work)).result("30s")
    assert reads["read"] > 0
    assert max(reads.values()) < 20, reads


@pytest.mark.spec("stepflow.R1", "stepflow.C1")
async def test_start_up_recovery_takes_as_many_as_it_is_told(still: World) -> None:
    """Promise: at most `max_startup_recovery` go before others; the rest follow like any run."""
    stage = Stage()
    app = still.app(stage.work, config=recovering(max_startup_recovery=2))
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        for count in range(5):
            await app.start(stage.work(), id=f"own{count}")
        await still.until(lambda: len(stage.begun()) == 5)
        await crash(worker)
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        await still.until(lambda: sum(stage.begun().values()) == 10)
        assert worker.recovery.counts == {"own": 2, "taken over": 5}
        stage.leave.set()
        for count in range(5):
            await (await app.get(f"own{count}", stage.work)).result("30s")


@pytest.mark.spec("stepflow.C1", "stepflow.R20")
@pytest.mark.parametrize(("id", "most"), [("w1", 0), ("w2", 100)])
async def test_without_start_up_recovery_the_lease_decides(still: World, id: str, most: int) -> None:
    """Promise: 0 turns it off, and another id has nothing to take back: the runs come when the earlier lease ends,
    though the earlier process is known to be gone."""
    stage = Stage()
    app = still.app(stage.work, config=recovering(max_startup_recovery=most))
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        run = await app.start(stage.work())
        await still.until(lambda: len(stage.begun()) == 1)
        await crash(worker)
    gone = msgspec.structs.replace(worker.row, pid=finished_pid())
    await still.store.register(gone, seconds(15), takes_over="none")
    async with still.worker(app, id=id, ttl=TTL) as worker:
        await still.beat(worker)
        await worker.learn([])  # it registers again
        row = await still.row(run)
        assert (row.instance, row.epoch) == (gone.instance, 1)
        still.clock.advance(seconds(16))
        await still.beat(worker)
        await still.until(lambda: stage.begun()[run.id] == 2)
        assert worker.recovery.count("own") == 0
        stage.leave.set()
        assert await run.result("30s") == 2


# -- periodic ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("stepflow.C1", "stepflow.R2", "stepflow.R18", "stepflow.R19")
@pytest.mark.parametrize("enabled", [True, False])
async def test_periodic_recovery_can_be_turned_off(world: World, enabled: bool) -> None:
    """Promise: off, nobody else's runs are claimed; heartbeats and start-up recovery go on."""
    stage = Stage()
    config = recovering(enabled=enabled, check_interval=seconds(0.05))
    app = world.app(stage.work, config=config)
    async with world.worker(app, id="w1", ttl="1500ms") as worker:
        run = await app.start(stage.work())
        await world.until(lambda: len(stage.begun()) == 1)
        await crash(worker)

    async def is_stale() -> bool:
        return await world.store.lease(run.id) is None

    async with world.worker(app, id="w2", ttl="1500ms") as other:
        if not enabled:
            await world.until(is_stale)
            beats = Counter(row.seen_at for row in await world.store.workers())
            await world.until(lambda: _beats_went_on(world, other, beats))
            assert (await world.row(run)).worker == "w1"
        else:
            await world.until(lambda: stage.begun()[run.id] == 2)
            assert (await world.row(run)).worker == "w2"
            stage.leave.set()
    if not enabled:
        async with world.worker(app, id="w1", ttl="1500ms") as again:
            await world.until(lambda: stage.begun()[run.id] == 2)
            assert again.recovery.count("own") == 1
            stage.leave.set()
            assert await run.result("30s") == 2
    assert await run.result("30s") == 2


async def _beats_went_on(world: World, worker: Worker, before: Counter[Any]) -> bool:
    rows = {row.instance: row for row in await world.store.workers()}
    row = rows[worker.options.instance]
    return row.is_live and row.seen_at not in before


# -- what is met -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("stepflow.R8", "stepflow.R9", "stepflow.J11", "traps.A8")
@pytest.mark.parametrize("how", get_args(Damage))
async def test_one_bad_run_never_stops_the_pass(still: World, caplog: pytest.LogCaptureFixture, how: Damage) -> None:
    """Promise: of runs taken back together the damaged one is paused with the reason; the others go on. Rows that are
    missing at the end are damage too: the run's row says how many there were."""
    stage = Stage()
    app = still.app(stage.work)
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        for count in range(3):
            await app.start(stage.work(), id=f"run{count}")
        await still.until(lambda: len(stage.begun()) == 3)
        await crash(worker)
    await damage(still.store, "run1", how)
    stage.leave.set()
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        assert [await (await app.get(f"run{n}", stage.work)).result("30s") for n in (0, 2)] == [2, 2]
        row = await still.until_status("run1", Status.PAUSED)
        assert row.instance == ""
        recovery = await met_by(still, worker)
        assert recovery.count("undecodable") == 1
        assert [(met.kind, met.run) for met in recovery.recent] == [("undecodable", "run1")]
    assert "run1" in caplog.text


@pytest.mark.parametrize("how", get_args(Damage))
async def test_an_operator_can_end_a_run_whose_journal_is_damaged(still: World, how: Damage) -> None:
    """Promise: whatever its journal has lost, a run that nobody can go on with is not there forever."""
    stage = Stage()
    app = still.app(stage.work)
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        await app.start(stage.work(), id="run")
        await still.until(lambda: len(stage.begun()) == 1)
        await crash(worker)
    await app.start(stage.work(), id="newer")  # the newest row of all stays in a file of SQLite
    await damage(still.store, "run", how)
    await (await app.get("run")).kill()
    assert (await still.row("run")).status is Status.CANCELLED


@pytest.mark.spec("stepflow.R8", "stepflow.R9", "traps.A8")
async def test_a_missing_definition_is_counted_and_named(still: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: put off, never failed; the worker that met it says which run and which workflow."""
    stage = Stage()
    app = still.app(stage.work)
    run = await app.start(stage.work(), id="homeless")

    @workflow(name="something_else")
    async def something_else() -> None: ...

    stranger = still.app(something_else)
    async with still.worker(stranger, id="w2") as worker:
        await still.until(lambda: worker.recovery.count("missing definition") == 1)
        recovery = await met_by(still, worker)
        assert [(met.kind, met.run) for met in recovery.recent] == [("missing definition", "homeless")]
        assert "work" in recovery.recent[0].detail
        assert (await still.row(run)).status is Status.PENDING
    assert "run homeless: put off" in caplog.text


@pytest.mark.spec("stepflow.R8", "traps.A8")
async def test_a_run_that_cannot_be_taken_on_is_named_and_the_rest_go_on(
    still: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: whatever goes wrong in opening a run is its own matter: counted, put off, and tried again."""
    stage = Stage()
    stage.leave.set()
    app = still.app(stage.work)
    runs = [await app.start(stage.work(), id=f"run{count}") for count in range(3)]
    replayed, failed = Asking.replayed, list[str]()

    async def once_broken(asking: Asking, loaded: Any, *rest: Any) -> Any:
        if loaded.run.id == "run1" and not failed:
            failed.append(loaded.run.id)
            raise RuntimeError("a surprise")
        return await replayed(asking, loaded, *rest)

    monkeypatch.setattr(Asking, "replayed", once_broken)
    async with still.worker(app, id="w1") as worker:
        assert [await run.result("30s") for run in (runs[0], runs[2])] == [1, 1]
        recovery = await met_by(still, worker)
        assert [(met.kind, met.run, met.detail) for met in recovery.recent] == [("failed", "run1", "a surprise")]
        await still.advance("10s")
        assert await runs[1].result("30s") == 1


@pytest.mark.spec("stepflow.R8", "stepflow.R3")
async def test_own_runs_that_others_were_quicker_to_get_are_counted(still: World) -> None:
    """Promise: between being freed and being claimed a run may go elsewhere: no error, and nothing is read for it."""
    stage = Stage()
    faulty = FaultyStore(still.store)
    app = App(workflows=[stage.work], store=faulty.store)
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        run = await app.start(stage.work())
        await still.until(lambda: len(stage.begun()) == 1)
        await crash(worker)
    thief = WorkerRow(
        instance="thief",
        worker="thief",
        queues=("default",),
        definitions=(),
        pid=0,
        host="elsewhere",
        started_at=still.clock.now(),
    )
    await still.store.register(thief, seconds(3600), takes_over="none")
    stolen: list[Taking] = []

    async def before(name: str, _: tuple[Any, ...]) -> None:
        if name == "claim" and not stolen:
            stolen.append(await still.store.take(run.id, instance="thief"))

    faulty.before = before
    reads = faulty.calls["read"]
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        await still.until(lambda: worker.recovery.count("contended") == 1)
        assert isinstance(stolen[0], Taken)
        assert faulty.calls["read"] == reads
        assert worker.recovery.recent[0].run == run.id
        assert stage.begun()[run.id] == 1


# -- attempts and budgets ----------------------------------------------------------------------------------------------


@pytest.mark.spec("stepflow.R11", "stepflow.R15", "traps.A9", "traps.B6", "vectorbea.V24")
async def test_attempt_numbers_rise_over_crashes_and_budgets_do_not(still: World) -> None:
    """Promise: each crash gives the step in flight the next number; only failures use its budget up; the key stays."""
    seen: list[int] = []
    keys: set[str] = set()
    may_fail = False

    @step(retry=Retry(2, first="1s"))
    async def fragile() -> None:
        seen.append(current().attempt)
        keys.add(current().idempotency_key)
        if may_fail:
            raise RuntimeError("no luck")
        await asyncio.Event().wait()

    @workflow
    async def work() -> str:
        try:
            await fragile()
        except StepFailed as error:
            return str(error)
        return "fine"

    app = still.app(work)
    run = None
    for count in range(3):
        async with still.worker(app, id="w1", ttl=TTL) as worker:
            run = run or await app.start(work())
            await still.until(partial(_has, seen, count + 1))
            await crash(worker)
    assert run is not None
    assert seen == [1, 2, 3]
    may_fail = True
    async with still.worker(app, id="w1", ttl=TTL):
        await still.until(lambda: len(seen) == 4)
        await still.until_waiting(run, "retrying")
        await still.advance("10s")
        result = await run.result("30s")
    assert seen == [1, 2, 3, 4, 5]
    assert "no luck" in result
    assert len(keys) == 1


def _has(seen: list[int], count: int) -> bool:
    return len(seen) == count


# -- who is who --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("stepflow.L15")
def test_worker_ids_are_as_configured_and_instances_never_repeat() -> None:
    """Promise: a configured id is the worker's, and promises one live instance; instance ids are unique always."""
    configured = [worker_options(id="worker-1") for _ in range(50)]
    assert {(options.id, options.is_configured) for options in configured} == {("worker-1", True)}
    host = socket.gethostname()
    assert (worker_options(id="{hostname}").id, worker_options(id="{hostname}-b").id) == (host, f"{host}-b")
    assert worker_options(id="{hostname}").is_configured
    made = [worker_options() for _ in range(50)]
    assert not any(options.is_configured for options in made)
    assert len({options.id for options in made}) == 1
    assert len({options.instance for options in (*configured, *made)}) == 100


async def test_a_lease_leaves_room_for_two_answers(world: World) -> None:
    """Promise: a lease that is shorter than the way to the store and back, twice, would run out all the time: refused
    before the worker is known to anybody."""
    far = FaultyStore(world.store)

    async def slowly(_: str, __: tuple[Any, ...]) -> None:
        await asyncio.sleep(0.1)

    far.before = slowly
    app = App(workflows=[Stage().work], store=far.store)
    with pytest.raises(InvalidInput, match="150 ms is shorter than two round trips to this store"):
        async with app.worker(ttl="150ms", poll="50ms"):
            pass
    assert not await world.store.workers()


async def test_two_live_workers_of_one_id_are_safe_and_reported(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: the later one takes the runs of the earlier, which finds out and says who has its id."""
    stage = Stage()
    first, second = world.app(stage.work), world.app(stage.work)
    # On a busy machine a shorter lease may run out.
    async with world.worker(first, id="w1", ttl="6s", poll="2s") as stale:
        run = await first.start(stage.work())
        await world.until(lambda: len(stage.begun()) == 1)
        await world.nudge()
        await world.until(lambda: not stale.work_hinted.is_set())  # it has looked, and looks again in two seconds
        async with world.worker(second, id="w1", ttl="6s") as later:
            await world.until(lambda: "another live worker has this id" in caplog.text)
            assert f"process {later.row.pid} on {later.row.host}" in caplog.text
            await world.until(lambda: stage.begun()[run.id] == 2 and run.id not in stale.engine.sessions)
            stage.leave.set()
            assert await run.result("30s") == 2


async def test_a_worker_that_comes_back_alone_is_no_second_one(still: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: neither the instance that was killed nor a lease that ran out is taken for another live worker."""
    stage = Stage()
    app = still.app(stage.work)
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        await crash(worker)
    async with still.worker(app, id="w1", ttl=TTL) as worker:
        still.clock.advance(seconds(16))
        assert worker._heartbeat is not None
        await asyncio.to_thread(worker._heartbeat.beat)
        await still.until(lambda: "its lease had expired" in caplog.text)
        await still.until(lambda: not worker.engine._tasks)  # it has registered again
    assert "another live worker" not in caplog.text
