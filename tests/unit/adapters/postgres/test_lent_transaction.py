"""Transactions that are lent: what is asked of the server beside them, and how they end."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor, Future
from typing import Any

import psycopg
import pytest

from holdfast.adapters.postgres.connections import TimedConnection
from holdfast.ports.transactions import RolledBack
from holdfast.testing.conformance.world import World
from tests.chaos.stage import until
from tests.support.postgres import server_url


class Turn:
    """A lock that says when somebody waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_waited_for = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.is_waited_for.set()
            self._lock.acquire()

    def __exit__(self, *problem: object) -> None:
        self._lock.release()


class Late(Executor):
    """Does what it is asked when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def submit(self, work: Any, /, *args: Any, **options: Any) -> Future[Any]:
        self.asked.append(lambda: work(*args, **options))
        return Future()


async def test_a_loan_does_not_end_while_the_server_is_asked_to_give_up_its_statement(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: the request, however slow, is over before anybody else gets the connection: it could meet a statement of
    theirs."""
    transaction = await world.store.transact(is_async=False)
    turn, is_asked, goes_on = Turn(), threading.Event(), threading.Event()
    was_open: list[bool] = []

    def slowly(connection: TimedConnection, *, timeout: float) -> None:
        is_asked.set()
        assert goes_on.wait(30)
        was_open.append(transaction.is_open)

    monkeypatch.setattr(transaction, "_turn_to_end", turn)
    monkeypatch.setattr(TimedConnection, "cancel_safe", slowly)
    transaction.interrupt()
    await until(is_asked.is_set, "the server is asked")
    ending = asyncio.ensure_future(transaction.roll_back())
    await until(lambda: ending.done() or turn.is_waited_for.is_set(), "the loan has ended, or is to end")
    goes_on.set()
    await ending
    await until(lambda: bool(was_open), "the server was asked")
    assert was_open == [True]


async def test_the_server_is_not_asked_to_give_up_a_statement_after_the_loan(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: a request that comes late finds that there is nothing to ask for."""
    transaction = await world.store.transact(is_async=False)
    asked: list[TimedConnection] = []
    monkeypatch.setattr(TimedConnection, "cancel_safe", lambda connection, timeout: asked.append(connection))
    late = Late()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(transaction, "_threads", late)
        transaction.interrupt()
    await transaction.roll_back()
    [request] = late.asked
    request()
    assert asked == []


async def test_a_failed_statement_that_was_swallowed_is_told_at_the_end(world: World) -> None:
    """Promise: nothing is kept of such a transaction, and whoever settles it hears why."""
    transaction = await world.store.transact(is_async=False)
    with pytest.raises(psycopg.errors.DivisionByZero):
        transaction.connection.execute("SELECT 1 / 0")
    settled = await transaction.commit()
    assert isinstance(settled, RolledBack)
    assert "a statement of the transaction had failed" in str(settled.error)


async def test_a_loan_that_outlives_its_store_is_hung_up(world: World) -> None:
    """Promise: what a thread that was left gives up after the store was closed holds no lock on the server: its
    connection is closed."""
    transaction = await world.store.transact(is_async=False)
    (number,) = transaction.connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
    await world.store.close()
    transaction.give_up()
    assert not transaction.is_open
    with pytest.raises(psycopg.Error):
        transaction.connection.execute("SELECT 1")
    with psycopg.connect(server_url(), autocommit=True) as other:

        def is_gone() -> bool:
            asked = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
            return other.execute(asked, [number]).fetchone() is None

        await until(is_gone, "the server has noticed")
