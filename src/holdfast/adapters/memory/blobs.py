"""Blobs of a memory store, and what refers to them."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.adapters.memory.tables import Blob, Source
from holdfast.adapters.memory.transaction import Transaction
from holdfast.ports.blobs import BlobData, BlobKind, Stub, held_by, kind_of


def keep_blobs(transaction: Transaction, blobs: Iterable[tuple[str, BlobData]], kind: BlobKind = "payload") -> None:
    """Stores the bytes under their names. A blob that exists stays, and its age starts again at zero."""
    for name, data in blobs:
        known = transaction.tables.blobs.get(name)
        held = frozenset(one for one in held_by(data) if one in transaction.tables.blobs)
        if known is not None:
            known.at = transaction.now
            known.names |= held
        elif isinstance(data, Stub):
            transaction.tables.blobs[name] = Blob(None, data.size, kind_of(data, kind), transaction.now, held)
        else:
            transaction.tables.blobs[name] = Blob(bytes(data), len(data), kind_of(data, kind), transaction.now, held)


def refer(transaction: Transaction, no: int, source: Source, names: Iterable[str]) -> None:
    """Replaces the references of that part of the run by these, as far as the blobs exist."""
    of_run = transaction.tables.references.setdefault(no, {})
    before = of_run.pop(source, frozenset[str]())
    found = frozenset(name for name in names if name in transaction.tables.blobs)
    if found:
        of_run[source] = found
    lose(transaction, before - found)


def lose(transaction: Transaction, names: Iterable[str]) -> None:
    """Starts the grace of these blobs: they lost a reference."""
    for name in names:
        if name in transaction.tables.blobs:
            transaction.tables.blobs[name].at = transaction.now
