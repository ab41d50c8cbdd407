"""Blobs in the file itself, named by their SHA-256, verified whenever they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

import apsw

from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.connection import fetch
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.adapters.sqlite.upkeep_statements import KIND
from holdfast.core.references import names_in
from holdfast.errors import CorruptJournal
from holdfast.ports.blobs import BlobData, BlobKind, Stub, not_in_store
from holdfast.ports.blobs import kind_of as brought_as

_NAME = re.compile(r"[0-9a-f]{64}")


def read_blobs(connection: apsw.Connection, names: Iterable[str]) -> dict[str, bytes]:
    """The bytes of each name; every one must be there and be what it is named."""
    return {name: _read_blob(connection, name) for name in names}


def kind_of(connection: apsw.Connection, name: str) -> BlobKind | None:
    """What the blob is for; None if there is none."""
    rows = fetch(connection, KIND, (bytes.fromhex(name),)) if _NAME.fullmatch(name) else []
    return rows[0][0] if rows else None


def known(connection: apsw.Connection, names: Iterable[str]) -> set[str]:
    """Those of the names under which there is a blob."""
    return {name for name in names if kind_of(connection, name) is not None}


def keep_blobs(transaction: Transaction, blobs: Iterable[tuple[str, BlobData]], kind: BlobKind = "payload") -> None:
    """Stores the bytes under their names, and what they refer to; what is there stays, as if it were new."""
    for name, data in blobs:
        key = bytes.fromhex(name)
        if isinstance(data, Stub):
            stub, stored = data, None
        else:
            stub, stored = Stub(name, len(data), tuple(names_in(data))), data
        transaction.run(sql.KEEP_BLOB, (key, brought_as(data, kind), transaction.now, stub.size, stored))
        for other in stub.names:
            transaction.run(sql.REFER_BLOB, (key, bytes.fromhex(other)))


def are_stored(transaction: Transaction, names: Iterable[str]) -> bool:
    """Whether all of them are there."""
    return all(transaction.row(sql.IS_STORED, (bytes.fromhex(name),)) is not None for name in names)


def refer(transaction: Transaction, no: int, body: bytes) -> None:
    """The run refers to the blobs that the body names, as far as they are there."""
    for name in names_in(body):
        transaction.run(sql.REFER, (no, bytes.fromhex(name)))


def _read_blob(connection: apsw.Connection, name: str) -> bytes:
    rows = fetch(connection, sql.BLOB, (bytes.fromhex(name),)) if _NAME.fullmatch(name) else []
    if not rows or rows[0][0] is None:
        raise not_in_store(name, is_stub=bool(rows))
    data: bytes = rows[0][0]
    if sha256(data).hexdigest() != name:
        raise CorruptJournal(f"blob {name} does not hold the bytes of that name. Restore the store from a backup.")
    return data
