"""Does the store hold what it promises? Each journal is read again, its chain checked, its row compared with the fold,
and every blob it names read and hashed. Nothing is repaired."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.doing import decode_doing
from holdfast.core.projection import Projection, project
from holdfast.core.run import fold
from holdfast.core.turn import Row, decode_rows
from holdfast.engine.history import Journal, load
from holdfast.engine.loading import blobs_named
from holdfast.errors import BlobNotFound, CorruptJournal, HoldfastError
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store

LOOKS = 5
"""A run that moves between reading its row and its journal is looked at again."""


class Finding(msgspec.Struct, frozen=True, gc=False):
    """What was looked at of one run, and what does not hold."""

    run: str
    rows: int
    problem: str = ""


async def verify_run(store: Store, row: RunRow) -> Finding:
    """Looks at one run. One that was removed meanwhile has no problem."""
    finding = Finding(row.id, 0)
    for _ in range(LOOKS):
        rows = (await store.read({row.no: 1}))[row.no]
        finding = Finding(row.id, len(rows), difference(row, rows) or await _missing(store, row, rows))
        if not finding.problem:
            return finding
        again = await store.get(row.id)
        if again is None:
            return Finding(row.id, 0)
        if again.next_ordinal == row.next_ordinal:
            return finding
        row = again
    return finding


async def _missing(store: Store, row: RunRow, rows: Sequence[Row]) -> str:
    """What was compacted must be readable too, and every payload that is kept as a blob."""
    try:
        loaded = await load(store, row.no, row.id, Journal(list(rows)))
        for name in sorted(blobs_named(loaded.turns)):
            await store.get_blob(name)  # one after the other: the first that is missing or changed is named
    except (CorruptJournal, BlobNotFound) as error:  # a store out of reach says nothing about the run
        return str(error).removeprefix(f"run {row.id}: ")
    return ""


def difference(row: RunRow, rows: Sequence[Row]) -> str:
    """Why the row is not what its journal says; empty if it is. Pure."""
    if not rows:
        return "its journal is missing"
    try:
        run = fold(row.id, decode_rows(rows))
        expected = project(run)
    except HoldfastError as error:  # says which row
        return str(error).removeprefix(f"run {row.id}: ")
    if run.ordinal + 1 != row.next_ordinal:
        return f"its row says that ordinal {row.next_ordinal} is next, its journal ends at {run.ordinal}"
    for name in Projection.__struct_fields__:
        said, meant = getattr(row, name), getattr(expected, name)
        if name == "doing":
            said, meant = decode_doing(said), decode_doing(meant)
        if said != meant:
            return f"its row says {name} = {said!r}, its journal {meant!r}"
    return ""
