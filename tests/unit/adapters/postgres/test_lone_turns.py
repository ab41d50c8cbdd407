"""A turn that could share its transaction with nobody: written without a thread in between, if the answer is quick."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql as quoting

from holdfast.adapters.postgres import turns
from holdfast.adapters.postgres.address import parse_address
from holdfast.adapters.postgres.dialling import Dialler, TimedConnection
from holdfast.errors import StoreUnavailable
from holdfast.ports.journal import Committed, Fenced, Park
from holdfast.testing.conformance.world import DONE, World
from tests.support.postgres import server_url


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be busy: an answer may come late."""
    monkeypatch.setattr(turns, "BRIEF", 30.0)


@pytest.mark.usefixtures("patient")
async def test_a_lone_turn_is_written_by_whoever_asks(world: World) -> None:
    """Promise: the verdict is there at once, the same as through the lane: committed, fenced, and the end told."""
    holder = await world.held_run("r")
    assert world.store.commit_now(holder.turn()) is None  # there is no connection for turns yet
    await holder.commits()
    told: list[tuple[str, int]] = []
    world.store.subscribe(lambda run: told.append((run, threading.get_ident())))
    turn = holder.turn()
    verdict = world.store.commit_now(turn)
    assert isinstance(verdict, Committed)
    assert world.store.commit_now(turn) == verdict
    assert isinstance(world.store.commit_now(holder.turn(DONE)), Fenced)
    holder.accept(turn)
    assert isinstance(world.store.commit_now(holder.turn(DONE)), Committed)
    assert told == [("r", threading.get_ident())]
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
        connection.execute(_END_WRITERS, (f"{parse_address(world.store.url).quoted}.commit_one",))
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
            while not _somebody_waits(connection):  # noqa: ASYNC110 another connection stands before the lock
                await asyncio.sleep(0.01)
        adoptions = quoting.Identifier(parse_address(world.store.url).schema, "adoptions")
        adopt = quoting.SQL("INSERT INTO {} (run, watcher, key, message) VALUES (%s, 'parent', 'k', 'ended:k:1')")
        connection.execute(adopt.format(adoptions), (child.no,))
    await ending
    [told] = (await world.store.unread({parent.no: 0}))[parent.no]
    assert told.id == "ended:k:1"
    await world.verify()


def _somebody_waits(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))"
    ).fetchone()
    return row is not None and bool(row[0])


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
