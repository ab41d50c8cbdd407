"""Does the store hold what it promises? Each journal is read again, its chain checked, its row compared with the fold,
and every blob it names read and hashed. Nothing is repaired."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.doing import decode_doing
from holdfast.core.messages import decode_event
from holdfast.core.projection import Projection, project
from holdfast.core.run import fold
from holdfast.core.turn import UNREADABLE, Row, decode_rows
from holdfast.engine.history import Journal, load
from holdfast.engine.loading import blobs_named
from holdfast.errors import BlobNotFound, CorruptJournal, HoldfastError
from holdfast.ports.leases import WorkerRow
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
        problem = _damage(row) or difference(row, rows) or await _missing(store, row, rows)
        finding = Finding(row.id, len(rows), problem or await _unreadable(store, row))
        if not finding.problem:
            return finding
        again = await store.get(row.id)
        if again is None:
            return finding if row.damage else Finding(row.id, 0)  # an id that is no text finds nothing
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


def _damage(row: RunRow) -> str:
    return f"its row is damaged: {'; '.join(row.damage)}" if row.damage else ""


async def _unreadable(store: Store, row: RunRow) -> str:
    """What else of the run would be read: messages that wait for it, values that it shows."""
    for message in (await store.unread({row.no: row.inbox_read})).get(row.no, ()):
        try:
            decode_event(message.body)
        except CorruptJournal as error:
            return f"message {message.no} ({message.id}): {error}"
    for name, value, blob in await store.exposures(row.id):
        try:
            msgspec.json.decode(await store.get_blob(blob) if blob else value)
        except (*UNREADABLE, CorruptJournal, BlobNotFound) as error:
            return f"the value it shows as {name!r} cannot be read: {error}"
    return ""


def damaged_workers(workers: Sequence[WorkerRow]) -> list[Finding]:
    """Workers whose row cannot be read in full."""
    return [Finding(one.worker, 0, f"its row is damaged: {'; '.join(one.damage)}") for one in workers if one.damage]


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
