"""One connection that can be replaced, and the questions asked over it. Used by one thread at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import psycopg
from psycopg import generators
from psycopg.pq import TransactionStatus

from holdfast.adapters.postgres.dialling import Dialler, TimedConnection
from holdfast.adapters.postgres.problems import WORTH_ANOTHER_TRY, is_lost, translated
from holdfast.adapters.postgres.statements import Texts

PATIENCE = 7.0
"""Seconds an answer is waited for: less than half of the default lease."""

Values: TypeAlias = Sequence[Any] | Callable[[bool], Sequence[Any]]

_TRIES = 4


class Link:
    """Asks; opens its connection when needed, throws it away when it breaks."""

    def __init__(self, dialler: Dialler, texts: Texts, connection: TimedConnection | None = None) -> None:
        self._dialler = dialler
        self._texts = texts
        self._connection = connection
        self.is_again: bool = False
        """An earlier try of the question under way may have been carried out: its answer was lost."""
        self._owes_answer = False  # to a question that nobody waits for any more

    def ask(
        self, statement: str, values: Values = (), *, patience: float = PATIENCE, bears_repeating: bool = True
    ) -> list[Any]:
        """All rows. A lost connection or a deadlock is met by asking the same again, so the question must bear that;
        values that depend on `is_again` are made for each try. If it does not, whoever asked hears of a lost answer."""
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

    def ask_briefly(self, statement: str, values: Sequence[Any], seconds: float) -> list[Any] | None:
        """All rows if they come within so many seconds, and if there is a connection. None: nobody knows what became of
        the question. It is not taken back; its answer is passed over before the next question."""
        connection = self._connection
        if connection is None or connection.closed or self._owes_answer:
            return None
        connection.patience = seconds
        try:
            return connection.execute(self._texts[statement], values, binary=True).fetchall()
        except psycopg.Error:
            self._owes_answer = connection.pgconn.transaction_status == TransactionStatus.ACTIVE
            return None  # whatever it was, `ask` meets it again

    def connected(self, patience: float = PATIENCE) -> TimedConnection:
        """The connection, opened if there is none."""
        if self._connection is None or self._connection.closed:
            self._connection = self._dialler.dial(patience)
        return self._connection

    def drop(self) -> None:
        """Closes it; the next question opens another."""
        self._owes_answer = False
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _once(self, statement: str, values: Sequence[Any], patience: float) -> list[Any]:
        connection = self.connected(patience)
        connection.patience = patience
        if self._owes_answer:
            connection.wait(generators.execute(connection.pgconn))
            self._owes_answer = False
        return connection.execute(self._texts[statement], values, binary=True).fetchall()
