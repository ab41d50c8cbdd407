"""Values of a run that must not be shown: the secret variables of its flow, and of the flows that started it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core import events as e
from holdfast.core.redaction import Redaction
from holdfast.core.turn import decode_row
from holdfast.errors import BlobNotFound, CorruptJournal
from holdfast.ports.runs import Filter
from holdfast.turn.source import load

if TYPE_CHECKING:
    from holdfast.core.turn import Turn
    from holdfast.ports.runs import RunRow
    from holdfast.ports.store import Store

DEEPEST = 100
"""Maximum number of ancestors to check."""
CHILDREN = 200
"""Children read at once."""


async def redaction_for(store: Store, row: RunRow) -> Redaction:
    """The redaction of a run, from its own start and those of its ancestors."""
    secrets: list[Any] = []
    at: RunRow | None = row
    for _ in range(DEEPEST):
        if at is None:
            break
        secrets += await _secrets_of(store, at) or ()
        at = await store.get(at.parent) if at.parent else None
    return Redaction(secrets)


async def with_ended(store: Store, redaction: Redaction, turns: Iterable[Turn]) -> Redaction:
    """The redaction, also with the secrets of the flows whose ends these turns record: a flow's result may contain
    them, and the run that started it has the result in its journal. The result of a child that cannot be read is
    hidden whole."""
    ended = {end.run: end for turn in turns for event in turn.events for end in _ended(event)}
    ids = tuple(ended)
    scripts: set[tuple[str, str]] = set()
    for at in range(0, len(ids), CHILDREN):
        for row in (await store.list(Filter(ids=ids[at : at + CHILDREN]), limit=CHILDREN)).runs:
            if (row.workflow, row.version) in scripts:
                continue
            try:
                found = await _secrets_of(store, row)
            except (CorruptJournal, BlobNotFound):
                result = ended[row.id].value
                found = [msgspec.json.decode(result)] if bytes(result) else []
            if found is None:
                scripts.add((row.workflow, row.version))
            else:
                redaction = redaction.also(found)
    return redaction


def _ended(event: e.AnyEvent) -> Iterator[e.ChildEnded]:
    """The ends of children that an event records."""
    if isinstance(event, e.Adopted):
        for fact in event.facts:
            yield from _ended(fact)
    elif isinstance(event, e.ChildEnded):
        yield event


async def _secrets_of(store: Store, row: RunRow) -> list[Any] | None:
    """The secrets a flow was started with; None for another kind of workflow."""
    started = await _start_of(store, row)
    if started is None or started.style != "flow":
        return None
    from holdfast.authoring.flow.flow_arguments import secrets_in

    return [*secrets_in(await store.get_blob(started.blob) if started.blob else started.value)]


async def _start_of(store: Store, row: RunRow) -> e.Started | None:
    rows = await store.history(row.id, limit=1)
    if not rows:
        raise CorruptJournal(f"run {row.id}: its journal is missing")
    first = decode_row(rows[0]).events[0]
    if isinstance(first, e.Compacted):
        first = (await load(store, row.no, row.id)).turns[0].events[0]
    return first if isinstance(first, e.Started) else None
