"""What a run's row says, for people."""

from __future__ import annotations

from datetime import datetime

from holdfast.authoring.handle import RunView
from holdfast.core.doing import decode_doing
from holdfast.core.suspicion import words
from holdfast.ports.runs import RunRow


def view_of(row: RunRow, now: datetime, error: str = "", lost: str = "") -> RunView:
    """The view of a row. `lost`: a note that its worker has gone."""
    return RunView(
        id=row.id,
        workflow=row.workflow,
        version=row.version,
        status=row.status,
        queue=row.queue,
        priority=row.priority,
        key=row.key,
        parent=row.parent,
        root=row.root,
        attributes=row.attributes,
        created_at=row.created_at,
        started_at=row.started_at,
        updated_at=row.updated_at,
        ended_at=row.ended_at,
        available_at=row.available_at,
        deadline=row.deadline,
        worker=row.worker,
        is_held=bool(row.instance) and row.ended_at is None,
        epoch=row.epoch,
        turns=row.next_ordinal - 1,
        doing=decode_doing(row.doing),
        note="; ".join(filter(None, (lost, row.note, words(row.suspicion)))),
        damage=row.damage,
        seen_at=now,
        error=error,
    )
