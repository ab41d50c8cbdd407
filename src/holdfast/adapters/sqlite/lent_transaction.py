"""A transaction that is lent: the caller's code uses the writer's place, on a separate connection.

::

    transact() ──▶ the writer's queue ──▶ writer thread: BEGIN, then waits ──▶ commit(turn) or roll_back() ──▶ the end

SQLite has one writer. So the loan waits its turn like any other write, and while it lasts every writer here waits in
the queue, without polling. The writer's thread begins and ends the transaction; in between only the borrower uses the
connection, which is closed at the end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import apsw

from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.attempt import Hints
from holdfast.adapters.sqlite.board import Board
from holdfast.adapters.sqlite.connections import (
    begin,
    disk_full,
    fetch,
    is_out_of_room,
    is_transient,
    roll_back,
    run,
    translated,
    until_free,
)
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.adapters.sqlite.turns import commit_turn
from holdfast.errors import NotAllowedHere, StoreError, StoreUnavailable
from holdfast.ports.clock import Clock
from holdfast.ports.journal import Commit, Committed, Fenced, Unread, Verdict
from holdfast.ports.transactions import RolledBack, Settlement

_TRIES = 5000
"""Milliseconds in which a connection that is still in use can be closed."""


class _Order:
    """What the borrower asks for. Without `answer` the borrower does not wait."""

    __slots__ = ("answer", "is_commit", "turn")

    def __init__(self, answer: asyncio.Future[Any] | None, *, is_commit: bool = False, turn: Commit | None = None):
        self.answer = answer
        self.is_commit = is_commit
        self.turn = turn


class LentTransaction:
    """A `ports.transactions.OpenTransaction`."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        clock: Clock,
        on_commit: Callable[[Hints], None],
        granted: asyncio.Future[None],
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._on_commit = on_commit
        self._granted = granted
        self._orders: SimpleQueue[_Order] = SimpleQueue()
        self._connection: apsw.Connection | None = None
        self._transaction: Transaction | None = None
        self._may_end = False
        self._was_ended = False
        self._is_open = False

    @property
    def connection(self) -> apsw.Connection:
        """See `ports.transactions`."""
        assert self._connection is not None
        return self._connection

    @property
    def transaction(self) -> Transaction:
        """The transaction for operations of the store."""
        if self._transaction is None or self._was_ended:
            raise _ended_by_borrower()
        return self._transaction

    @property
    def is_open(self) -> bool:
        """See `ports.transactions`."""
        return self._is_open

    def session(self, kind: type[Any]) -> None:
        """See `ports.transactions`: refused for SQLAlchemy's."""
        if any(base.__module__.partition(".")[0] == "sqlalchemy" for base in kind.__mro__):
            raise NotAllowedHere(
                f"transaction({kind.__qualname__}) on SQLite: SQLAlchemy uses the standard library's sqlite3, another "
                "copy of SQLite, which cannot take part in this transaction. Use transaction(apsw.Connection), or keep "
                "the journal in PostgreSQL."
            )

    def finish(self) -> None:
        """See `ports.transactions`: there are no sessions."""

    async def commit(self, turn: Commit | None = None) -> Settlement:
        """See `ports.transactions`."""
        if not self._is_open:
            raise StoreUnavailable("this transaction is over.")
        answer: asyncio.Future[Settlement] = asyncio.get_running_loop().create_future()
        self._orders.put(_Order(answer, is_commit=True, turn=turn))
        return await asyncio.shield(answer)

    async def roll_back(self) -> None:
        """See `ports.transactions`."""
        if self._is_open:
            answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._orders.put(_Order(answer))
            await asyncio.shield(answer)

    def give_up(self) -> None:
        """See `ports.transactions`; also before it has begun."""
        self._orders.put(_Order(None))

    def interrupt(self) -> None:
        """See `ports.transactions`."""
        connection = self._connection
        if self._is_open and connection is not None:
            with suppress(apsw.Error):
                connection.interrupt()

    # -- on the writer's thread ----------------------------------------------------------------------------------------

    def serve(self, board: Board) -> None:
        """Serves the loan from beginning to end. Blocks for as long as the borrower takes."""
        try:
            connection = self._connection = until_free(self._connect)
            begin(connection, board)
        except Exception as error:  # noqa: BLE001 - the waiting caller gets it
            self._close()
            _tell(self._granted, translated(error))
            return
        self._transaction = Transaction(connection, self._clock)
        connection.set_commit_hook(lambda: not self._may_end)  # True turns a COMMIT into a rollback
        connection.set_rollback_hook(self._note_end)
        self._is_open = True
        if not _tell(self._granted, None, unwanted=self.give_up):
            self.give_up()
        order = self._orders.get()
        answer: Any = self._answered(order)
        while isinstance(answer, Unread):
            _tell(order.answer, answer)
            order = self._orders.get()
            answer = self._answered(order)
        self._is_open = False
        self._close()
        if isinstance(answer, Committed):
            self._on_commit(self._transaction.hints)
        _tell(order.answer, answer)
        while not self._orders.empty():  # a caller gave up at the same moment
            _tell(self._orders.get().answer, None)

    def _note_end(self) -> None:
        self._was_ended = True

    def _answered(self, order: _Order) -> Settlement | StoreUnavailable | None:
        connection = self.connection
        try:
            if not order.is_commit:
                roll_back(connection)
                return None
            return self._committed(order.turn)
        except Exception as error:  # noqa: BLE001 - the waiting caller gets it
            with suppress(apsw.Error):
                roll_back(connection)
            return RolledBack(error)

    def _committed(self, turn: Commit | None) -> Settlement | StoreUnavailable:
        connection = self.connection
        if self._was_ended:  # and another begun, perhaps
            roll_back(connection)
            return RolledBack(_ended_by_borrower())
        verdict: Verdict = Committed(0, 0)
        if turn is not None:
            epoch, ordinal, *_ = self.transaction.row(sql.FENCE, (turn.no,)) or (0, 0)
            if (epoch, ordinal) != (turn.row.epoch, turn.row.ordinal):  # also if it is stored: these writes are not
                roll_back(connection)
                return Fenced(epoch, ordinal)
            verdict = commit_turn(self.transaction, turn)
            if not isinstance(verdict, Committed):
                return verdict
        self._may_end = True
        try:
            run(connection, sql.COMMIT)
        except apsw.Error as error:
            return self._not_committed(turn, error)
        return verdict

    def _not_committed(self, turn: Commit | None, error: apsw.Error) -> Settlement | StoreUnavailable:
        connection = self.connection
        if is_out_of_room(error, connection):
            return RolledBack(disk_full(error))
        if not is_transient(error) or turn is None:
            return RolledBack(error)
        return self._found_out(turn, error)

    def _found_out(self, turn: Commit, error: apsw.Error) -> Settlement | StoreUnavailable:
        """COMMIT may have been carried out. This connection may believe what the disk forgot, so another one reads the
        outcome. While the file cannot be read the answer is unknown and this waits, unless the store is closed."""
        row = turn.row
        while True:
            self._close()
            try:
                connection = self._connection = until_free(self._connect)
                stored = fetch(connection, sql.STORED_TURN, (turn.no, row.ordinal))
            except (apsw.Error, StoreError) as problem:
                if not self._orders.empty():
                    return StoreUnavailable(f"the outcome of a transaction cannot be read ({problem}).")
                time.sleep(0.05)
            else:
                if stored and stored[0][1:] == (row.epoch, row.checksum):
                    return Committed(stored[0][0], 0)
                return RolledBack(translated(error))

    def _close(self) -> None:
        """Closes the connection, even if a thread whose time is up still uses it: its statement is interrupted, and its
        next use fails."""
        connection = self._connection
        if connection is None:
            return
        for _ in range(_TRIES):
            try:
                connection.close(force=True)
            except apsw.Error:
                connection.interrupt()
                time.sleep(0.001)
            else:
                return


def _tell(future: asyncio.Future[Any] | None, answer: object, *, unwanted: Callable[[], None] = lambda: None) -> bool:
    """Answers on the waiter's loop. Returns False if that loop is gone."""

    def tell() -> None:
        assert future is not None
        if future.done():
            unwanted()
        elif isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    if future is None:
        return True
    try:
        future.get_loop().call_soon_threadsafe(tell)
    except RuntimeError:
        return False
    return True


def _ended_by_borrower() -> NotAllowedHere:
    return NotAllowedHere(
        "the transaction was ended by the code that borrowed it, or by an error of SQLite. Nothing of it was kept. It "
        "commits when its block or step ends, together with the journal: leave out COMMIT and ROLLBACK, and use "
        "`with connection:` (a savepoint) around what may fail."
    )
