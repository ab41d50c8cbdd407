"""Everything that is known of one run. It always answers.

For a compacted or damaged run it returns what can still be read, and in `problems` what cannot, and what to do. A run
whose start cannot be read may hold unknown secrets, so its payloads are hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.authoring.handle import RunView
from holdfast.client.client import Client
from holdfast.client.inspect.deadlocks import queue_waits_of
from holdfast.client.inspect.limits import waits_of
from holdfast.client.inspect.lookup import find_run
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.holders import Crash, Holder, holders
from holdfast.core.redaction import HIDDEN, Redaction
from holdfast.core.timeline import Timeline
from holdfast.core.turn import UNREADABLE, Turn, decode_row
from holdfast.errors import BlobNotFound, CorruptJournal
from holdfast.ports.runs import Filter, RunRow
from holdfast.ports.store import Store
from holdfast.turn.source import load

CHILDREN = 500
"""Maximum number of children to read."""

_MASK = msgspec.Raw(msgspec.json.encode(HIDDEN))


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """A run, read from its journal. `started` is None if its start can no longer be read."""

    view: RunView
    redaction: Redaction | None
    """The values to hide; None: every payload, since the start that lists them cannot be read."""
    turns: list[Turn]
    line: Timeline
    started: e.Started | None
    input: Any
    result: Any
    exposed: dict[str, Any]
    children: list[RunView]
    children_next: str
    problems: list[str]
    limits: list[str]
    """What it waits for under limits, in words, and the place in a queue that it can never get."""

    @property
    def end(self) -> e.Terminal | None:
        """The last event, if the run has ended."""
        last = self.turns[-1].events[-1] if self.turns and self.turns[-1].events else None
        return last if isinstance(last, e.Completed | e.Failed | e.Cancelled) else None

    @property
    def seq(self) -> int:
        """The seq of the last row, where `follow` continues."""
        return self.turns[-1].seq if self.turns else 0

    @property
    def is_compacted(self) -> bool:
        """Whether one row replaces the first ones."""
        return bool(self.turns) and any(isinstance(event, e.Compacted) for event in self.turns[0].events)

    @property
    def holders(self) -> tuple[list[Holder], list[Crash]]:
        """The workers that held it, with every crash."""
        return holders(self.turns, is_held=self.view.is_held)

    @property
    def failures(self) -> list[tuple[str, Failure]]:
        """The failures with titles: the last failure of each step that did not recover, and the run's own."""
        return unsettled_failures(self.turns)


async def read_story(client: Client, run_id: str) -> Story:
    """Reads the whole story. Raises `RunNotFound` with a hint if the run does not exist."""
    row = await find_run(client, run_id)
    store, problems = client.store, list[str]()
    turns = await _turns(store, row, problems)
    row = await store.get(run_id) or row
    exposures = await _exposures(store, run_id, problems)
    redaction = await _redaction(client, row, problems)
    started = await _start(store, row, turns, problems)
    shown = [_shown(turn, redaction) for turn in turns]
    line = Timeline()
    for turn in shown:
        line.take(turn)
    last = turns[-1].events[-1] if turns and turns[-1].events else None
    [view] = await client.views([row])
    children, after = await client.page(Filter(parent=run_id), limit=CHILDREN)
    return Story(
        view=view,
        redaction=redaction,
        turns=shown,
        line=line,
        started=started,
        input=None if started is None else await _value(store, redaction, started, "input", problems),
        result=await _value(store, redaction, last, "result", problems) if isinstance(last, e.Completed) else None,
        exposed={one.name: await _value(store, redaction, one, f"value {one.name}", problems) for one in exposures}
        if redaction is not None
        else {},
        children=children[::-1],
        children_next=after,
        limits=[] if row.ended_at is not None else [*await waits_of(store, row), *await queue_waits_of(store, row)],
        problems=[*(f"its row is damaged: {one}" for one in row.damage), *dict.fromkeys(problems)],
    )


async def _turns(store: Store, row: RunRow, problems: list[str]) -> list[Turn]:
    """The readable turns, as they are stored."""
    turns: list[Turn] = []
    after = 0
    while rows := await store.history(row.id, after_seq=after):
        for stored in rows:
            try:
                turns.append(decode_row(stored))
            except CorruptJournal as error:
                problems.append(f"{error}. See: holdfast verify {row.id}")
        after = rows[-1].seq
    if not turns and not problems:
        problems.append(f"its journal is missing. See: holdfast verify {row.id}")
    return turns


async def _redaction(client: Client, row: RunRow, problems: list[str]) -> Redaction | None:
    try:
        return await client.hidden.of(row)
    except (CorruptJournal, BlobNotFound) as error:
        problems.append(f"which of its values are secret cannot be read, so none is shown: {error}")
        return None


async def _start(store: Store, row: RunRow, turns: Sequence[Turn], problems: list[str]) -> e.Started | None:
    """How the run began; for a compacted run, from the row that replaces the first ones."""
    first = turns[0].events[0] if turns and turns[0].events else None
    if isinstance(first, e.Started):
        return first
    if not isinstance(first, e.Compacted):
        return None
    try:
        first = (await load(store, row.no, row.id)).turns[0].events[0]
    except (CorruptJournal, BlobNotFound) as error:
        problems.append(f"{error}. See: holdfast verify {row.id}")
        return None
    return first if isinstance(first, e.Started) else None


def _shown(turn: Turn, redaction: Redaction | None) -> Turn:
    if redaction is not None:
        return redaction.turn(turn)
    return msgspec.structs.replace(turn, events=tuple(_masked(event) for event in turn.events))


def _masked(event: e.AnyEvent) -> e.AnyEvent:
    """The event without any payload."""
    if isinstance(event, e.Adopted):
        facts: Any = tuple(_masked(fact) for fact in event.facts)
        return e.Adopted(facts=facts)
    if isinstance(event, e.Carrier):
        return msgspec.structs.replace(event, value=_MASK, blob="")
    return event


async def _value(store: Store, redaction: Redaction | None, event: e.Carrier, what: str, problems: list[str]) -> Any:
    """The payload of an event."""
    if redaction is None:
        return None
    try:
        return redaction.value(msgspec.json.decode(await store.get_blob(event.blob) if event.blob else event.value))
    except (CorruptJournal, BlobNotFound, *UNREADABLE) as error:
        problems.append(f"its {what} cannot be read: {error}")
        return None


async def _exposures(store: Store, run_id: str, problems: list[str]) -> list[e.Exposed]:
    """The values that the run exposes."""
    try:
        exposures = await store.exposures(run_id)
    except CorruptJournal as error:
        problems.append(f"the values it shows cannot be read: {error}")
        return []
    return [e.Exposed(name=name, value=msgspec.Raw(value), blob=blob) for name, value, blob in exposures]


def unsettled_failures(turns: Sequence[Turn]) -> list[tuple[str, Failure]]:
    """The last failure of each step that did not recover, and the one that ended the run, each with a title."""
    found: dict[str, tuple[str, Failure]] = {}
    for turn in turns:
        for event in turn.events:
            match event:
                case e.AttemptFailed():
                    found[event.key] = (f"error of step {event.key}, attempt {event.attempt}", event.failure)
                case e.StepFailed():
                    found[event.key] = (f"error of step {event.key}", event.failure)
                case e.StepCompleted():
                    found.pop(event.key, None)
                case e.RetryPlanned() | e.Failed():
                    found[""] = ("error", event.failure)
                case e.PassStarted() | e.Continued() | e.Completed():
                    found.pop("", None)
                case _:
                    pass
    return list(found.values())
