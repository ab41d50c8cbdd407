"""Opening a store: every reason to refuse is found here, before anything is written."""

from __future__ import annotations

import os
from typing import get_args

import apsw

from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.audit import check_inherited
from holdfast.adapters.sqlite.connections import (
    Durability,
    disk_full,
    fetch,
    is_out_of_room,
    open_readable,
    open_writable,
    translated,
    until_free,
)
from holdfast.adapters.sqlite.location import Location, check_place, locate, make_private
from holdfast.adapters.sqlite.migrations import check_version, migrate, schema_version
from holdfast.errors import InvalidInput, StoreRefused
from holdfast.ports.condition import Schema


def prepare(address: str | os.PathLike[str], *, auto_migrate: bool, durability: Durability) -> Location:
    """A location whose file exists, is ours, and has the latest schema. Raises `StoreRefused` with the reason
    otherwise."""
    if durability not in get_args(Durability):
        raise InvalidInput(f"durability={durability!r}: use 'full' (the default), 'normal' or 'off'.")
    location = locate(address)
    try:
        check_inherited(location.path)
        check_place(location.path)
        make_private(location.path)
        _bring_up_to_date(location, auto_migrate=auto_migrate, durability=durability)
    except BaseException:
        discard(location)
        raise
    return location


def schema_of(address: str | os.PathLike[str]) -> Schema:
    """The schema version of a store; 0 if the file is missing. Changes nothing."""
    location = locate(address)
    if location.folder is not None:  # a store of this process only: made with the latest schema, and gone again
        discard(location)
        return schema_version(None, location.path)
    check_place(location.path)
    if not location.path.exists():
        return schema_version(None, location.path)
    try:
        connection = until_free(lambda: open_readable(location.path))
    except apsw.Error as error:
        raise StoreRefused(f"cannot open the store {location.path}: {error}.") from error
    try:
        return schema_version(connection, location.path)
    finally:
        connection.close()


def discard(location: Location) -> None:
    """Removes the folder of a store that belongs to this process only."""
    if location.folder is not None:
        import shutil  # not light

        shutil.rmtree(location.folder, ignore_errors=True)


def _bring_up_to_date(location: Location, *, auto_migrate: bool, durability: Durability) -> None:
    path = location.path
    try:
        connection = until_free(lambda: open_writable(path, durability))
    except apsw.NotADBError as error:
        raise StoreRefused(f"cannot open the store {path}: the file is not a SQLite database.") from error
    except apsw.Error as error:
        raise StoreRefused(f"cannot open the store {path}: {error}.") from error
    try:
        is_behind = check_version(connection, path, auto_migrate=auto_migrate)
        until_free(lambda: fetch(connection, sql.JOURNAL_WAL))
        if is_behind:
            migrate(connection)
    except apsw.Error as error:
        raise (disk_full(error) if is_out_of_room(error, connection) else translated(error)) from error
    finally:
        connection.close()
