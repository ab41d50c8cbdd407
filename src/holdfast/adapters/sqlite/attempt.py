"""One transaction for the work of several callers, and what to do when it breaks.

- Work that is refused (`HoldfastError`) has written nothing; the rest continues.
- Anything unexpected rolls everything back, and each piece is then tried alone: none harms another.
- An error of the file (a failed fsync, say) leaves the outcome unknown: the connection is opened again and the
  same work is repeated. That is safe: a turn is recognised by its checksum, a run by its first row.
- On a full disk nothing is kept, and each caller gets that error.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import apsw
import msgspec

from holdfast.adapters.sql.batches import settle
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.connections import (
    begin,
    disk_full,
    is_out_of_room,
    is_transient,
    roll_back,
    run,
    translated,
)
from holdfast.adapters.sqlite.link import Link
from holdfast.adapters.sqlite.transaction import Operation, Transaction
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.ports.clock import Clock

Hints: TypeAlias = Iterable[str]

_TRIES = 5


class Work(msgspec.Struct, eq=False):
    """An operation and its outcome. A large one never runs on the caller's thread."""

    operation: Operation[Any]
    is_large: bool = False
    is_again: bool = False
    result: Any = None
    error: Exception | None = None

    @property
    def pieces(self) -> Sequence[Work]:
        """The work that shares a transaction with others, each with its own outcome."""
        return (self,)

    def outcome(self) -> Any:
        """The result, or raises the error."""
        if self.error is not None:
            raise self.error
        return self.result


def perform(work: Sequence[Work], link: Link, clock: Clock) -> Hints:
    """Performs all work, sets each outcome, and returns the hints. May wait for other writers."""
    hints: list[str] = []

    def together(some: Sequence[Work]) -> Sequence[Exception | None]:
        hints.extend(_attempted(some, link, clock, is_patient=True))
        return [each.error for each in some]

    for each, error in zip(work, settle(work, together, _is_of_one), strict=True):
        each.error = None if error is None else translated(error)
    return hints


def perform_now(work: Work, link: Link, clock: Clock) -> Hints | None:
    """Performs the work, sets its outcome, and returns the hints. Returns None, having done nothing, if another process
    writes: this must not wait."""
    try:
        return _attempted([work], link, clock, is_patient=False)
    except apsw.BusyError:
        return None
    except Exception as error:  # noqa: BLE001 - the waiting caller gets it
        work.error = translated(error)
        return ()


def _is_of_one(error: Exception) -> bool:
    """Whether one piece may be the cause. Not if other processes were writing: trying each alone would not help."""
    return not isinstance(error, StoreUnavailable)


def _attempted(work: Sequence[Work], link: Link, clock: Clock, *, is_patient: bool) -> Hints:
    """Runs one transaction, and repeats it while its outcome is unknown. Raises the reason if it failed; then nothing
    was kept."""
    problem: Exception | None = None
    for number in range(_TRIES):
        try:
            return _transact(work, link, clock, is_patient=is_patient)
        except _Broken as broken:
            problem = broken.problem
            if not broken.is_unknown:
                break
        except (apsw.BusyError, StoreUnavailable):
            raise
        except apsw.Error as refused:  # the file could not be opened, or nothing be begun
            problem = refused
            if not is_transient(refused):
                break
        link.drop()
        for each in work:
            each.is_again = True
        if is_patient and number:
            time.sleep(random.uniform(0.001, 0.005) * number)
    assert problem is not None
    raise problem


class _Broken(Exception):
    """The transaction was rolled back, or its outcome is unknown (`is_unknown`)."""

    def __init__(self, problem: Exception, *, is_unknown: bool) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.is_unknown = is_unknown


def _transact(work: Sequence[Work], link: Link, clock: Clock, *, is_patient: bool) -> Hints:
    connection = link.checked()
    if is_patient:
        begin(connection, link.board)
    else:
        run(connection, sql.BEGIN)
    transaction = Transaction(connection, clock)
    try:
        _carry_out(work, transaction)
        run(connection, sql.COMMIT)
    except Exception as error:
        if is_out_of_room(error, connection):
            roll_back(connection)
            raise _Broken(disk_full(error), is_unknown=False) from error
        if is_transient(error):
            raise _Broken(error, is_unknown=True) from error
        roll_back(connection)
        raise _Broken(error, is_unknown=False) from error
    except BaseException:
        roll_back(connection)
        raise
    return transaction.hints


def _carry_out(work: Sequence[Work], transaction: Transaction) -> None:
    count_changes = transaction.connection.total_changes
    for each in work:
        before = count_changes()
        transaction.is_again = each.is_again
        each.error = None
        try:
            each.result = each.operation(transaction)
        except HoldfastError as refused:
            if count_changes() != before:
                raise  # it broke its word and wrote: undo it with the whole transaction
            each.error = refused
