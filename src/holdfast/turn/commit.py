"""From a draft to one `Commit`: the row of the journal, and everything that becomes visible with it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.instants import later
from holdfast.core.messages import END_OF, encode_event, ended
from holdfast.core.projection import project
from holdfast.core.references import references_of
from holdfast.core.rounds import BATCH, NO_MORE, ROUND
from holdfast.core.run import Run
from holdfast.core.turn import FORMAT, Row, Turn, checksum, encode_turn, micros
from holdfast.ports.inbox import Message, Publication, message, publication
from holdfast.ports.journal import Commit, Exposure, Park
from holdfast.ports.parts import StepSpan
from holdfast.ports.runs import NewRun
from holdfast.turn.draft import Draft, is_progress
from holdfast.turn.settlement import questions, settled
from holdfast.turn.start import new_run

_SETTLING = frozenset((e.StepCompleted, e.StepFailed, e.AttemptFailed))
"""Events that end an attempt; each names what the attempt sent to streams."""


def finish(
    run: Run, no: int, epoch: int, draft: Draft, inbox_seen: int, park: Park | None, *, is_consuming: bool
) -> Commit:
    """Applies the draft to the fold and makes its commit. Every turn comes through here, and most ask for one step, so
    rare parts are not searched for in those."""
    watching: Sequence[str] = ()
    in_rounds: Sequence[str] = ()
    if run.waits:
        watching = [key for key, wait in run.waits.items() if wait.kind == "topic"]
        in_rounds = [wait.run for wait in run.waits.values() if wait.in_rounds] if draft.is_terminal else ()
    asked = questions(run, draft) if run.asked or is_consuming else {}
    after, was_due, was_late = run.checksum, run.round == "due", run.past_deadline is not None
    turn, row = make_row(run, epoch, draft.at, (*draft.inputs, *draft.outputs))
    run.apply(turn)
    unwatch = tuple(key for key in watching if key not in run.waits) if watching else ()
    extras: dict[str, Any] = {}
    for event in draft.outputs:
        if type(event) is not e.StepScheduled and (run.parent or type(event) is not e.Completed):
            extras = _consequences(run, draft)
            break
    if asked or is_consuming:
        extras["answers"] = settled(run, draft, asked)
    if run.round == "due" and not was_due:
        extras["messages"] = (*extras.get("messages", ()), _ask_for_round(run))
    is_late = run.past_deadline is not None and not was_late
    if (is_late or (draft.is_terminal and not was_late)) and (cancels := _to_children(run, is_late=is_late)):
        extras["messages"] = (*extras.get("messages", ()), *cancels)
    if in_rounds:
        extras["messages"] = (*extras["messages"], *(_no_more_rounds(run, child) for child in in_rounds))
    for event in draft.inputs:
        if type(event) in _SETTLING and event.sent:  # type: ignore[union-attr]
            extras["spans"] = spans_of(draft.inputs)
            break
    if draft.parts:
        extras["parts"] = tuple(draft.parts)
    commit = Commit(
        no=no,
        row=row,
        after=after,
        projection=project(run),
        inbox_seen=inbox_seen,
        is_consuming=is_consuming,
        is_terminal=draft.is_terminal,
        is_progress=bool(draft.outputs) or is_progress(draft),
        unwatch=unwatch,
        blobs=draft.blobs,
        references=references_of(turn.events),
        park=park,
    )
    return msgspec.structs.replace(commit, **extras) if extras else commit  # most have none


def spans_of(inputs: Sequence[e.AnyEvent]) -> tuple[StepSpan, ...]:
    """The outcomes of this turn's attempts that sent parts to streams."""
    found: tuple[StepSpan, ...] = ()
    for event in inputs:
        if isinstance(event, e.StepCompleted | e.StepFailed | e.AttemptFailed) and event.sent:
            is_completed = isinstance(event, e.StepCompleted)
            found += tuple(StepSpan(event.key, span, is_completed) for span in event.sent)
    return found


def make_row(run: Run, epoch: int, at: datetime, events: tuple[e.AnyEvent, ...]) -> tuple[Turn, Row]:
    """The next row of a run, chained to the last one."""
    body = encode_turn(events)
    ordinal = run.ordinal + 1
    stamp = micros(at)
    digest = checksum(run.checksum, ordinal, epoch, stamp, body)
    return (
        Turn(run.id, ordinal, epoch, at, events, digest),
        Row(run.id, ordinal, epoch, stamp, FORMAT, digest, body),
    )


def _consequences(run: Run, draft: Draft) -> dict[str, Any]:
    """What else becomes visible with the turn."""
    children: list[NewRun] = []
    messages: list[Message] = []
    publications: list[Publication] = []
    exposed: dict[str, Exposure] = {}
    attributes: dict[str, str | None] = {}
    watch: list[tuple[str, str]] = []
    asked = {x.key: x for x in draft.commands if isinstance(x, c.StartChild)}
    for event in draft.outputs:
        match event:
            case e.ChildStarted():
                children.append(_child(run, event, asked[event.key], draft))
            case e.MessageSent():
                _send(run, event, messages, publications)
            case e.Exposed():
                exposed[event.name] = exposure(event)
            case e.AttributesSet():
                attributes.update(event.attributes)
            case e.WaitStarted(kind="topic") if event.key in run.waits:  # else it ended in this very turn
                watch.append((event.name, event.key))
            case e.Completed() | e.Failed() | e.Cancelled():
                if run.parent:
                    messages.append(_to_parent(run, event, draft.at))
            case _:
                pass
    return {
        "children": tuple(children),
        "messages": tuple(messages),
        "publications": tuple(publications),
        "exposed": tuple(exposed.values()),
        "attributes": attributes,
        "watch": tuple(watch),
    }


def exposure(event: e.Exposed) -> Exposure:
    """The value in the form that a store exposes."""
    return Exposure(event.name, bytes(event.value), event.blob, references_of((event,)))


def _child(run: Run, event: e.ChildStarted, command: c.StartChild, draft: Draft) -> NewRun:
    started = e.Started(
        workflow=event.workflow,
        version=event.version,
        code=command.code,
        style=command.style,
        codec=run.codec,
        queue=event.queue or run.queue,
        priority=run.priority,
        deadline=later(draft.at, command.deadline) if command.deadline is not None else None,
        parent=run.id,
        parent_key=event.key,
        root=run.root,
        on_cancel=event.on_cancel,
        in_rounds=command.in_rounds,
        value=event.value,
        blob=event.blob,
        refs=event.refs,
        trace=run.trace,
        attributes=command.attributes,
    )
    # Without a queue of its own it is part of its parent's work, which has its place: two places could deadlock.
    return new_run(event.run, started, draft.at, watcher=(run.id, event.key), rides=not event.queue)[0]


def _message_id(run: Run, what: str) -> str:
    """The id of a message that a row of this run sends. With the time of the run's creation: when a run is deleted, its
    id is free for another one, whose messages are others."""
    assert run.created_at is not None
    return f"{run.id}:{micros(run.created_at)}:{run.ordinal}:{what}"


def _send(run: Run, event: e.MessageSent, messages: list[Message], publications: list[Publication]) -> None:
    sender = _message_id(run, event.key)
    if event.kind == "signal":
        sender = event.id or sender
        body: e.AnyEvent = e.SignalReceived(
            message=sender,
            name=event.name,
            sender=run.id,
            value=event.value,
            blob=event.blob,
            refs=event.refs,
            trace=run.trace,
        )
        settled = e.SendSettled(key=event.key, to=event.to, name=event.name, ordinal=run.ordinal)
        reply = encode_event(settled) if event.name != ROUND else b""  # an item without further rounds has ended
        messages.append(message(event.to, sender, "signal", body, reply=reply))
    elif event.kind == "cancel":
        body = e.CancelRequested(message=sender, reason=event.name, actor=f"run {run.id}", trace=run.trace)
        messages.append(message(event.to, sender, "cancel", body))
    else:
        body = e.TopicReceived(
            key="",
            message=sender,
            name=event.name,
            value=event.value,
            blob=event.blob,
            refs=event.refs,
            trace=run.trace,
        )
        publications.append(publication(event.to, sender, body))


def _to_parent(run: Run, event: e.Terminal, at: datetime) -> Message:
    return message(run.parent, f"{END_OF}{run.id}", "child", ended(run.id, event, at, run.parent_key))


def _to_children(run: Run, *, is_late: bool) -> list[Message]:
    """What the deadline or the end of a run tells its open children that are cancelled with it. A cancel tells them
    itself, and a run that completes leaves them. A batch also leaves its items: what it has started is finished."""
    if run.cancel is not None or run.workflow == BATCH or (not is_late and isinstance(run.end, e.Completed)):
        return []
    taken = [wait.run for wait in run.waits.values() if wait.kind == "child" and wait.on_cancel == "cancel"]
    if not taken and not run.left:
        return []
    failed = isinstance(run.end, e.Failed) and not is_late
    cause = "passed its deadline" if is_late else "failed" if failed else "was killed"
    sender = _message_id(run, "end")
    body = e.CancelRequested(
        message=sender, reason=f"its parent {run.id} {cause}", actor=f"run {run.id}", trace=run.trace
    )
    return [message(child, sender, "cancel", body) for child in (*taken, *run.left)]


def _ask_for_round(run: Run) -> Message:
    """The message by which a run asks its parent for the next round, with its key there."""
    sender = _message_id(run, "round")
    value = msgspec.Raw(msgspec.json.encode(run.parent_key))
    body = e.SignalReceived(message=sender, name=ROUND, sender=run.id, value=value)
    return message(run.parent, sender, "signal", body)


def _no_more_rounds(run: Run, child: str) -> Message:
    """The message by which a run that ends tells a child that there are no more rounds."""
    sender = _message_id(run, "no more rounds")
    body = e.SignalReceived(message=sender, name=ROUND, sender=run.id, value=msgspec.Raw(NO_MORE))
    return message(child, sender, "signal", body)
