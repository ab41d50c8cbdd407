"""Puts other contents in the place of what is kept of an ended run. The caller holds the lock."""

from __future__ import annotations

import msgspec

from holdfast.adapters.memory.blobs import keep_blobs, refer
from holdfast.adapters.memory.tables import Source
from holdfast.adapters.memory.transaction import Transaction
from holdfast.ports.rewritten import Rewritten


def rewrite(write: Transaction, new: Rewritten) -> bool:
    """See `ports.upkeep`."""
    tables, no = write.tables, new.no
    run, rows = tables.runs.get(no), tables.rows.get(no, [])
    if run is None or run.ended_at is None or not rows or rows[-1].checksum != new.after:
        return False
    if run.inbox_last != new.inbox_last or [row.ordinal for row in rows] != [row.ordinal for row in new.rows]:
        return False
    keep_blobs(write, new.blobs.items())
    keep_blobs(write, new.segments.items(), "segment")
    tables.rows[no] = [msgspec.structs.replace(row, seq=old.seq) for row, old in zip(new.rows, rows, strict=True)]
    write.change(no, attributes=dict(new.attributes), input_hash="")
    letters = {letter.no: letter for letter in tables.inbox[no].values()}
    for message in new.messages:
        letters[message.no].body, letters[message.no].checksum = message.body, message.checksum
    tables.exposed.setdefault(no, {}).update({value.name: value for value in new.shown})
    tables.answers.setdefault(no, {}).update({answer.message: answer for answer in new.answers})
    for name, part in new.parts:
        stream = tables.streams[no][name]
        tables.streams[no][name] = [part if row.first == part.first else row for row in stream]
    tables.snapshots.pop(no, None)
    tables.uniques = {value: owner for value, owner in tables.uniques.items() if owner != no}
    tables.gathering = {value: room for value, room in tables.gathering.items() if value in tables.uniques}
    wanted: dict[Source, tuple[str, ...]] = {
        (kind, number if kind in {"row", "message"} else name): names
        for (kind, number, name), names in new.references.items()
    }
    for source in list(tables.references.get(no, {})):
        refer(write, no, source, wanted.pop(source, ()))
    for source, names in wanted.items():
        refer(write, no, source, names)
    return True
