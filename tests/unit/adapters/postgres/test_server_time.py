"""The server's time, as leases and timers are judged by it: it goes on while a transaction is open."""

from __future__ import annotations

import time

import psycopg
import pytest
from psycopg import sql as quoting

from holdfast.adapters.postgres import open_postgres
from holdfast.adapters.postgres.clock import ServerClock
from holdfast.core.turn import micros
from tests.support.postgres import new_schema, server_url


async def test_time_goes_on_inside_a_transaction() -> None:
    """Contract (R3): a statement that waited for a lock is judged by when it got it, not by when it began to wait."""
    url, schema = server_url(), new_schema()
    store = await open_postgres(f"{url}?schema={schema}&notices=off")
    try:
        async with await psycopg.AsyncConnection.connect(url) as connection, connection.transaction():
            now = quoting.SQL("SELECT {}._now(NULL)").format(quoting.Identifier(schema))
            first = await (await connection.execute(now)).fetchone()
            second = await (await connection.execute(now)).fetchone()
        assert first is not None
        assert second is not None
        assert second[0] > first[0]
    finally:
        await store.close()


SECOND = 1_000_000


def error_after(clock: ServerClock, at: int, *, there: int, back: int, ahead: int = 100 * SECOND) -> int:
    """The server, whose clock is so many µs ahead of ours, was asked at `at` and answered: the question was on its way
    for `there`, the answer for `back`. How far the estimate is then ahead of the server."""
    answered = at + there + back
    clock.saw(at + there + ahead, at * 1000, answered * 1000)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "monotonic_ns", lambda: answered * 1000)
        return micros(clock.now()) - (answered + ahead)


def test_the_estimate_is_not_ahead_of_the_server() -> None:
    """Contract: however slow an answer was, and wherever it was slow, no moment is taken for come before it is on the
    server: else a run that is started now would be put off until then. The best answer so far is remembered."""
    clock = ServerClock()
    assert error_after(clock, 0, there=500, back=20_000) == -20_000
    assert error_after(clock, SECOND, there=20_000, back=300) == -300
    assert error_after(clock, 2 * SECOND, there=300, back=40_000) == -300


def test_a_server_whose_clock_was_set_is_believed() -> None:
    """Contract: set forwards or backwards, the next answer brings the estimate to within its own round trip."""
    clock = ServerClock()
    error_after(clock, 0, there=300, back=300)
    assert error_after(clock, SECOND, there=300, back=300, ahead=9 * SECOND) == 300
    assert error_after(clock, 2 * SECOND, there=300, back=300, ahead=900 * SECOND) == -300
