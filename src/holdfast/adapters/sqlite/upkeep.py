"""Snapshots, compaction, retention and collection as operations of the writer; each is one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import apsw
import msgspec

from holdfast.adapters.sqlite import upkeep_statements as sql
from holdfast.adapters.sqlite.blobs import Source, are_stored, forget, keep_blobs, refer
from holdfast.adapters.sqlite.connections import fetch, pragma
from holdfast.adapters.sqlite.lease_operations import boot_micros
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.checksums import emptied_checksum
from holdfast.core.snapshot import Snapshot
from holdfast.core.turn import Row, segments_of
from holdfast.ports.blobs import BlobData
from holdfast.ports.contents import Contents, StoredMessage, StoredValue
from holdfast.ports.parts import StoredSpan
from holdfast.ports.updates import StoredAnswer
from holdfast.ports.upkeep import Collected, LargeRun, Part, Removed, Space

_MICROSECOND = timedelta(microseconds=1)
_ALL = -1  # SQLite's "no limit"
_SNAPSHOT: Source = ("snapshot", 0, "")


class PutSnapshot(msgspec.Struct, frozen=True):
    """`Journal.put_snapshot`."""

    run: int
    snapshot: Snapshot
    blobs: tuple[tuple[str, BlobData], ...]
    references: Sequence[str]

    def __call__(self, transaction: Transaction) -> bool:
        """Stores the snapshot. Returns whether it was accepted."""
        snapshot = self.snapshot
        values = (self.run, snapshot.ordinal, snapshot.checksum, snapshot.body)
        if transaction.row(sql.PUT_SNAPSHOT, values) is None:
            return False
        keep_blobs(transaction, self.blobs, "segment")
        forget(transaction, self.run, _SNAPSHOT)
        refer(transaction, self.run, _SNAPSHOT, self.references)
        return True


def drop_snapshots(transaction: Transaction, runs: Iterable[int] | None) -> int:
    """`Journal.drop_snapshots`."""
    chosen = [run for (run,) in transaction.rows(sql.SNAPSHOT_RUNS)] if runs is None else list(runs)
    dropped = [run for run in chosen if transaction.row(sql.DROP_SNAPSHOT, (run,)) is not None]
    for run in dropped:
        forget(transaction, run, _SNAPSHOT)
    return len(dropped)


class Compact(msgspec.Struct, frozen=True):
    """`Journal.compact`."""

    run: int
    row: Row
    references: Sequence[str]

    def __call__(self, transaction: Transaction) -> int:
        """Compacts. Returns how many rows were removed."""
        run, row = self.run, self.row
        values = (run, row.ordinal, row.epoch, row.at, row.checksum, row.format, row.body)
        if not are_stored(transaction, segments_of(row)):
            return 0
        if transaction.row(sql.STAND_IN, values) is None:
            return 0
        transaction.run(sql.DROP_BEFORE, (run, row.ordinal))
        gone = transaction.connection.changes()
        for no, *message in transaction.rows(sql.CONSUMED, (run, row.ordinal)):
            checksum = emptied_checksum(*message)
            if checksum is not None:
                transaction.run(sql.FORGET_BODY, (checksum, run, no))
        transaction.run(sql.AGE_OF_COMPACTED, (run, row.ordinal, transaction.now))
        transaction.run(sql.FORGET_COMPACTED, (run, row.ordinal))
        refer(transaction, run, ("row", row.ordinal, ""), self.references)
        return gone


# -- retention ---------------------------------------------------------------------------------------------------------


def is_expired(rows: Any, root: str, now: int, keep: int | None, *, is_asked: bool = False) -> bool:
    """Whether retention may remove the tree; with `is_asked`, whether it has ended. `rows` queries the given
    connection."""
    found = rows(sql.ROOT, (root,))
    if not found:
        return False
    _, ended_at, own = found[0]
    ((runs, ended, last),) = rows(sql.DESCENDANTS, (root,))
    limit = keep if own is None else own
    if ended_at is None or runs != ended:
        return False
    return is_asked or (limit is not None and int(max(ended_at, last or 0)) + limit <= now)


class RemoveTree(msgspec.Struct, frozen=True):
    """Removes one tree for `Upkeep.remove`, after checking it again."""

    root: str
    keep: int | None
    is_asked: bool = False

    def __call__(self, transaction: Transaction) -> Removed:
        """Removes the tree. Returns what was removed."""
        root = self.root
        if not is_expired(transaction.rows, root, transaction.now, self.keep, is_asked=self.is_asked):
            return Removed()
        transaction.run(sql.AGE_OF_TREE, (root, transaction.now))
        transaction.run(sql.DROP_PLACES, ())
        transaction.run(sql.KEEP_PLACE, (root,))
        rows = transaction.connection.changes()
        transaction.run(sql.EVENTS_OF_TREE, (root,))
        rows += transaction.connection.changes()
        for statement in sql.REST_OF_TREE:
            transaction.run(statement, (root,))
        transaction.run(sql.RUNS_OF_TREE, (root,))
        return Removed(1, transaction.connection.changes(), rows)


# -- blobs -------------------------------------------------------------------------------------------------------------


def collect(transaction: Transaction, before: int, limit: int) -> Collected:
    """`Upkeep.collect`. With one writer, no commit comes between looking and removing."""
    loose = transaction.rows(sql.LOOSE, (before, limit))
    for name, _ in loose:
        transaction.run(sql.DROP_BLOB, (name,))
        transaction.run(sql.AGE_HELD_BY_BLOB, (transaction.now, name))
        transaction.run(sql.FORGET_HELD_BY_BLOB, (name,))
    return Collected(len(loose), sum(size for _, size in loose), tuple(name.hex() for name, _ in loose))


def collectable(connection: apsw.Connection, before: int) -> Collected:
    """How much `collect` would remove."""
    loose = fetch(connection, sql.LOOSE, (before, _ALL))
    return Collected(len(loose), sum(size for _, size in loose))


# -- duties and the report ---------------------------------------------------------------------------------------------


def take_duty(transaction: Transaction, duty: str, holder: str, ttl: timedelta) -> bool:
    """`Upkeep.take_duty`."""
    boot, second = boot_micros(transaction.clock)
    values = (duty, holder, boot, second + ttl // _MICROSECOND, second)
    return transaction.row(sql.TAKE_DUTY, values) is not None


def contents(connection: apsw.Connection, run: int) -> Contents | None:
    """`Upkeep.contents`."""
    found = fetch(connection, sql.KEPT_RUN, (run,))
    if not found:
        return None
    ((keep, is_offered),) = found
    snapshots = fetch(connection, sql.SNAPSHOT, (run,))
    held: dict[str, set[str]] = {}
    for holder, blob in fetch(connection, sql.KEPT_BLOBS, (run,)):
        held.setdefault(holder.hex(), set()).add(blob.hex())
    return Contents(
        keep=None if keep is None else keep * _MICROSECOND,
        is_offered=bool(is_offered),
        messages=[StoredMessage(*row) for row in fetch(connection, sql.KEPT_MESSAGES, (run,))],
        shown=[StoredValue(*row) for row in fetch(connection, sql.KEPT_VALUES, (run,))],
        watches=fetch(connection, sql.KEPT_WATCHES, (run,)),
        adoptions=fetch(connection, sql.KEPT_ADOPTIONS, (run,)),
        references=frozenset(blob.hex() for (blob,) in fetch(connection, sql.REFERENCES_OF, (run,))),
        held={holder: frozenset(names) for holder, names in held.items()},
        snapshot=Snapshot(*snapshots[0]) if snapshots else None,
        answers=[StoredAnswer(*row) for row in fetch(connection, sql.KEPT_ANSWERS, (run,))],
        spans=[
            (name, StoredSpan(step, attempt, first, end, bool(is_completed)))
            for name, step, attempt, first, end, is_completed in fetch(connection, sql.KEPT_SPANS, (run,))
        ],
    )


def space(connection: apsw.Connection, largest: int) -> Space:
    """`Upkeep.space`."""
    page = int(pragma(connection, "page_size"))
    return Space(
        total=page * int(pragma(connection, "page_count")),
        free=page * int(pragma(connection, "freelist_count")),
        tables=tuple(Part(*row) for row in fetch(connection, sql.TABLES)),
        blobs=tuple(Part(*row) for row in fetch(connection, sql.KINDS)),
        largest=tuple(LargeRun(*row) for row in fetch(connection, sql.LARGEST, (largest,))),
    )
