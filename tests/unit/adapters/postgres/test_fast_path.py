"""A turn that could share its transaction with nobody: written without a thread in between, if the answer is quick."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql as quoting

from holdfast.adapters.postgres import fast_path, wire
from holdfast.adapters.postgres.address import parse_address
from holdfast.adapters.postgres.connections import Dialler, TimedConnection
from holdfast.adapters.postgres.creation import Entries
from holdfast.adapters.postgres.link import Link
from holdfast.adapters.postgres.statements import COMMIT_PLAIN, Texts
from holdfast.errors import StoreUnavailable
from holdfast.ports.journal import Committed, Fenced, Park
from holdfast.ports.runs import Existing, Made
from holdfast.testing.conformance.world import DONE, World
from tests.support.postgres import server_url, waiting_for


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be busy: an answer may come late."""
    monkeypatch.setattr(fast_path, "BRIEF", 30.0)


@pytest.mark.usefixtures("patient")
async def test_a_lone_turn_is_written_by_whoever_asks(world: World) -> None:
    """Promise: the verdict is there at once, the same as through the lane: committed, fenced, and the end told."""
    holder = await world.held_run("r")
    await holder.commits()
    told: list[tuple[str, int]] = []
    world.store.subscribe(lambda run: told.append((run, threading.get_ident())))
    turn = holder.turn()
    verdict = world.store.commit_now(turn)
    assert isinstance(verdict, Committed)
    for again, expected in ((turn, Committed), (holder.turn(DONE), Fenced)):  # why not is said by way of the lane
        assert world.store.commit_now(again) is None
        [said] = await world.store.commit([again])
        assert isinstance(said, expected)
        assert said == verdict or expected is Fenced
    holder.accept(turn)
    assert isinstance(world.store.commit_now(holder.turn(DONE)), Committed)
    assert told == [("r", threading.get_ident())]
    await world.verify()


@pytest.mark.usefixtures("patient")
async def test_the_connection_for_turns_is_opened_when_a_worker_comes(world: World) -> None:
    """Promise: a worker that takes up runs after a restart does not wait for a connection at its first turn."""
    holder = await world.held_run("r")
    deadline = time.monotonic() + 30
    verdict = None
    while verdict is None and time.monotonic() < deadline:
        verdict = world.store.commit_now(holder.turn())
        await asyncio.sleep(0)
    assert isinstance(verdict, Committed)


async def test_what_warms_a_session_is_a_turn_of_no_run(world: World) -> None:
    """Promise: it fits the statement, or it would fail unseen at every start; and it writes nothing."""
    holder = await world.held_run("r")
    address = parse_address(world.store.url)
    link = Link(Dialler(address), Texts(address.quoted), writes_plainly=True)
    try:
        assert link.ask(COMMIT_PLAIN, wire.OF_NO_RUN) == []
    finally:
        link.drop()
    await holder.commits()
    await world.verify()


async def test_an_answer_that_does_not_come_at_once_is_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: the caller goes on, whatever the server does; the same turn through the lane is written once, and over
    the same connection."""
    holder, other = await world.held_run("r"), await world.held_run("other")
    await holder.commits()
    turn = holder.turn()
    await other.commits()
    monkeypatch.setattr(Dialler, "dial", _refused)
    with _locked(world, holder.no):
        for _ in range(3):
            assert world.store.commit_now(turn) is None
    await holder.submit(turn)
    await other.commits()
    monkeypatch.undo()
    assert [row.ordinal for row in await world.store.history("r")] == [1, 2, 3]
    await world.verify()


async def test_a_connection_lost_by_a_lone_turn_is_replaced(world: World) -> None:
    """Promise: whatever goes wrong is met again, and mended, by the lane."""
    holder = await world.held_run("r")
    await holder.commits()
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(_END_WRITERS, (parse_address(world.store.url).quoted,))
    turn = holder.turn()
    assert world.store.commit_now(turn) is None
    await holder.submit(turn)
    await world.verify()


async def test_a_run_that_is_adopted_while_it_ends_tells_its_watcher(world: World) -> None:
    """Promise: whoever adopts a run just before its end is told of it, though the turn that ends it had already seen
    that nobody waits, and stood before the lock on the run."""
    parent, child = await world.held_run("parent"), await world.held_run("child")
    await parent.commits(park=Park(None))
    await child.commits()
    with _locked(world, child.no) as connection:
        ending = asyncio.ensure_future(child.commits(DONE))
        async with asyncio.timeout(30):
            while not waiting_for(connection):  # noqa: ASYNC110 another connection stands before the lock
                await asyncio.sleep(0.01)
        adoptions = quoting.Identifier(parse_address(world.store.url).schema, "adoptions")
        adopt = quoting.SQL("INSERT INTO {} (run, watcher, key, message) VALUES (%s, 'parent', 'k', 'ended:k:1')")
        connection.execute(adopt.format(adoptions), (child.no,))
        runs = quoting.Identifier(parse_address(world.store.url).schema, "runs")
        connection.execute(quoting.SQL("UPDATE {} SET is_adopted = true WHERE no = %s").format(runs), (child.no,))
    await ending
    [told] = (await world.store.unread({parent.no: 0}))[parent.no]
    assert told.id == "ended:k:1"
    await world.verify()


def _refused(dialler: Dialler, patience: float) -> TimedConnection:
    raise StoreUnavailable("it need not connect again")


_END_WRITERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE position(%s IN query) > 0 AND pid <> pg_backend_pid()
"""


@contextmanager
def _locked(world: World, no: int) -> Generator[psycopg.Connection[Any]]:
    """Somebody else has the run's row; what they write is there when they let go."""
    table = quoting.Identifier(parse_address(world.store.url).schema, "runs")
    with psycopg.connect(server_url()) as connection:
        connection.execute(quoting.SQL("SELECT 1 FROM {} WHERE no = %s FOR UPDATE").format(table), (no,))
        yield connection


@pytest.mark.usefixtures("patient")
async def test_a_lone_start_is_written_by_whoever_asks(world: World) -> None:
    """Promise: one who comes alone needs no thread; several of one moment share a transaction; the id is unique."""
    await world.make("first")  # there is a connection from now on
    told: list[tuple[str, int]] = []
    world.store.subscribe(lambda run: told.append((run, threading.get_ident())))
    made = await world.make("r")
    assert made == await world.store.get("r")
    assert told == [("r", threading.get_ident())]
    assert isinstance(await world.create(world.new("r", "parcel")), Existing)
    await asyncio.gather(*(world.make(f"r{number}") for number in range(5)))
    assert {thread for _, thread in told[1:]} == {told[-1][1]} != {threading.get_ident()}
    await world.verify()


async def test_a_start_whose_answer_does_not_come_at_once_is_made_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: the same start through the lane finds its own run, and says that it was made by this call."""
    await world.make("first")
    monkeypatch.setattr(fast_path, "BRIEF", 0.0)
    for number in range(3):
        monkeypatch.setattr(fast_path, "PASSES", 0)
        await world.make(f"r{number}")
    assert {run.id for run in await world.runs()} == {"first", "r0", "r1", "r2"}
    await world.verify()


async def test_a_late_answer_is_never_taken_for_that_of_another_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: whoever starts a run of an id that is in use hears so, even if the very same start, of the same moment,
    made it, and however late the answer comes."""
    await world.make("first")
    monkeypatch.setattr(fast_path, "BRIEF", 0.0)
    monkeypatch.setattr(fast_path, "PASSES", 0)
    new = world.new("r")
    assert isinstance(await world.create(new), Made)
    for _ in range(3):
        assert isinstance(await world.create(new), Existing)
    several = await asyncio.gather(*(world.create(world.new("s")) for _ in range(5)), world.create(new))
    assert [type(one) for one in several].count(Made) == 1
    await world.verify()


async def test_a_start_that_breaks_is_not_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: whatever goes wrong on the way, whoever starts a run hears of it."""

    def breaks(*_: object) -> None:
        raise ValueError("what nobody thought of")

    monkeypatch.setattr(Entries, "now", breaks)
    with pytest.raises(ValueError, match="nobody thought of"):
        await world.create(world.new("r"))
