"""Connections that outlive the store which opened them, for tests about what a store does and not how it connects.

A new session of PostgreSQL starts with empty caches. New sessions for each case cost the server about as much as the
cases themselves. So a connection that a store closes is reset and kept for the next store of this process. One that
is lost, or in the middle of something, is closed as always.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, Self

import psycopg
from psycopg.pq import TransactionStatus

from holdfast.adapters.postgres import connections
from holdfast.adapters.postgres.connections import TimedConnection

RESET = b"RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all()"
"""What a session keeps beyond a transaction, but for what makes it cheap: its caches and prepared statements."""
PREPARED = b"SELECT name FROM pg_prepared_statements"


class KeptConnection(TimedConnection):
    """As `TimedConnection`, but `close` may keep it for a later `connect` with the same words."""

    _words: tuple[tuple[str, str], ...] = ()

    @classmethod
    def connect(cls, *args: Any, **named: Any) -> Self:
        """One that was kept and still answers, or a new one."""
        words = tuple(sorted((name, repr(value)) for name, value in named.items()))
        spare = _spare(words)
        while spare:
            kept = spare.pop()
            if isinstance(kept, cls) and kept._is_reset():
                return kept
        made = super().connect(*args, **named)
        made._words = words
        return made

    def close(self) -> None:
        """Kept if nothing is under way, else closed."""
        if self._words and not self.closed and self.pgconn.transaction_status == TransactionStatus.IDLE:
            _spare(self._words).append(self)
        else:
            super().close()

    def end(self) -> None:
        """Closed for good."""
        super().close()

    def _is_reset(self) -> bool:
        self.patience = TimedConnection.patience
        try:
            self.execute(RESET)
            prepared = {str(name).encode() for (name,) in self.execute(PREPARED).fetchall()}
        except psycopg.Error:
            self.end()
            return False
        # A store that lends a connection discards what is prepared there, and never asks it anything afterwards.
        self._asked = {name: times for name, times in self._asked.items() if name in prepared}
        return True


def _spare(words: tuple[tuple[str, str], ...]) -> list[KeptConnection]:
    """Those that wait for their next store. A forked process has none: a session cannot be shared."""
    return _kept.setdefault((os.getpid(), words), [])


_kept: dict[tuple[int, tuple[tuple[str, str], ...]], list[KeptConnection]] = {}


@contextmanager
def connections_kept() -> Generator[None]:
    """Within it, stores of this process hand their connections on to each other."""
    before = connections.TimedConnection
    setattr(connections, "TimedConnection", KeptConnection)  # noqa: B010 - a class is not assigned to
    try:
        yield
    finally:
        setattr(connections, "TimedConnection", before)  # noqa: B010


def end_kept() -> None:
    """Closes all that wait."""
    for (process, _), spare in _kept.items():
        while process == os.getpid() and spare:
            with suppress(psycopg.Error):
                spare.pop().end()


atexit.register(end_kept)
