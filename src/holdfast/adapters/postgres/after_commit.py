"""Wakes workers when a caller has committed what was written in a transaction of the caller's own.

The store sees no commit but its own. A loan of the store, SQLAlchemy's session and Django's connection tell of theirs.
Anything else waits for `Transactions.wake`, or for the next poll.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import msgspec

from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.lent_transaction import AsyncLoan, BlockingLoan
from holdfast.adapters.postgres.statements import Texts


class Home(msgspec.Struct, frozen=True, eq=False):
    """What a caller's connection is compared with, the statements of the store, and how it announces runs: now, or when
    it is asked to."""

    url: str
    identity: tuple[Any, ...]
    texts: Texts
    moments: Moments
    tell: Callable[[Iterable[str]], None]
    owe: Callable[[Iterable[str]], None]


def wake_after_commit(given: Any, runs: Sequence[str], home: Home) -> None:
    """Announces these runs once the transaction of the given object is committed."""
    if not runs:
        return
    if isinstance(given, AsyncLoan | BlockingLoan):
        given.woken += runs
    elif is_of(given, "sqlalchemy"):
        session = _session_of(given)
        if session is None:
            home.owe(runs)
        else:
            _after_session(session, runs, home)
    elif is_of(given, "django"):
        given.on_commit(lambda: home.tell(runs))
    else:
        home.owe(runs)


def _session_of(given: Any) -> Any:
    """The session in an object of SQLAlchemy; None in a connection."""
    found = getattr(given, "sync_session", given)
    return None if hasattr(found, "exec_driver_sql") or hasattr(found, "get_raw_connection") else found


def _after_session(session: Any, runs: Sequence[str], home: Home) -> None:
    """At the end of the session's outermost transaction. After a rollback it is told for nothing."""
    key = f"holdfast {id(home)}"
    owed: list[str] | None = session.info.get(key)
    if owed is None:
        session.info[key] = owed = []

        def ended(session: Any, transaction: Any) -> None:
            waiting: list[str] = session.info.get(key, [])
            if transaction.parent is None and waiting:
                told, waiting[:] = list(waiting), []
                home.tell(told)

        import_module("sqlalchemy.event").listen(session, "after_transaction_end", ended)
    owed += runs


def is_of(given: object, package: str) -> bool:
    """Whether an object is of a class of that package, which is not imported for it."""
    return any(kind.__module__.partition(".")[0] == package for kind in type(given).__mro__)
