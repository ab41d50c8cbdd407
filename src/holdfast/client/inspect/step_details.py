"""One step of a run: its input, its output, and every attempt."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.client.client import Client
from holdfast.client.inspect.objects import event_object, failure_object
from holdfast.client.inspect.story import Story, read_story
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.ids import idempotency_key
from holdfast.core.references import names_of, payload_of
from holdfast.core.turn import UNREADABLE
from holdfast.errors import BlobNotFound, CorruptJournal, InvalidInput


class StepStory(msgspec.Struct, kw_only=True):
    """Everything that is known of one step."""

    run: str
    key: str
    step: str
    outcome: str = ""
    ordinal: int = 0
    scheduled_at: datetime | None = None
    ended_at: datetime | None = None
    input: Any = None
    output: Any = None
    failure: dict[str, str] | None = None
    idempotency_key: str = ""
    undo: bool = False
    undoes: str = ""
    retry_at: datetime | None = None
    of: int | None = None
    attempts: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    problems: list[str] = []


async def read_step(client: Client, run_id: str, key: str) -> StepStory:
    """The step of that key. Raises `InvalidInput` if the run's journal has none."""
    story = await read_story(client, run_id)
    asked = [
        (turn, event)
        for turn in story.turns
        for event in turn.events
        if isinstance(event, e.StepScheduled) and event.key == key
    ]
    if not asked:
        raise InvalidInput(f"run {run_id} has asked for no step {key!r}")
    turn, scheduled = asked[-1]
    found = StepStory(
        run=run_id,
        key=key,
        step=scheduled.step or key,
        ordinal=turn.ordinal,
        scheduled_at=turn.at,
        undo=scheduled.undo,
        undoes=scheduled.undoes,
        idempotency_key=idempotency_key(run_id, key),
        input=await _payload(client, story, scheduled),
    )
    failures: dict[int, Failure] = {}
    for turn in story.turns:
        for event in turn.events:
            if getattr(event, "key", None) != key:
                continue
            found.events.append(event_object(event, turn, story.view.id, story.view.root))
            match event:
                case e.StepCompleted():
                    found.ended_at, found.output = turn.at, await _payload(client, story, event)
                    found.retry_at = found.failure = None
                case e.StepFailed():
                    found.ended_at, found.failure = turn.at, failure_object(event.failure)
                    found.retry_at, failures[event.attempts] = None, event.failure
                case e.AttemptFailed():
                    found.failure, failures[event.attempt] = failure_object(event.failure), event.failure
                    found.retry_at, found.of = event.retry_at, event.of
                case e.AttemptStarted():
                    found.retry_at = None
                case _:
                    pass
    _tell_attempts(found, story, failures)
    return found


def _tell_attempts(found: StepStory, story: Story, failures: dict[int, Failure]) -> None:
    entries = [entry for entry in story.line.entries if entry.kind == "step" and entry.key == found.key]
    for entry in entries:
        failure = failures.get(entry.attempt) if entry.outcome == "failed" else None
        found.attempts.append(
            {
                "attempt": entry.attempt,
                "at": entry.at,
                "ended_at": entry.ended_at,
                "outcome": entry.outcome,
                "worker": entry.worker,
                "epoch": entry.epoch,
                "failure": failure_object(failure) if failure is not None else None,
                "retry_at": entry.until if entry.outcome == "failed" else None,
            }
        )
    found.outcome = entries[-1].outcome if entries else ""


async def _payload(client: Client, story: Story, event: e.Carrier) -> Any:
    if story.redaction is None:
        return None
    try:
        data = payload_of(event, await client.store.get_blobs(names_of(event)))
        return story.redaction.value(msgspec.json.decode(data))
    except (BlobNotFound, CorruptJournal, *UNREADABLE):
        return None
