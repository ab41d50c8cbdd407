"""Who shares a transaction with whom, on which thread, and what one cannot do to the others."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sqlite import SqliteStore, attempt, open_sqlite, turn_statements
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.connections import open_writable, run
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core import events as e
from holdfast.errors import Conflict, StoreError, StoreRefused, StoreUnavailable
from holdfast.ports.journal import Committed, Fenced
from holdfast.ports.leases import Taken
from holdfast.ports.runs import Existing, Made
from holdfast.testing.conformance.world import WINDOW, World, signal

ADD = "INSERT INTO blobs (name, kind, at, size, data) VALUES (?, 'payload', 0, 0, ?)"


def names(store: SqliteStore) -> set[bytes]:
    return {name for (name,) in store._rows("SELECT name FROM blobs")}


class Traced:
    """The statements the writer executes, by their constant's name."""

    def __init__(self, store: SqliteStore) -> None:
        self._names = {
            value: name
            for each in (sql, turn_statements)
            for name, value in vars(each).items()
            if isinstance(value, str)
        }
        self.statements: list[str] = []
        store._writer._link.connected().set_exec_trace(self._note)

    def _note(self, cursor: apsw.Cursor, statement: str, values: object) -> bool:
        self.statements.append(self._names.get(statement, statement))
        return True


async def test_the_common_turn_is_two_statements(store: SqliteStore, world: World) -> None:
    """Contract: a step costs one fenced update and one insert, nothing else."""
    holder = await world.held_run("order-1")
    await holder.commits(e.StepScheduled(key="charge"))
    traced = Traced(store)
    await holder.commits(e.StepCompleted(key="charge"), e.StepScheduled(key="mail"))
    assert traced.statements == ["BEGIN", "ADVANCE", "APPEND", "COMMIT"]


async def test_the_common_end_is_two_statements(store: SqliteStore, world: World) -> None:
    """Contract: an end that nothing else waits for costs one fenced update and one insert, nothing else."""
    holder = await world.held_run("order-1")
    await holder.commits(e.StepScheduled(key="charge"))
    traced = Traced(store)
    await holder.commits(e.StepCompleted(key="charge"), e.Completed())
    assert traced.statements == ["BEGIN", "END", "APPEND", "COMMIT"]
    await world.verify()


@pytest.mark.parametrize("change", ["continued", "paused", "resumed"])
async def test_an_uncommon_turn_is_noticed(change: str, store: SqliteStore, world: World) -> None:
    """Contract: a turn that changes more than the common one is written as a whole all the same."""
    holder = await world.held_run("order-1")
    await holder.commits(e.StepScheduled(key="charge"))
    if change == "continued":
        await holder.commits(e.Continued(workflow="parcel", version="7"))
    else:
        await holder.commits(e.Paused(reason="operator"))
    if change == "resumed":
        await holder.commits(e.Resumed())
    await world.verify()


async def test_an_idle_claim_writes_nothing(store: SqliteStore, world: World) -> None:
    """Contract: polling costs no write transaction, also beside runs that only another live worker can take."""
    worker = await world.worker("i1")
    await world.worker("i2", definitions=(("other", ""),))
    await world.make("foreign", "other")
    traced = Traced(store)
    assert (await world.claim(worker)).runs == []
    assert traced.statements == []


async def test_a_lone_request_runs_on_the_callers_thread(store: SqliteStore) -> None:
    def where(transaction: Transaction) -> int:
        return threading.get_ident()

    assert await store._writer.run(where) == threading.get_ident()
    assert await store._writer.run(where, is_large=True) != threading.get_ident()


class Eager:
    """A queue whose reader is never late: whatever is put in is taken before anything else can be."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.get, self.get_nowait, self.empty = queue.get, queue.get_nowait, queue.empty

    def put(self, item: object) -> None:
        self._queue.put(item)
        deadline = time.monotonic() + 30
        while not self._queue.empty() and time.monotonic() < deadline:
            os.sched_yield()  # the other thread's turn


async def test_requests_made_together_share_a_transaction(store: SqliteStore) -> None:
    """Contract: callers of one moment share one transaction, and so one fsync, however quick the writer's thread is."""
    store._writer._queue = cast("Any", Eager(store._writer._queue))
    seen: list[Transaction] = []
    await asyncio.gather(*(store._writer.run(seen.append) for _ in range(50)))
    assert len(seen) == 50
    assert len(set(map(id, seen))) == 1


@pytest.mark.spec("stepflow.J13")
async def test_a_refused_request_leaves_the_others_alone(store: SqliteStore) -> None:
    """Contract: a refusal goes to its caller only, and costs the others nothing."""

    def refuse(transaction: Transaction) -> None:
        raise Conflict("taken")

    def add(name: bytes) -> object:
        return store._writer.run(lambda transaction: transaction.run(ADD, (name, b"")))

    answers = await asyncio.gather(add(b"1"), store._writer.run(refuse), add(b"2"), return_exceptions=True)  # type: ignore[call-overload]
    assert [type(answer) for answer in answers] == [type(None), Conflict, type(None)]
    assert names(store) == {b"1", b"2"}


@pytest.mark.parametrize("error", [ZeroDivisionError(), apsw.ConstraintError("unique"), Conflict("after a write")])
async def test_an_unexpected_error_undoes_only_its_own_writes(error: Exception, store: SqliteStore) -> None:
    """Contract: one that breaks after it wrote is undone whole; the others are written all the same."""

    def breaks(transaction: Transaction) -> None:
        transaction.run(ADD, (b"broken", b""))
        raise error

    def add(name: bytes) -> object:
        return store._writer.run(lambda transaction: transaction.run(ADD, (name, b"")))

    answers = await asyncio.gather(add(b"1"), store._writer.run(breaks), add(b"2"), return_exceptions=True)  # type: ignore[call-overload]
    expected = StoreError if isinstance(error, apsw.Error) else type(error)
    assert [type(answer) for answer in answers] == [type(None), expected, type(None)]
    assert names(store) == {b"1", b"2"}


async def test_a_cancelled_caller_disturbs_nobody(store: SqliteStore) -> None:
    """Contract: who stops waiting does not stop the write, nor anybody else's."""
    first = asyncio.ensure_future(store.put_blob(b"first"))
    second = asyncio.ensure_future(store.put_blob(b"second"))
    await asyncio.sleep(0)
    first.cancel()
    assert await store.get_blob(await second) == b"second"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_threads_with_loops_of_their_own_share_the_store(store: SqliteStore, world: World) -> None:
    """Contract: any thread may use the store through its own event loop; every answer reaches its own loop."""
    failed: list[BaseException] = []

    async def work(number: int) -> None:
        for count in range(20):
            made = await world.create(world.new(f"order-{number}-{count}"))
            assert isinstance(made, Made)
            assert (await store.get(made.run.id)) == made.run

    def thread(number: int) -> None:
        try:
            asyncio.run(work(number))
        except BaseException as error:  # noqa: BLE001 - for the test to see
            failed.append(error)

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    await asyncio.gather(work(99), *(asyncio.to_thread(each.join) for each in threads))
    assert not failed
    assert sum((await store.count()).values()) == 100


async def test_closing_finishes_what_was_accepted(path: Path, clock: VirtualClock) -> None:
    """Contract: what was asked for before `close` is done and answered; what comes after is refused."""
    store = await open_sqlite(path, clock=clock)
    asked = [asyncio.ensure_future(store.put_blob(bytes([number]))) for number in range(100)]
    await asyncio.sleep(0)
    await store.close()
    kept = await asyncio.gather(*asked)
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.put_blob(b"late")
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.get("order-1")
    await store.close()
    again = await open_sqlite(path, clock=clock)
    assert len(await again.get_blobs(kept)) == 100
    await again.close()


async def test_a_writer_elsewhere_is_waited_for(store: SqliteStore, path: Path) -> None:
    """Contract: while another connection writes, a request waits off the event loop, and then succeeds."""
    other = open_writable(path, "full")
    run(other, sql.BEGIN)
    asked = asyncio.ensure_future(store.put_blob(b"patient"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not asked.done()
    run(other, sql.COMMIT)
    assert await store.get_blob(await asked) == b"patient"
    other.close()


async def test_patience_has_an_end(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: a store that stays locked is `StoreUnavailable` for everyone who waited, and nothing is written."""
    monkeypatch.setattr("holdfast.adapters.sqlite.connections.PATIENCE", 0.01)
    other = open_writable(path, "full")
    run(other, sql.BEGIN)
    answers = await asyncio.gather(*(store.put_blob(bytes([n])) for n in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3
    run(other, sql.ROLLBACK)
    other.close()
    assert names(store) == set()


# -- unknown outcomes --------------------------------------------------------------------------------------------------


class LostAnswers:
    """Makes COMMIT fail with an I/O error, before or after it took effect."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, takes_effect: bool, times: int = 1) -> None:
        self.left = times
        self._takes_effect = takes_effect
        monkeypatch.setattr(attempt, "run", self._run)

    def _run(self, connection: apsw.Connection, statement: str) -> None:
        if statement == sql.COMMIT and self.left:
            self.left -= 1
            if self._takes_effect:
                run(connection, statement)
            raise apsw.IOError("disk I/O error")
        run(connection, statement)


@pytest.fixture(params=[True, False], ids=["it took effect", "it did not"])
def lost(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_a_turn_with_a_lost_answer_is_written_once(
    lost: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = await world.held_run("order-1")
    lose = LostAnswers(monkeypatch, takes_effect=lost)
    await holder.commits(e.StepScheduled(key="charge"))
    assert lose.left == 0
    assert (await world.get("order-1")).next_ordinal == 3
    await world.verify()


async def test_a_run_with_a_lost_answer_was_made_by_this_call(
    lost: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: the caller learns that it made the run, whether or not the first try took effect."""
    LostAnswers(monkeypatch, takes_effect=lost)
    new = world.new("order-1", key="k")
    assert isinstance(await world.create(new), Made)
    assert isinstance(await world.create(new), Existing)


async def test_a_claim_with_a_lost_answer_is_not_forgotten(
    lost: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: the runs taken by the first try are the ones the caller is given; none is held unknown to it."""
    worker = await world.worker("i1")
    for number in range(4):
        await world.make(f"order-{number}")
    LostAnswers(monkeypatch, takes_effect=lost)
    claimed = (await world.claim(worker, limit=2)).runs
    assert {run.id: run.epoch for run in claimed} == {"order-0": 1, "order-1": 1}
    assert set(await world.store.held("i1")) == {run.id for run in claimed}


async def test_taking_with_a_lost_answer_raises_the_epoch_once(
    lost: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.make("order-1")
    LostAnswers(monkeypatch, takes_effect=lost)
    taken = await world.store.take("order-1", instance="operator")
    assert isinstance(taken, Taken)
    assert taken.run.epoch == 1


async def test_a_message_with_a_lost_answer_arrives_once(
    lost: bool, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.make("order-1")
    LostAnswers(monkeypatch, takes_effect=lost)
    await world.store.send(signal("order-1", "m1"))
    assert len(await world.unread("order-1")) == 1


async def test_many_with_one_lost_answer(lost: bool, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: callers that shared the lost transaction are all answered as if it had not been lost."""
    LostAnswers(monkeypatch, takes_effect=lost)
    made = await asyncio.gather(*(world.create(world.new(f"order-{number}")) for number in range(10)))
    assert all(isinstance(each, Made) for each in made)
    await world.verify()


async def test_an_error_that_stays_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: a disk that keeps failing is `StoreUnavailable`; the same turn can be sent again afterwards."""
    holder = await world.held_run("order-1")
    turn = holder.turn(e.StepScheduled(key="charge"))
    LostAnswers(monkeypatch, takes_effect=False, times=100)
    with pytest.raises(StoreUnavailable):
        await holder.submit(turn)
    monkeypatch.undo()
    assert isinstance(await holder.submit(turn), Committed)


async def test_a_turn_sent_again_after_a_takeover_is_still_ours(world: World) -> None:
    """Contract: the checksum at its ordinal says so, whoever holds the run by now; another turn there is fenced."""
    holder = await world.held_run("order-1")
    turn, other = holder.turn(e.StepScheduled(key="a")), holder.turn(e.StepScheduled(key="b"))
    first = await holder.submit(turn)
    await world.store.take("order-1", instance="operator", steal=True)
    assert await holder.submit(turn) == first
    assert await holder.submit(other) == Fenced(2, 3)


async def test_the_window_of_a_key_is_not_the_callers_own_run(world: World) -> None:
    """Contract: the same id again is that run by its id, also when its key would find it."""
    new = world.new("order-1", key="k")
    await world.create(new)
    again = await world.store.create(new, key_since=world.clock.now() - WINDOW)
    assert isinstance(again, Existing)
    assert again.by == "id"


async def test_another_process_id_is_refused(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.adapters.sqlite.store.os.getpid", lambda: -1)
    with pytest.raises(StoreRefused, match="forked child"):
        await store.put_blob(b"")
    with pytest.raises(StoreRefused, match="forked child"):
        store.heart("i1", WINDOW)
    monkeypatch.undo()
