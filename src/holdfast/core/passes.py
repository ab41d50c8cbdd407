"""Where the running pass of a run begins.

A run starts once, but its body may begin several times: `continue_as` restarts it with different arguments, a
workflow-level retry restarts it over everything that is settled, and `run.retry()` starts a new run that adopts what an
old one had settled. A program is one pass; it gets what happened before as a `Beginning`.

What counts as settled: completed steps, steps that failed for good, sleeps and waits that ended by themselves, children
that ended, signals that were delivered. Not what the author's code gave up (a cancelled wait starts again; a cancelled
step counts only if it completed nevertheless), and not what was undone: its key is spent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import TypeAlias, TypeVar

import msgspec

from holdfast.core import events as e
from holdfast.core.mailbox import apply_attributes
from holdfast.core.run import Run
from holdfast.core.turn import Turn
from holdfast.errors import CorruptJournal

Settled: TypeAlias = (
    e.StepCompleted | e.StepFailed | e.TimerFired | e.ChildEnded | e.WaitEnded | e.TopicReceived | e.SendSettled
)
Opened: TypeAlias = e.StepScheduled | e.SleepStarted | e.ChildStarted | e.WaitStarted


Start = TypeVar("Start", e.Started, e.Continued, e.Started | e.Continued)


class Memo(msgspec.Struct, gc=False):
    """What an earlier pass asked for under a key, and its outcome, if there is one."""

    opened: Opened | None = None
    settled: Settled | None = None
    message: e.SignalReceived | e.UpdateReceived | None = None


class Beginning(msgspec.Struct, gc=False):
    """Everything a program must know to begin its pass."""

    run: str
    start: e.Started | e.Continued
    at: datetime
    created_at: datetime
    ordinal: int
    number: int = 1
    buffered: Sequence[e.SignalReceived] = ()
    memo: dict[str, Memo] = {}
    patches: AbstractSet[str] = frozenset()
    origin: int = 1  # the row that holds `start`
    undone: AbstractSet[str] = frozenset()  # keys whose effect an earlier pass took back: they are spent
    left: tuple[str, ...] = ()  # open children of earlier lives that a cancel of the run is to reach
    answered: AbstractSet[str] = frozenset()  # updates that an earlier pass, or the run that is retried, has settled
    attributes: Mapping[str, str] = {}  # as they are when the pass begins

    @property
    def identity(self) -> str:
        """What derived ids are made from: the run and, after a `continue_as`, the number of this restart."""
        return self.run if self.origin == 1 else f"{self.run}#{self.origin}"


def with_inputs(start: Start, given: Sequence[e.InputGiven]) -> Start:
    """The start with the inputs of calls that joined the run before it began: they replace its arguments, or extend
    one of them. Payloads that are extended must be loaded."""
    added: dict[str, list[e.InputGiven]] = {}
    for event in given:
        if event.into:
            added.setdefault(event.into, []).append(event)
        else:
            start = msgspec.structs.replace(start, value=event.value, blob=event.blob, refs=event.refs)
    if not added:
        return start
    arguments = msgspec.json.decode(start.value, type=dict[str, msgspec.Raw])
    refs = dict.fromkeys(start.refs)
    for name, events in added.items():
        items = msgspec.json.decode(arguments[name], type=list[msgspec.Raw])
        items += [event.value for event in events]
        arguments[name] = msgspec.Raw(msgspec.json.encode(items))
        refs.update(dict.fromkeys(ref for event in events for ref in event.refs))
    return msgspec.structs.replace(start, value=msgspec.Raw(msgspec.json.encode(arguments)), refs=tuple(refs))


def last_beginning(run: str, turns: Sequence[Turn]) -> tuple[Beginning, Sequence[Turn]]:
    """The beginning of the pass now running, and the turns of that pass. `turns` is the whole journal."""
    first = _first(run, turns)
    created_at = turns[0].at
    last = len(turns) - 1
    while last and not ((events := turns[last].events) and type(events[-1]) in _BOUNDARIES):
        last -= 1  # what ends a pass is the last thing in its row
    if last == 0 and len(turns[0].events) == 1:  # most runs: one pass, and nothing adopted
        only = Beginning(run, first, created_at, created_at, turns[0].ordinal, attributes=first.attributes)
        return only, turns[1:]
    past, attributes = _Past(), dict(first.attributes)
    start: e.Started | e.Continued = first
    number = origin = 1
    given = [x for turn in turns[: last + 1] for x in turn.events if isinstance(x, e.InputGiven)]
    start = with_inputs(start, given)
    for turn in turns[: last + 1]:
        for event in turn.events:
            if isinstance(event, e.Continued):
                past, start, number, origin = past.next_life(), event, 1, turn.ordinal
            elif isinstance(event, e.RetryPlanned):
                number += 1
            elif isinstance(event, e.AttributesSet):
                apply_attributes(attributes, event.attributes)
            else:
                past.take(event, turn.ordinal)
    beginning = Beginning(
        run,
        start,
        turns[last].at,
        created_at,
        turns[last].ordinal,
        number,
        list(past.signals.values()),
        past.memo,
        past.patches,
        origin,
        past.undone,
        tuple(past.left),
        past.answered,
        attributes,
    )
    return beginning, turns[last + 1 :]


def next_beginning(run: Run, start: e.Continued) -> Beginning:
    """The beginning that `continue_as` asked for, by the fold after that turn: the same that `last_beginning` finds."""
    assert run.created_at is not None
    assert run.updated_at is not None
    signals, left = list(run.buffered.values()), tuple(run.left)
    return Beginning(
        run.id,
        start,
        run.updated_at,
        run.created_at,
        run.ordinal,
        buffered=signals,
        origin=run.origin,
        left=left,
        attributes=dict(run.attributes),
    )


def last_start(run: str, turns: Sequence[Turn]) -> e.Started:
    """The start of a run, with the workflow and arguments of its last `continue_as`: what a retry of it begins with."""
    started = _first(run, turns)
    started = with_inputs(started, [x for turn in turns for x in turn.events if isinstance(x, e.InputGiven)])
    for turn in turns:
        for event in turn.events:
            if isinstance(event, e.Continued):
                started = msgspec.structs.replace(
                    started,
                    workflow=event.workflow,
                    version=event.version,
                    value=event.value,
                    blob=event.blob,
                    refs=event.refs,
                )
    return started


def settled_prefix(turns: Sequence[Turn]) -> tuple[e.Fact, ...]:
    """What a retry of a finished run takes over, since its last `continue_as`: completed steps, sleeps that ended,
    children that completed, messages that waits took, and untaken signals. Not failures, not time-outs, and
    not what was undone."""
    past = _Past()
    for turn in turns:
        for event in turn.events:
            if isinstance(event, e.Continued):
                past = past.next_life()
            else:
                past.take(event, turn.ordinal)
    facts: list[e.Fact] = []
    for memo in past.memo.values():
        match memo.opened, memo.settled:
            case (e.StepScheduled() as asked, e.StepCompleted() as answer):
                facts += [asked, answer]
            case (e.SleepStarted() as asked, e.TimerFired() as answer):
                facts += [asked, answer]
            case (e.ChildStarted() as asked, e.ChildEnded(status="completed") as answer):
                facts += [asked, answer]
            case (e.WaitStarted() as asked, e.TopicReceived() as answer):
                facts += [asked, answer]
            case (_, e.WaitEnded() as answer) if memo.message is not None:
                facts += [memo.message, answer]
            case _:
                pass
    # Updates were answered or refused by the run that ended, and are not asked again.
    return (*facts, *(x for x in past.signals.values() if not isinstance(x, e.UpdateReceived)))


def _first(run: str, turns: Sequence[Turn]) -> e.Started:
    started = turns[0].events[0] if turns and turns[0].events else None
    if not isinstance(started, e.Started):
        raise CorruptJournal(f"run {run}: the journal does not begin with its start")
    return started


def place_of_send(name: str, to: str, number: int) -> str:
    """The key under which a pass remembers its signals: the first of that name to that run, the second, … Their real
    keys follow from the order of all calls, which may differ in the next pass. No key of a call looks like this."""
    return f"\0{number} {name} {to}"


_BOUNDARIES = frozenset((e.Continued, e.RetryPlanned))


class _Past:
    """What the turns of finished passes left, since the last `continue_as`. Only signals survive one, and children that
    are cancelled with the run."""

    def __init__(self) -> None:
        self.memo: dict[str, Memo] = {}
        self.signals: dict[str, e.SignalReceived] = {}
        self.left: dict[str, None] = {}
        self.patches: set[str] = set()
        self.answered: set[str] = set()
        self.undone: set[str] = set()
        self._given_up: set[str] = set()
        self._sent: Counter[tuple[str, str]] = Counter()

    def next_life(self) -> _Past:
        """What remains after `continue_as`."""
        past = _Past()
        past.signals, past.left = self.signals, self.left
        for memo in self.memo.values():
            if isinstance(memo.opened, e.ChildStarted) and memo.opened.on_cancel and memo.settled is None:
                past.left[memo.opened.run] = None
        return past

    def take(self, event: e.AnyEvent, ordinal: int) -> None:
        match event:
            case e.Adopted():
                for fact in event.facts:
                    self.take(fact, ordinal)
                    if isinstance(fact, e.UpdateReceived):
                        self.answered.add(fact.message)
            case e.StepScheduled() | e.SleepStarted() | e.ChildStarted() | e.WaitStarted():
                self._open(event)
            case e.StepCompleted() | e.StepFailed():
                self._settle_step(event)
            case e.StepAbandoned():
                self._given_up.add(event.key)
            case e.TimerFired() | e.TopicReceived() | e.ChildEnded():
                self._settle_wait(event)
            case e.WaitEnded():
                self._end_wait(event)
            case e.SignalReceived():
                self.signals[event.message] = event
            case e.MessageDropped():
                self.signals.pop(event.message, None)
            case e.Answered():
                self.answered.add(event.message)
            case e.MessageSent() if event.kind == "signal" and not event.id:  # an id of its own counts in the store
                self._send(event, ordinal)
            case e.SendSettled() if event.status != "delivered":
                self._lose(event)
            case e.PassStarted():
                self._sent.clear()
            case e.Patched():
                self.patches.add(event.name)
            case _:
                pass

    def _send(self, event: e.MessageSent, ordinal: int) -> None:
        """Records a sent signal. It arrives unless the run is told otherwise. One that was delivered counts, even if it
        is sent again."""
        self._sent[event.name, event.to] += 1
        place = place_of_send(event.name, event.to, self._sent[event.name, event.to])
        settled = e.SendSettled(key=event.key, to=event.to, name=event.name, ordinal=ordinal)
        self.memo.setdefault(place, Memo(settled=settled))

    def _lose(self, event: e.SendSettled) -> None:
        lost = (event.key, event.ordinal)
        for place, memo in list(self.memo.items()):
            if isinstance(memo.settled, e.SendSettled) and (memo.settled.key, memo.settled.ordinal) == lost:
                del self.memo[place]

    def _open(self, event: Opened) -> None:
        self.memo[event.key] = Memo(event)
        self._given_up.discard(event.key)
        if isinstance(event, e.StepScheduled) and event.undoes:
            self.undone.add(event.key)
        elif isinstance(event, e.ChildStarted):
            self.left.pop(event.run, None)  # asked for again: it is a child of this life

    def _settle_step(self, event: e.StepCompleted | e.StepFailed) -> None:
        memo = self.memo.get(event.key)
        if memo is None or not isinstance(memo.opened, e.StepScheduled):
            return
        if memo.opened.undoes:
            self.memo.pop(event.key)
            if isinstance(event, e.StepCompleted):
                self.memo.pop(memo.opened.undoes, None)
                self.undone.add(memo.opened.undoes)
        elif isinstance(event, e.StepCompleted) or event.key not in self._given_up:
            memo.settled = event

    def _settle_wait(self, event: e.TimerFired | e.TopicReceived | e.ChildEnded) -> None:
        if isinstance(event, e.ChildEnded):
            self.left.pop(event.run, None)
        memo = self.memo.get(event.key)
        if memo is None:
            return  # a time-out of asyncio's, or something from before a `continue_as`
        if isinstance(event, e.ChildEnded):
            if isinstance(memo.opened, e.ChildStarted) and memo.opened.run == event.run:
                memo.settled = event
        elif not isinstance(memo.opened, e.ChildStarted):  # a child outlives the wait for it
            memo.settled = event

    def _end_wait(self, event: e.WaitEnded) -> None:
        message = self.signals.pop(event.message, None)
        memo = self.memo.get(event.key)
        if message is not None:
            self.memo[event.key] = Memo(memo.opened if memo else None, event, message)
        elif memo is not None and not isinstance(memo.opened, e.ChildStarted):
            self.memo.pop(event.key)
