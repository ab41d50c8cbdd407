"""Blobs in the file itself, named by their SHA-256, verified whenever they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

import apsw

from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.connection import fetch
from holdfast.errors import BlobNotFound, CorruptJournal

_NAME = re.compile(r"[0-9a-f]{64}")


def read_blobs(connection: apsw.Connection, names: Iterable[str]) -> dict[str, bytes]:
    """The bytes of each name; every one must be there and be what it is named."""
    return {name: _read_blob(connection, name) for name in names}


def _read_blob(connection: apsw.Connection, name: str) -> bytes:
    rows = fetch(connection, sql.BLOB, (bytes.fromhex(name),)) if _NAME.fullmatch(name) else []
    if not rows:
        raise BlobNotFound(f"no blob {name} in this store")
    data: bytes = rows[0][0]
    if sha256(data).hexdigest() != name:
        raise CorruptJournal(f"blob {name} does not hold the bytes of that name. Restore the store from a backup.")
    return data
