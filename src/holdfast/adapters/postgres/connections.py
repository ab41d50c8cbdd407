"""Connections: how one is opened, how long that may take, and how often it is tried.

A dialler belongs to one store. After a failed attempt no thread of this process tries again for about half a second, so
that a server that comes back is not flooded.

Each connection is checked once. A standby is refused. The check also detects a pooler: a direct session keeps settings
and prepared statements, a pooled one keeps nothing between transactions.

All statements rely on READ COMMITTED: a statement sees what was committed while the one before it waited for a lock. A
role may prefer another isolation elsewhere; direct sessions set this one.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import generators
from psycopg.adapt import Transformer
from psycopg.errors import DuplicatePreparedStatement, error_from_result
from psycopg.pq import ExecStatus

from holdfast.adapters.postgres.address import Address
from holdfast.adapters.postgres.binary import Statement
from holdfast.adapters.postgres.problems import advice, first_line
from holdfast.errors import StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    from psycopg.abc import PQGen

T = TypeVar("T")

LEAST_PAUSE, MOST_PAUSE = 0.5, 0.75
LEAST_PATIENCE = 1.0
OLDEST_SERVER = 140000

PREPARED_AFTER = 2
"""How often a statement is sent before it is prepared, which costs a round trip."""

# recovery: whether this server may be written at all, and what else must be known of it. The process that answers is
# the one whose number was told at the beginning, or there is a pooler: these tell numbers of their own.
SERVER = b"""
SELECT pg_is_in_recovery(), current_setting('server_version_num')::int,
    current_setting('default_transaction_isolation'), current_setting('fsync'), current_setting('synchronous_commit'),
    pg_backend_pid()
"""
ISOLATION = "read committed"
SET_ISOLATION = b"SET default_transaction_isolation = 'read committed'"


class TimedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that stops waiting for an answer after a time limit: a broken network may never report an error."""

    patience: float = 3.0
    """Seconds to wait for an answer. Short until the user of the connection sets it, since other threads wait for their
    turn."""
    is_ours: bool = False
    """Whether the session is direct, without a pooler."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._asked: dict[bytes, int] = {}
        self._reading = Transformer()

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Waits as psycopg does, but with a time limit."""
        return super().wait(gen, interval, self.patience if timeout is None else timeout)

    def ask(self, statement: Statement, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Returns all rows. Like `execute`, for frequent statements: without a cursor, and prepared if the session is
        direct."""
        if self.closed:
            raise psycopg.OperationalError("the connection is closed")
        encoded = statement.encoded(values)
        if self._is_prepared(statement):
            self.pgconn.send_query_prepared(statement.name, encoded, statement.formats, 1)
        else:
            self.pgconn.send_query_params(statement.text, encoded, None, statement.formats, 1)
        return self.answer()

    def _is_prepared(self, statement: Statement) -> bool:
        if not self.is_ours:
            return False
        times = self._asked[statement.name] = self._asked.get(statement.name, -1) + 1
        if times == PREPARED_AFTER:
            self.pgconn.send_prepare(statement.name, statement.text)
            try:
                self.answer()
            except DuplicatePreparedStatement:
                pass  # under this name there is this text
            except psycopg.Error:
                del self._asked[statement.name]
                raise
        return times >= PREPARED_AFTER

    def answer(self) -> list[tuple[Any, ...]]:
        """All rows of the statement that was sent last."""
        result = self.wait(generators.execute(self.pgconn))[-1]
        if result.status == ExecStatus.TUPLES_OK:
            self._reading.set_pgresult(result)
            return self._reading.load_rows(0, result.ntuples, tuple)
        if result.status == ExecStatus.COMMAND_OK:
            return []
        raise error_from_result(result)


class Dialler:
    """Opens connections to one address. Usable from any thread."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._servers = address.servers  # those that failed last are the last
        self._turn = threading.Lock()
        self._not_before = 0.0
        self._problem = ""
        self.attempts: int = 0
        self.server: tuple[Any, ...] = ()

    def dial(self, patience: float) -> TimedConnection:
        """A new connection to the primary. Raises `StoreUnavailable` if there is none in that time."""
        deadline = time.monotonic() + patience
        if not self._turn.acquire(timeout=max(patience, 0)):
            raise self._unavailable()
        try:
            pause = self._not_before - time.monotonic()
            if pause > 0:
                if time.monotonic() + pause > deadline:
                    raise self._unavailable()
                time.sleep(pause)
            return self._attempt(deadline)
        finally:
            self._turn.release()

    def _attempt(self, deadline: float) -> TimedConnection:
        self.attempts += 1
        connection = self._connected(deadline)
        connection.patience = min(connection.patience, max(deadline - time.monotonic(), LEAST_PATIENCE))
        try:
            refusal = self._checked(connection)
        except psycopg.Error as error:
            connection.close()
            self._failed(first_line(error))
            raise self._unavailable() from None
        if refusal:
            connection.close()
            self._failed(refusal)
            raise StoreRefused(f"cannot open the store {self._address.url}: {refusal}")
        self._not_before = 0.0
        return connection

    def _connected(self, deadline: float) -> TimedConnection:
        """Connects to the first server that accepts."""
        for _ in self._servers:
            try:
                return TimedConnection.connect(autocommit=True, prepare_threshold=None, **self._servers[0])
            except psycopg.OperationalError as error:
                self._failed(first_line(error))
            if time.monotonic() >= deadline:
                break
        raise self._unavailable()  # without the cause: it may name more than people should see

    def _checked(self, connection: TimedConnection) -> str:
        """Returns why this connection is unusable, or None. Detects a pooler, and configures direct sessions."""
        (self.server,) = connection.execute(SERVER, binary=True).fetchall()
        is_standby, _, isolation, *_, process = self.server
        if is_standby:
            return (
                "this server is a standby, which cannot be written. Use the address of the primary, or name all "
                "servers: postgresql://a,b,c/database."
            )
        connection.is_ours = process == connection.info.backend_pid
        if isolation != ISOLATION and not connection.is_ours:
            return (
                f"transactions there are {isolation!r} by default. Holdfast needs {ISOLATION!r} and cannot set it "
                f"behind a pooler. Set it on the server (ALTER ROLE {connection.info.user} SET "
                f"default_transaction_isolation = {ISOLATION!r}), and restart the pooler's connections."
            )
        if isolation != ISOLATION:
            connection.execute(SET_ISOLATION)
        return ""

    def _failed(self, problem: str) -> None:
        """Delays the next attempt of this process; threads that wait meanwhile are told why. This server is asked last
        from now on, so that only one thread waits for a silent one."""
        self._servers = [*self._servers[1:], self._servers[0]]
        self._not_before = time.monotonic() + random.uniform(LEAST_PAUSE, MOST_PAUSE)
        self._problem = problem

    def _unavailable(self) -> StoreUnavailable:
        why = self._problem or "other threads are still connecting"
        told = advice(why)
        return StoreUnavailable(f"no connection to the store {self._address.url}: {why}{told and '. ' + told}")
