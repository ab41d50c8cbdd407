"""Connections that tests hand from one store to the next are as good as new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from holdfast.adapters.postgres.address import parse_address
from holdfast.adapters.postgres.binary import Statement
from holdfast.adapters.postgres.connections import PREPARED_AFTER, Dialler, TimedConnection
from tests.support.kept_connections import connections_kept, end_kept
from tests.support.postgres import server_url

pytestmark = pytest.mark.server
ONE = Statement("one", "SELECT 1", "kept")
LOCKS = b"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"


Dial = Callable[[], TimedConnection]


@pytest.fixture
def dial() -> Iterator[Dial]:
    """Opens a connection as a store does. None is kept from before, and none afterwards."""
    dialled: list[TimedConnection] = []

    def opened() -> TimedConnection:
        dialled.append(Dialler(parse_address(server_url("kept"))).dial(patience=10))
        return dialled[-1]

    end_kept()
    with connections_kept():
        yield opened
    for connection in dialled:
        connection.close()
    end_kept()


def test_the_next_store_gets_the_session_of_the_last(dial: Dial) -> None:
    """Promise: a session is opened once."""
    first = dial()
    session = first.info.backend_pid
    first.close()
    assert dial().info.backend_pid == session


def test_two_who_use_one_at_the_same_time_have_two(dial: Dial) -> None:
    """Promise: a session that is in use is nobody else's."""
    first, second = dial(), dial()
    assert first.info.backend_pid != second.info.backend_pid


def test_nothing_of_the_last_user_is_left(dial: Dial) -> None:
    """Promise: settings, locks and channels of a session end with the store that used it."""
    first = dial()
    first.execute("SET lock_timeout = '7s'")
    first.execute("LISTEN somewhere")
    first.execute("SELECT pg_advisory_lock(7)")
    first.close()
    again = dial()
    assert again.execute("SHOW lock_timeout").fetchall() == [("0",)]
    assert again.execute("SELECT pg_listening_channels()").fetchall() == []
    assert again.execute(LOCKS).fetchall() == [(0,)]


def test_what_was_discarded_is_prepared_again(dial: Dial) -> None:
    """Promise: a connection knows which statements its session has."""
    first = dial()
    for _ in range(PREPARED_AFTER + 1):
        first.ask(ONE, ())
    first.execute("DISCARD ALL")
    first.close()
    again = dial()
    assert [again.ask(ONE, ()) for _ in range(PREPARED_AFTER + 2)] == [[(1,)]] * (PREPARED_AFTER + 2)


def test_one_in_the_middle_of_a_transaction_is_closed(dial: Dial) -> None:
    """Promise: what was not committed is not handed on."""
    first = dial()
    first.execute("BEGIN")
    first.close()
    assert first.closed
    assert not dial().closed


def test_one_that_was_lost_meanwhile_is_replaced(dial: Dial) -> None:
    """Promise: whoever connects gets a session that answers."""
    first = dial()
    session = first.info.backend_pid
    first.close()
    with psycopg.connect(server_url(), autocommit=True) as killer:
        killer.execute("SELECT pg_terminate_backend(%s, 10000)", (session,))
    assert dial().execute("SELECT 1").fetchall() == [(1,)]
