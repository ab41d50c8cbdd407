"""A transaction that is lent: begun on a connection of the store, used by the caller's code, ended here.

The borrower gets its own kind of connection object, async or not, around the connection that we opened. While the
borrower uses it we do not, and after the end the borrower's object is closed. Our own statements run on our object, in
a thread, so that one code serves both kinds.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.pq import PGconn, TransactionStatus
from psycopg.rows import tuple_row

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.connections import TimedConnection
from holdfast.adapters.postgres.lent_session import Engines, LentSession, is_session
from holdfast.adapters.postgres.link import PATIENCE, Link, Values
from holdfast.adapters.postgres.problems import is_lost, translated
from holdfast.adapters.postgres.server_questions import ask_knowing
from holdfast.adapters.postgres.statements import Texts
from holdfast.adapters.postgres.turns import question, verdict_of
from holdfast.errors import HoldfastError, NotAllowedHere, StoreError, StoreUnavailable
from holdfast.ports.facts import StoreTrouble
from holdfast.ports.journal import Commit, Committed, Fenced, Unread, Verdict
from holdfast.ports.telemetry import Tell
from holdfast.ports.transactions import RolledBack, Settlement

T = TypeVar("T")

NOT_THERE = 3
NOT_LENT = "HF002"
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
_NOWHERE = b"host=/nowhere"


class BlockingLoan(psycopg.Connection[tuple[Any, ...]]):
    """The connection that a `def` step is given."""

    woken: list[str]

    def commit(self) -> None:
        """Refused to the borrower."""
        _refuse("commit")

    def rollback(self) -> None:
        """Refused to the borrower."""
        _refuse("rollback")

    def close(self) -> None:
        """Refused to the borrower."""
        _refuse("close")


class AsyncLoan(psycopg.AsyncConnection[tuple[Any, ...]]):
    """The connection that an `async def` step is given."""

    woken: list[str]

    async def commit(self) -> None:
        """Refused to the borrower."""
        _refuse("commit")

    async def rollback(self) -> None:
        """Refused to the borrower."""
        _refuse("rollback")

    async def close(self) -> None:
        """Refused to the borrower."""
        _refuse("close")


Loan: TypeAlias = BlockingLoan | AsyncLoan


def _refuse(what: str) -> NoReturn:
    raise NotAllowedHere(
        f"{what}() on a transaction of Holdfast: it commits when its block or step ends, together with the "
        "journal, and rolls back if that raises. Use `connection.transaction()`: a savepoint."
    )


class _Inside:
    """Runs our statements in the open transaction, each under a savepoint, so that one that fails leaves the rest
    intact."""

    def __init__(self, connection: TimedConnection, texts: Texts) -> None:
        self._connection = connection
        self._texts = texts

    def ask(self, statement: str, values: Values = (), *, patience: float = PATIENCE) -> list[Any]:
        """Returns all rows. Never sent twice: when the connection is lost, so is the transaction."""
        self._connection.patience = patience
        try:
            self._connection.execute(self._texts[sql.SAVEPOINT])
            chosen = values(False) if callable(values) else values
            return self._connection.execute(self._texts[statement], chosen, binary=True).fetchall()
        except psycopg.Error as error:
            if not is_lost(error):
                self.undo()
            raise translated(error) from error

    def undo(self) -> None:
        """Takes back the last statement."""
        with suppress(psycopg.Error):
            self._connection.execute(self._texts[sql.UNDO])


class LentTransaction:
    """A `ports.transactions.OpenTransaction`, begun on `dialled`."""

    def __init__(
        self,
        dialled: TimedConnection,
        texts: Texts,
        moments: Moments,
        *,
        is_async: bool,
        threads: Executor,
        link: Callable[[], Link],
        tell: Callable[[Iterable[str]], None],
        report: Tell,
        give_back: Callable[[TimedConnection], None],
        is_closed: threading.Event,
        engines: Engines,
    ) -> None:
        self._dialled = dialled
        self._texts = texts
        self._moments = moments
        self._threads = threads
        self._link = link
        self._tell = tell
        self._give_back = give_back
        self._is_closed = is_closed
        self._report = report
        self._loan: Loan = AsyncLoan(dialled.pgconn, tuple_row) if is_async else BlockingLoan(dialled.pgconn, tuple_row)
        self._loan.prepare_threshold = None
        self._loan.woken = []
        self._is_async = is_async
        self._engines = engines
        self._session: LentSession | None = None
        self._is_open = True
        self._turn_to_end = threading.Lock()

    @property
    def connection(self) -> Loan:
        """See `ports.transactions`."""
        return self._loan

    @property
    def is_open(self) -> bool:
        """See `ports.transactions`."""
        return self._is_open

    def session(self, kind: type[Any]) -> Any:
        """See `ports.transactions`: SQLAlchemy's, one for each transaction."""
        if not is_session(kind):
            return None
        if self._session is None:
            self._session = self._engines.session(kind, self._loan, is_async=self._is_async)
        return self._session.given

    def finish(self) -> Awaitable[None] | None:
        """See `ports.transactions`."""
        return None if self._session is None else self._session.finish()

    async def commit(self, turn: Commit | None = None) -> Settlement:
        """See `ports.transactions`."""
        return await self._off_the_loop(lambda: self._alone(lambda: self._commit(turn)))

    async def roll_back(self) -> None:
        """See `ports.transactions`."""
        await self._off_the_loop(lambda: self._alone(self._roll_back))

    def give_up(self) -> None:
        """See `ports.transactions`."""
        try:
            self._threads.submit(self._alone, self._roll_back)
        except RuntimeError:  # the store was closed, and its threads with it
            self._alone(self._hang_up)

    def interrupt(self) -> None:
        """See `ports.transactions`."""
        if self._is_open:
            with suppress(RuntimeError):
                self._threads.submit(self._alone, self._cancel)

    async def _off_the_loop(self, work: Callable[[], T]) -> T:
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._threads, work))

    def _alone(self, work: Callable[[], T]) -> T:
        with self._turn_to_end:
            return work()

    # -- in a thread ---------------------------------------------------------------------------------------------------

    def _cancel(self) -> None:
        if not self._is_open:  # the connection now runs something else
            return
        with suppress(psycopg.Error):
            self._dialled.cancel_safe(timeout=5)

    def _roll_back(self) -> None:
        if not self._is_open:
            return
        status = self._dialled.pgconn.transaction_status
        try:
            if status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
                self._dialled.patience = PATIENCE
                self._dialled.execute(self._texts[sql.ROLLBACK])
            else:  # in the middle of an answer: the rest is never read
                self._dialled.close()
        except psycopg.Error:
            self._dialled.close()  # the server rolls back when it notices
        self._end()

    def _hang_up(self) -> None:
        """The server rolls back when it notices."""
        if self._is_open:
            self._dialled.close()
            self._end()

    def _commit(self, turn: Commit | None) -> Settlement:
        if not self._is_open:
            raise StoreUnavailable("this transaction is over.")
        if self._dialled.pgconn.transaction_status == TransactionStatus.IDLE:
            self._end()
            return RolledBack(_ended_by_borrower())
        hints: Iterable[str] = ()
        verdict: Verdict = Committed(0, 0)
        if turn is not None:
            try:
                verdict, hints = self._turn(turn)
            except HoldfastError as error:
                self._roll_back()
                return RolledBack(_problem(error))
            if isinstance(verdict, Unread):
                return verdict
            if isinstance(verdict, Fenced):
                self._roll_back()
                return verdict
        try:
            self._dialled.execute(self._texts[sql.COMMIT], ())  # as if with values: the schema's name is escaped
        except psycopg.Error as error:
            return self._not_committed(turn, error)
        woken = [*self._loan.woken, *hints]
        self._end()
        self._tell(dict.fromkeys(woken))
        return verdict

    def _turn(self, turn: Commit) -> tuple[Verdict, Iterable[str]]:
        inside = _Inside(self._dialled, self._texts)
        _, values = question([turn])
        ((code, first, second, hints),), _ = ask_knowing(
            inside, sql.COMMIT_WITHIN, lambda _, known: (self._moments.wall(), *values, known), [turn]
        )
        verdict = verdict_of(code, first, second)
        if not isinstance(verdict, Committed):
            inside.undo()
        return verdict, hints or ()

    def _not_committed(self, turn: Commit | None, error: psycopg.Error) -> Settlement:
        if not is_lost(error):
            self._roll_back()
            return RolledBack(_refusal(error))
        self._dialled.close()
        self._end()
        return RolledBack(error) if turn is None else self._found_out(turn, error)

    def _found_out(self, turn: Commit, error: psycopg.Error) -> Settlement:
        """COMMIT was sent and its answer was lost: the journal shows the outcome once the run's lock is free."""
        row = turn.row
        link = self._link()
        pause = FIRST_PAUSE
        try:
            while True:
                try:
                    values = (turn.no, row.epoch, row.ordinal, row.checksum)
                    ((code, first, second),) = link.ask(sql.OUTCOME_OF, values)
                except StoreError as problem:
                    self._report(StoreTrouble("a transaction was not answered, asking again", problem, run=row.run))
                    if self._is_closed.wait(pause * random.uniform(0.5, 1)):
                        raise
                    pause = min(pause * 2, LONGEST_PAUSE)
                else:
                    return RolledBack(error) if code == NOT_THERE else verdict_of(code, first, second)
        finally:
            link.drop()

    def _end(self) -> None:
        """Disconnects what the borrower still holds."""
        self._is_open = False
        if self._session is not None:
            self._session.close()
        self._loan.pgconn = PGconn.connect(_NOWHERE)
        self._give_back(self._dialled)


def _refusal(error: psycopg.Error) -> Exception:
    """Why the server did not commit: the driver's error, unless we know more."""
    if isinstance(error, pg.InFailedSqlTransaction):  # and the borrower went on
        return StoreError("a statement of the transaction had failed, so nothing of it was kept.")
    return _ended_by_borrower() if error.sqlstate == NOT_LENT else error


def _ended_by_borrower() -> NotAllowedHere:
    return NotAllowedHere(
        "the transaction was ended by the code that borrowed it. Only what that code committed itself was kept, and "
        "nothing of the journal. It commits when its block or step ends, together with the journal: leave out COMMIT "
        "and ROLLBACK, and use `connection.transaction()` (a savepoint) around what may fail."
    )


def _problem(error: HoldfastError) -> Exception:
    """The error that the author sees: the driver's own if there is one."""
    cause = error.__cause__
    return cause if isinstance(cause, psycopg.Error) and not is_lost(cause) else error
