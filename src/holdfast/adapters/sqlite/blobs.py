"""Blobs in the file itself, named by their SHA-256, verified whenever they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Literal, TypeAlias

import apsw

from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.connections import fetch
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.adapters.sqlite.upkeep_statements import AGE_OF_SOURCE, FORGET_SOURCE, HELD_BY_BLOB, KIND, ROW_REFERENCES
from holdfast.errors import CorruptJournal
from holdfast.ports.blobs import BlobData, BlobKind, Stub, held_by, not_in_store
from holdfast.ports.blobs import kind_of as brought_as

Source: TypeAlias = tuple[Literal["row", "message", "value", "answer", "snapshot"], int, str]
"""Which part of a run refers to a blob: the row of an ordinal, the message of a number, the value of a name, or the
snapshot."""

_NAME = re.compile(r"[0-9a-f]{64}")


def read_blobs(connection: apsw.Connection, names: Iterable[str]) -> dict[str, bytes]:
    """The bytes of each name. Raises if one is missing or does not match its name."""
    return {name: _read_blob(connection, name) for name in names}


def kind_of(connection: apsw.Connection, name: str) -> BlobKind | None:
    """What the blob is for; None if it does not exist."""
    rows = fetch(connection, KIND, (bytes.fromhex(name),)) if _NAME.fullmatch(name) else []
    return rows[0][0] if rows else None


def known(connection: apsw.Connection, names: Iterable[str]) -> set[str]:
    return {name for name in names if kind_of(connection, name) is not None}


def keep_blobs(transaction: Transaction, blobs: Iterable[tuple[str, BlobData]], kind: BlobKind = "payload") -> None:
    """Stores the bytes under their names, with their references. A blob that exists stays, and its age starts again at
    zero."""
    for name, data in blobs:
        key = bytes.fromhex(name)
        size, stored = (data.size, None) if isinstance(data, Stub) else (len(data), bytes(data))
        transaction.run(sql.KEEP_BLOB, (key, brought_as(data, kind), transaction.now, size, stored))
        for other in held_by(data):
            transaction.run(sql.REFER_BLOB, (key, bytes.fromhex(other)))


def are_stored(transaction: Transaction, names: Iterable[str]) -> bool:
    """Whether the store has all of these blobs."""
    return all(transaction.row(sql.IS_STORED, (bytes.fromhex(name),)) is not None for name in names)


def refer(transaction: Transaction, no: int, source: Source, names: Iterable[str]) -> None:
    """Adds references from that part of the run to these blobs, as far as the blobs exist."""
    for name in names:
        transaction.run(sql.REFER, (no, *source, bytes.fromhex(name)))


def forget(transaction: Transaction, no: int, source: Source) -> None:
    """Removes the references of that part of the run; the grace of those blobs begins."""
    transaction.run(AGE_OF_SOURCE, (transaction.now, no, *source))
    transaction.run(FORGET_SOURCE, (no, *source))


def row_references(transaction: Transaction, no: int, ordinal: int) -> tuple[str, ...]:
    """The references of a stored row. For a run from before rows had references: all references of the run."""
    return tuple(blob.hex() for (blob,) in transaction.rows(ROW_REFERENCES, (no, ordinal)))


def held(connection: apsw.Connection, names: Iterable[str]) -> dict[str, set[str]]:
    """What each of these blobs refers to."""
    found: dict[str, set[str]] = {}
    for name in names:
        rows = fetch(connection, HELD_BY_BLOB, (bytes.fromhex(name),)) if _NAME.fullmatch(name) else []
        if rows:
            found[name] = {blob.hex() for (blob,) in rows}
    return found


def _read_blob(connection: apsw.Connection, name: str) -> bytes:
    rows = fetch(connection, sql.BLOB, (bytes.fromhex(name),)) if _NAME.fullmatch(name) else []
    if not rows or rows[0][0] is None:
        raise not_in_store(name, is_stub=bool(rows))
    data: bytes = rows[0][0]
    if sha256(data).hexdigest() != name:
        raise CorruptJournal(f"blob {name} does not hold the bytes of that name. Restore the store from a backup.")
    return data
