"""From what happened and what the program asked for to one `Commit`: pure, but for the values it is given."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.doing import doing, encode_doing
from holdfast.core.instants import LONGEST_KEPT, kept_instant, later
from holdfast.core.messages import encode_event, ended
from holdfast.core.projection import project
from holdfast.core.rounds import NO_MORE, ROUND
from holdfast.core.run import Run
from holdfast.core.turn import FORMAT, Row, Turn, checksum, encode_events, genesis, micros
from holdfast.errors import InvalidDuration
from holdfast.ports.inbox import Message, Publication
from holdfast.ports.journal import Commit, Exposure, Park
from holdfast.ports.runs import NewRun, RunRow

_ENDS = frozenset(e.TERMINAL)


class Draft(msgspec.Struct, gc=False):
    """A turn being written."""

    at: datetime
    inputs: list[e.AnyEvent]
    outputs: list[e.AnyEvent] = []
    commands: Sequence[c.Command] = ()
    blobs: dict[str, bytes] = {}

    @property
    def is_terminal(self) -> bool:
        """Whether the run ends with it."""
        return bool(self.outputs) and type(self.outputs[-1]) in _ENDS

    @property
    def ends_pass(self) -> bool:
        """Whether the body begins anew after it."""
        return bool(self.outputs) and isinstance(self.outputs[-1], e.Continued | e.RetryPlanned)

    @property
    def asks_for_step(self) -> bool:
        """Whether it is one of the many whose last word is a step asked for."""
        return bool(self.outputs) and type(self.outputs[-1]) is e.StepScheduled


def finish(
    run: Run, no: int, epoch: int, draft: Draft, *, inbox_seen: int, is_consuming: bool, park: Park | None
) -> Commit:
    """Applies the draft to the fold and makes the commit of it."""
    watching = [key for key, wait in run.waits.items() if wait.kind == "topic"] if run.waits else ()
    after = run.checksum
    turn, row = make_row(run, epoch, draft.at, (*draft.inputs, *draft.outputs))
    was_due, is_terminal = run.round == "due", draft.is_terminal
    in_rounds = [wait.run for wait in run.waits.values() if wait.in_rounds] if is_terminal and run.waits else ()
    run.apply(turn)
    unwatch = tuple(key for key in watching if key not in run.waits)
    extras: dict[str, Any] = {}
    if [event for event in draft.outputs if type(event) is not e.StepScheduled]:  # most turns only ask for steps
        extras = _consequences(run, draft)
    if run.round == "due" and not was_due:
        extras["messages"] = (*extras.get("messages", ()), _ask_for_round(run))
    if in_rounds:
        extras["messages"] = (*extras["messages"], *(_no_more_rounds(run, child) for child in in_rounds))
    return Commit(
        no=no,
        row=row,
        after=after,
        projection=project(run),
        inbox_seen=inbox_seen,
        is_consuming=is_consuming,
        is_terminal=is_terminal,
        is_progress=is_progress(draft),
        unwatch=unwatch,
        blobs=draft.blobs,
        park=park,
        **extras,
    )


def is_progress(draft: Draft) -> bool:
    """Whether the turn says more than who claimed the run."""
    return bool(draft.outputs) or any(type(event) is not e.Claimed for event in draft.inputs)


def make_row(run: Run, epoch: int, at: datetime, events: tuple[e.AnyEvent, ...]) -> tuple[Turn, Row]:
    """The next row of a run, chained to the last one."""
    body = encode_events(events)
    ordinal = run.ordinal + 1
    stamp = micros(at)
    digest = checksum(run.checksum, ordinal, epoch, stamp, body)
    return (
        Turn(run.id, ordinal, epoch, at, events, digest),
        Row(run.id, ordinal, epoch, stamp, FORMAT, digest, body),
    )


def new_run(
    run_id: str,
    started: e.Started,
    at: datetime,
    *,
    blobs: dict[str, bytes] | None = None,
    needs: tuple[str, ...] = (),
    input_hash: str = "",
    watcher: tuple[str, str] | None = None,
    adopted: e.Adopted | None = None,
) -> tuple[NewRun, Turn]:
    """A run to be made: its first row, and what its row says."""
    run, started = Run(run_id), _kept(started)
    events: tuple[e.AnyEvent, ...] = (started,) if adopted is None else (started, adopted)
    body = encode_events(events)
    stamp = micros(at)
    digest = checksum(genesis(run_id), 1, 0, stamp, body)
    turn = Turn(run_id, 1, 0, at, events, digest)
    run.apply(turn)
    new = NewRun(
        row=Row(run_id, 1, 0, stamp, FORMAT, digest, body),
        started=msgspec.structs.replace(started, root=run.root, available_at=started.available_at or at),
        doing=encode_doing(doing(run)),
        input_hash=input_hash,
        blobs=tuple((blobs or {}).items()),
        needs=needs,
        watcher=watcher,
    )
    return new, turn


def _kept(started: e.Started) -> e.Started:
    """The same with instants in UTC; `InvalidInput` if one of them, or how long to keep the run, cannot be stored."""
    begins, deadline = started.available_at, started.deadline
    if started.keep is not None and started.keep > LONGEST_KEPT:
        raise InvalidDuration(f"keep: {started.keep.days} days is more than 10,000 years. Leave it out: for ever.")
    if begins is None and deadline is None:
        return started
    return msgspec.structs.replace(
        started,
        available_at=None if begins is None else kept_instant(begins, "delay"),
        deadline=None if deadline is None else kept_instant(deadline, "deadline"),
    )


def _consequences(run: Run, draft: Draft) -> dict[str, Any]:
    """What else becomes visible with the turn."""
    children: list[NewRun] = []
    messages: list[Message] = []
    publications: list[Publication] = []
    exposed: dict[str, Exposure] = {}
    watch: list[tuple[str, str]] = []
    asked = {x.key: x for x in draft.commands if isinstance(x, c.StartChild)}
    for event in draft.outputs:
        match event:
            case e.ChildStarted():
                children.append(_child(run, event, asked[event.key], draft))
            case e.MessageSent():
                _send(run, event, messages, publications)
            case e.Exposed():
                exposed[event.name] = Exposure(event.name, bytes(event.value), event.blob)
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
        "watch": tuple(watch),
    }


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
    )
    return new_run(event.run, started, draft.at, watcher=(run.id, event.key))[0]


def _send(run: Run, event: e.MessageSent, messages: list[Message], publications: list[Publication]) -> None:
    sender = f"{run.id}:{run.ordinal}:{event.key}"
    if event.kind == "signal":
        body: e.AnyEvent = e.SignalReceived(
            message=sender, name=event.name, sender=run.id, value=event.value, blob=event.blob
        )
        settled = e.SendSettled(key=event.key, to=event.to, name=event.name, ordinal=run.ordinal)
        reply = encode_event(settled) if event.name != ROUND else b""  # who is given no rounds any more has ended
        messages.append(Message(run=event.to, id=sender, kind="signal", body=encode_event(body), reply=reply))
    elif event.kind == "cancel":
        body = e.CancelRequested(message=sender, reason=event.name, actor=f"run {run.id}")
        messages.append(Message(run=event.to, id=sender, kind="cancel", body=encode_event(body)))
    else:
        body = e.TopicReceived(key="", message=sender, name=event.name, value=event.value, blob=event.blob)
        publications.append(Publication(topic=event.to, id=sender, body=encode_event(body)))


def _to_parent(run: Run, event: e.Terminal, at: datetime) -> Message:
    body = encode_event(ended(run.id, event, at, run.parent_key))
    return Message(run=run.parent, id=f"end of {run.id}", kind="child", body=body)


def _ask_for_round(run: Run) -> Message:
    """What a run that waits for its next round tells its parent: its key there."""
    sender = f"{run.id}:{run.ordinal}:round"
    value = msgspec.Raw(msgspec.json.encode(run.parent_key))
    body = e.SignalReceived(message=sender, name=ROUND, sender=run.id, value=value)
    return Message(run=run.parent, id=sender, kind="signal", body=encode_event(body))


def _no_more_rounds(run: Run, child: str) -> Message:
    """What a run that ends tells a child to which it gave rounds."""
    sender = f"{run.id}:{run.ordinal}:no more rounds"
    body = e.SignalReceived(message=sender, name=ROUND, sender=run.id, value=msgspec.Raw(NO_MORE))
    return Message(run=child, id=sender, kind="signal", body=encode_event(body))


def run_of_row(row: RunRow, stored: Sequence[Row]) -> Run:
    """As much of a fold as a row can give: for pausing a run whose journal, of which this much is stored, cannot be
    read. What is written follows its last row, if that is there."""
    is_whole = bool(stored) and stored[-1].ordinal == row.next_ordinal - 1
    return Run(
        row.id,
        workflow=row.workflow,
        version=row.version,
        status=row.status,
        parent=row.parent,
        parent_key=row.parent_key,
        root=row.root,
        started_at=row.started_at,
        updated_at=row.updated_at,
        created_at=row.created_at,
        ordinal=row.next_ordinal - 1,
        epoch=row.epoch,
        checksum=stored[-1].checksum if is_whole else b"",
    )
