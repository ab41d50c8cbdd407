"""How connections to the file are opened, begun and rolled back, and what SQLite's errors mean for Holdfast."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import apsw

from holdfast.adapters.sqlite import raw_statements as raw
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.board import PATIENCE, SHORTEST, Board
from holdfast.errors import CorruptJournal, DiskFull, StoreError, StoreRefused, StoreUnavailable

T = TypeVar("T")
Bindings: TypeAlias = Sequence[Any]
Durability: TypeAlias = Literal["full", "normal", "off"]


class NotText(CorruptJournal):
    """A text in the file is not UTF-8, and the statement has no variant that reads bytes."""


_SYNCHRONOUS: dict[Durability, tuple[str, ...]] = {
    "full": (sql.SYNC_FULL, sql.FULL_FSYNC),
    "normal": (sql.SYNC_NORMAL,),
    "off": (sql.SYNC_OFF,),
}
_ALWAYS = (sql.NO_MMAP, sql.NO_TRUSTED_SCHEMA)
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_WAL_SIZE_KEPT = 16 * 1024 * 1024


def open_writable(path: Path, durability: Durability) -> apsw.Connection:
    """A connection that writes. It has no busy timeout, which starves one of several processes; `begin` does the
    waiting."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(0)
    for statement in (*_SYNCHRONOUS[durability], sql.FOREIGN_KEYS, sql.NO_AUTOMATIC_CHECKPOINT, *_ALWAYS):
        fetch(connection, statement)
    pragma(connection, "journal_size_limit", _WAL_SIZE_KEPT)
    return connection


def open_readable(path: Path) -> apsw.Connection:
    """A connection that cannot write."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(0)
    for statement in _ALWAYS:
        fetch(connection, statement)
    return connection


# apsw's types name a `Buffer` that Python 3.11 does not have, so they are met in these three functions only.


class _Run(Protocol):
    def __call__(self, connection: apsw.Connection, statement: str, values: Bindings = (), /) -> object: ...


run: _Run = vars(apsw.Connection)["execute"]
"""Executes a statement for its effect. It is apsw's own method: a step runs several."""


def fetch(connection: apsw.Connection, statement: str, values: Bindings = ()) -> list[Any]:
    """All rows of a statement, which has then finished. A text that is not UTF-8 is shown as far as possible
    (`raw_statements`), or raises `NotText`."""
    try:
        return connection.execute(statement, values).fetchall()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    except UnicodeDecodeError as error:
        return _fetch_raw(connection, statement, values, error)


def _fetch_raw(connection: apsw.Connection, statement: str, values: Bindings, error: UnicodeDecodeError) -> list[Any]:
    if statement == sql.WORKERS or sql.RUN_ROWS in statement:
        twin = raw.WORKERS if statement == sql.WORKERS else statement.replace(sql.RUN_ROWS, raw.RUN_ROWS)
        return fetch(connection, twin, values)
    if statement in raw.DONE:
        return []
    if statement not in raw.SHOWN:
        raise NotText(f"the store holds a text that is not UTF-8 ({error}). Find it: holdfast verify") from error
    twin, texts = raw.SHOWN[statement]
    return [
        tuple(x.decode(errors="backslashreplace") if place in texts else x for place, x in enumerate(row))
        for row in fetch(connection, twin, values)
    ]


def is_text(stored: bytes) -> bool:
    """Whether the bytes of a text are UTF-8."""
    try:
        stored.decode()
    except UnicodeDecodeError:
        return False
    return True


def pragma(connection: apsw.Connection, name: str, *value: int) -> Any:
    """Reads or sets a pragma, whose value cannot be bound."""
    return connection.pragma(name, *value)  # pyright: ignore[reportUnknownMemberType]


def begin(connection: apsw.Connection, board: Board | None = None) -> None:
    """Begins a write transaction, waiting in turn while other processes write. Raises `StoreUnavailable` when that
    takes too long."""
    if board is None:
        until_free(lambda: run(connection, sql.BEGIN))
        return
    if board.is_empty():
        with suppress(apsw.BusyError, apsw.LockedError):
            run(connection, sql.BEGIN)
            return
    board.enter()
    try:
        _pause(board)
        until_free(lambda: run(connection, sql.BEGIN), board=board)
    finally:
        board.leave()


def until_free(ask: Callable[[], T], *, patience: float | None = None, board: Board | None = None) -> T:
    """Repeats the call until SQLite is not busy; without a board for locks that are rare and short."""
    patience = PATIENCE if patience is None else patience
    deadline = time.monotonic() + patience
    while True:
        try:
            return ask()
        except (apsw.BusyError, apsw.LockedError) as error:
            if time.monotonic() >= deadline:
                raise StoreUnavailable(
                    f"another process kept the store locked for {patience:g} s. Nothing was written; try again."
                ) from error
            _pause(board)


def _pause(board: Board | None) -> None:
    """Sleeps as long as the place on the board requires, with random variation so that processes do not ask in step."""
    time.sleep(random.uniform(0.5, 1.5) * (SHORTEST if board is None else board.pause()))


def roll_back(connection: apsw.Connection) -> None:
    """Rolls the open transaction back, if there is one."""
    if connection.in_transaction:
        run(connection, sql.ROLLBACK)


def is_out_of_room(error: BaseException, connection: apsw.Connection) -> bool:
    """Whether the disk, a quota or a size limit is full."""
    if isinstance(error, apsw.FullError):
        return True
    return isinstance(error, apsw.IOError) and connection.system_errno in _NO_ROOM


def is_transient(error: BaseException) -> bool:
    """Whether a new connection may succeed. True after a failed fsync, when the old one must not be used."""
    return isinstance(error, apsw.IOError | apsw.CantOpenError | apsw.ProtocolError)


def translated(error: Exception) -> Exception:
    """The Holdfast error for an error of SQLite; other errors stay."""
    match error:
        case apsw.FullError():
            return disk_full(error)
        case apsw.BusyError() | apsw.LockedError():
            return StoreUnavailable(f"the store is locked by another process ({error}). Try again.")
        case apsw.NotADBError():
            return StoreRefused(f"the store's file is not a SQLite database ({error}).")
        case apsw.CorruptError():
            return CorruptJournal(f"SQLite reports a damaged file ({error}). Restore it from a backup.")
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return StoreRefused(f"the store cannot be written ({error}). Check the permissions of its file and folder.")
        case apsw.IOError() | apsw.CantOpenError() | apsw.ProtocolError():
            return StoreUnavailable(f"the store's file cannot be read or written ({error}).")
        case apsw.Error():
            return StoreError(f"SQLite refused a statement ({error}).")
        case _:
            return error


def disk_full(error: BaseException) -> DiskFull:
    """The error for a writer that finds the disk full."""
    return DiskFull(f"no disk space left for the store ({error}). Nothing of this write was kept; free some space.")
