"""The run of a slot."""

from __future__ import annotations

from datetime import datetime

from holdfast.core import events as e
from holdfast.core.commands import carry
from holdfast.core.definition import DefinitionBytes
from holdfast.core.ids import idempotency_key
from holdfast.core.instants import later
from holdfast.core.messages import encode_event
from holdfast.core.payload import input_hash
from holdfast.core.schedule import Pending, Work
from holdfast.ports.inbox import Message
from holdfast.ports.runs import NewRun
from holdfast.turn.start import new_run

ATTRIBUTE = "schedule"
"""The attribute of a run that names its schedule."""


def run_of(name: str, work: Work, start: Pending, now: datetime) -> NewRun:
    """The run as `app.start` would make it now."""
    blobs: dict[str, bytes] = {}
    args = bytes(work.args)
    value, blob, refs = carry(args, blobs)
    if work.flow:
        blobs[work.code] = DefinitionBytes(work.flow)
    started = e.Started(
        workflow=work.workflow,
        version=work.version,
        code=work.code,
        style=work.style,
        queue=work.queue,
        deadline=later(now, work.deadline) if work.deadline is not None else None,
        keep=work.keep,
        attributes={ATTRIBUTE: name},
        value=value,
        blob=blob,
        refs=refs,
    )
    new, _ = new_run(start.run, started, now, blobs=blobs, input_hash=input_hash(args))
    return new


def cancel_of(name: str, run: str, start: str) -> Message:
    """The message that cancels a run because the next one is due. The same for the same two runs."""
    message = f"cancel {idempotency_key(run, start)}"
    event = e.CancelRequested(message=message, reason=f"schedule {name}: the next run is due", actor=f"schedule {name}")
    return Message(run=run, id=message, kind="cancel", body=encode_event(event))
