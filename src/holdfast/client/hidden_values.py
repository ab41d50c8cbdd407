"""Values of a run that must not be shown: the secret variables of its flow, and of the flows that started it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core import events as e
from holdfast.core.redaction import Redaction
from holdfast.core.turn import decode_row
from holdfast.errors import CorruptJournal
from holdfast.turn.source import load

if TYPE_CHECKING:
    from holdfast.ports.runs import RunRow
    from holdfast.ports.store import Store

DEEPEST = 100
"""Maximum number of ancestors to check."""


async def redaction_for(store: Store, row: RunRow) -> Redaction:
    """The redaction of a run, from its own start and those of its ancestors."""
    secrets: list[Any] = []
    at: RunRow | None = row
    for _ in range(DEEPEST):
        if at is None:
            break
        started = await _start_of(store, at)
        if started is not None and started.style == "flow":
            from holdfast.authoring.flow.flow_arguments import secrets_in

            secrets += secrets_in(await store.get_blob(started.blob) if started.blob else started.value)
        at = await store.get(at.parent) if at.parent else None
    return Redaction(secrets)


async def _start_of(store: Store, row: RunRow) -> e.Started | None:
    rows = await store.history(row.id, limit=1)
    if not rows:
        raise CorruptJournal(f"run {row.id}: its journal is missing")
    first = decode_row(rows[0]).events[0]
    if isinstance(first, e.Compacted):
        first = (await load(store, row.no, row.id)).turns[0].events[0]
    return first if isinstance(first, e.Started) else None
