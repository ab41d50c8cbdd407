"""One connection that is replaced when it breaks, and the statements sent over it. Used by one thread at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from holdfast.adapters.postgres.connections import Dialler, TimedConnection
from holdfast.adapters.postgres.problems import WORTH_ANOTHER_TRY, is_lost, translated
from holdfast.adapters.postgres.statements import LOCK_TIMEOUT, NOTHING, Texts

PATIENCE = 7.0
"""Seconds to wait for an answer: less than half of the default lease."""

LONG = 30.0
"""Seconds to wait for an answer that is large or reads many rows."""

T = TypeVar("T")
Values: TypeAlias = Sequence[Any] | Callable[[bool], Sequence[Any]]

_TRIES = 4


class Owed:
    """A late answer: its rows, once they are read. Stays None if it is lost."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: list[Any] | None = None


class Link:
    """Sends statements. Opens its connection when needed and drops it when it breaks."""

    def __init__(
        self, dialler: Dialler, texts: Texts, connection: TimedConnection | None = None, *, writes_plainly: bool = False
    ) -> None:
        self._dialler = dialler
        self._writes_plainly = writes_plainly
        self._texts = texts
        self._connection = connection
        self.is_again: bool = False
        """Whether an earlier try of the current statement may have been carried out: its answer was lost."""
        self._owed: Owed | None = None

    def ask(
        self, statement: str, values: Values = (), *, patience: float = PATIENCE, bears_repeating: bool = True
    ) -> list[Any]:
        """Returns all rows. After a lost connection or a deadlock it sends the statement again if the statement allows
        that; values that depend on `is_again` are made for each try. Otherwise the caller learns that the answer was
        lost."""
        self.is_again = False
        deadline = time.monotonic() + patience
        tries = _TRIES
        while True:
            tries -= 1
            left = deadline - time.monotonic()
            try:
                chosen = values(self.is_again) if callable(values) else values
                return self._once(statement, chosen, max(left, 0.1))
            except psycopg.Error as error:
                if is_lost(error):
                    self.drop()
                    self.is_again = True
                elif not isinstance(error, WORTH_ANOTHER_TRY):
                    raise translated(error) from error
                is_unknown = self.is_again and not bears_repeating
                if is_unknown or tries <= 0 or time.monotonic() >= deadline:
                    raise translated(error) from error

    def transact(self, work: Callable[[Callable[[str, Sequence[Any]], list[Any]]], T]) -> T:
        """Runs `work` in one transaction, giving it a function that sends statements. After a lost connection or a
        deadlock it runs all of it again, so `work` must be repeatable."""
        deadline = time.monotonic() + PATIENCE
        for tries in range(_TRIES, 0, -1):
            try:
                connection = self.connected()
                connection.patience = max(deadline - time.monotonic(), 0.1)
                with connection.transaction():
                    return work(partial(self._put, connection))
            except psycopg.Error as error:
                if is_lost(error):
                    self.drop()
                elif not isinstance(error, WORTH_ANOTHER_TRY):
                    raise translated(error) from error
                if tries == 1 or time.monotonic() >= deadline:
                    raise translated(error) from error
        raise AssertionError("a try ends in one of the ways above")

    def ask_briefly(self, statement: str, values: Sequence[Any], seconds: float) -> list[Any] | Owed | None:
        """Returns all rows if they arrive within `seconds`. Otherwise the statement stands, and its answer is read
        before the next statement is sent. None: there is no connection, so nothing was sent."""
        connection = self._connection
        if connection is None or connection.closed or self._owed is not None:
            return None
        connection.patience = seconds
        try:
            return self._put(connection, statement, values)
        except psycopg.Error:
            owed = Owed()
            if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self._owed = owed
            return owed  # whatever it was, `ask` meets it again

    def settle(self, owed: Owed) -> None:
        """Reads the owed answer, if there is one."""
        if self._owed is owed:
            self.ask(NOTHING)

    @property
    def takes_plain(self) -> bool:
        """Whether writing statements may be sent directly: only in a direct session, which has its lock timeout set.
        Functions set it themselves, and are used everywhere else."""
        connection = self._connection
        return self._writes_plainly and connection is not None and connection.is_ours

    def connected(self, patience: float = PATIENCE) -> TimedConnection:
        """The connection, opened if there is none."""
        if self._connection is None or self._connection.closed:
            self._connection = self._dialler.dial(patience)
            if self.takes_plain:
                self._connection.execute(self._texts[LOCK_TIMEOUT])
        return self._connection

    def drop(self) -> None:
        """Closes the connection; the next statement opens another."""
        self._owed = None
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _once(self, statement: str, values: Sequence[Any], patience: float) -> list[Any]:
        connection = self.connected(patience)
        connection.patience = patience
        if self._owed is not None:
            try:
                self._owed.rows = connection.answer()
            except psycopg.Error as error:
                if is_lost(error):
                    raise
            self._owed = None
        return self._put(connection, statement, values)

    def _put(self, connection: TimedConnection, statement: str, values: Sequence[Any]) -> list[Any]:
        often = self._texts.often(statement)
        if often is not None:
            return connection.ask(often, values)
        return connection.execute(self._texts[statement], values, binary=True).fetchall()
