"""Where the running pass of a run begins.

A run starts once, but its body may begin several times: `continue_as` begins it anew with other arguments, a
workflow-level retry begins it again over everything that is settled, and `run.retry()` starts a new run that adopts
the settled prefix of an old one. A program is one pass; what went before reaches it as a `Beginning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from holdfast.core import events as e
from holdfast.core.turn import Turn
from holdfast.errors import CorruptJournal

Settled: TypeAlias = e.StepCompleted | e.StepFailed | e.TimerFired | e.ChildEnded | e.WaitEnded | e.TopicReceived
Opened: TypeAlias = e.StepScheduled | e.SleepStarted | e.ChildStarted | e.WaitStarted


@dataclass(slots=True)
class Memo:
    """What an earlier pass asked for under a key, and how it came out, if it did."""

    opened: Opened | None = None
    settled: Settled | None = None
    message: e.SignalReceived | None = None


@dataclass(slots=True)
class Beginning:
    """Everything a program must know to begin its pass."""

    run: str
    start: e.Started | e.Continued
    at: datetime
    created_at: datetime
    ordinal: int
    number: int = 1
    buffered: list[e.SignalReceived] = field(default_factory=list[e.SignalReceived])
    memo: dict[str, Memo] = field(default_factory=dict[str, Memo])
    patches: set[str] = field(default_factory=set[str])
    origin: int = 1  # the row that holds `start`
    undone: set[str] = field(default_factory=set[str])  # keys whose effect an earlier pass took back: they are spent

    @property
    def identity(self) -> str:
        """What derived ids are made from: the run, and after a `continue_as` which of its lives this is."""
        return self.run if self.origin == 1 else f"{self.run}#{self.origin}"


def last_beginning(run: str, turns: Sequence[Turn]) -> tuple[Beginning, Sequence[Turn]]:
    """The beginning of the pass now running, and the turns of that pass. `turns` is the whole journal."""
    if not turns or not isinstance(turns[0].events[0], e.Started):
        raise CorruptJournal(f"run {run}: the journal does not begin with its start")
    first = turns[0]
    started = turns[0].events[0]
    assert isinstance(started, e.Started)
    begins = [index for index, turn in enumerate(turns) if any(isinstance(x, _BEGINS) for x in turn.events)]
    beginning = Beginning(run, started, first.at, first.at, 1)
    _adopt(beginning, first)
    if not begins:
        return beginning, turns[1:]
    collected = _Collected()
    after = 1
    for index in range(1, begins[-1] + 1):
        turn = turns[index]
        for event in turn.events:
            if isinstance(event, e.Continued):
                beginning = Beginning(
                    run, event, turn.at, first.at, turn.ordinal, buffered=collected.waiting(), origin=turn.ordinal
                )
                collected = _Collected(collected.signals)
                after = index + 1
            elif isinstance(event, e.RetryPlanned):
                memo = {**beginning.memo, **collected.memo}
                undone = beginning.undone | collected.undone
                for key in undone:
                    memo.pop(key, None)
                beginning = Beginning(
                    run,
                    beginning.start,
                    turn.at,
                    first.at,
                    turn.ordinal,
                    beginning.number + 1,
                    collected.waiting(),
                    memo,
                    beginning.patches | collected.patches,
                    beginning.origin,
                    undone,
                )
                after = index + 1
            else:
                collected.take(event)
    return beginning, turns[after:]


def settled_prefix(turns: Sequence[Turn]) -> tuple[e.AnyEvent, ...]:
    """The facts of a finished run that a retry of it takes over: completed steps, fired sleeps, ended children."""
    facts: dict[str, list[e.AnyEvent]] = {}
    undone: set[str] = set()
    for turn in turns:
        for event in turn.events:
            if isinstance(event, e.Adopted):
                for fact in event.facts:
                    facts.setdefault(fact.key, []).append(fact)
            elif isinstance(event, e.StepScheduled | e.SleepStarted | e.ChildStarted):
                facts[event.key] = [event]
                undone.discard(event.key)
            elif isinstance(event, e.StepCompleted | e.TimerFired | e.ChildEnded) and event.key in facts:
                facts[event.key].append(event)
                asked = facts[event.key][0]
                if isinstance(asked, e.StepScheduled) and asked.undoes:
                    undone |= {asked.key, asked.undoes}
            elif isinstance(event, e.Continued):
                facts.clear()
                undone.clear()
    kept = [pair for key, pair in facts.items() if len(pair) == 2 and _succeeded(pair[1]) and key not in undone]
    return tuple(fact for pair in kept for fact in pair)


_BEGINS = (e.Continued, e.RetryPlanned)


def _succeeded(fact: e.AnyEvent) -> bool:
    return not isinstance(fact, e.ChildEnded) or fact.status == "completed"


class _Collected:
    """What the turns of finished passes left behind."""

    def __init__(self, signals: dict[str, e.SignalReceived] | None = None) -> None:
        self.memo: dict[str, Memo] = {}
        self.signals: dict[str, e.SignalReceived] = signals if signals is not None else {}
        self.patches: set[str] = set()
        self.undone: set[str] = set()

    def take(self, event: e.AnyEvent) -> None:
        if isinstance(event, Opened):
            self.memo.setdefault(event.key, Memo()).opened = event
            if isinstance(event, e.StepScheduled) and event.undoes:
                self.undone.add(event.key)
        elif isinstance(event, Settled):
            memo = self.memo.setdefault(event.key, Memo())
            memo.settled = event
            if isinstance(event, e.StepCompleted) and isinstance(memo.opened, e.StepScheduled) and memo.opened.undoes:
                self.undone.add(memo.opened.undoes)
            if isinstance(event, e.WaitEnded):
                memo.message = self.signals.pop(event.message, None)
        elif isinstance(event, e.SignalReceived):
            self.signals[event.message] = event
        elif isinstance(event, e.Patched):
            self.patches.add(event.name)

    def waiting(self) -> list[e.SignalReceived]:
        return list(self.signals.values())


def _adopt(beginning: Beginning, turn: Turn) -> None:
    collected = _Collected()
    for event in turn.events:
        if isinstance(event, e.Adopted):
            for fact in event.facts:
                collected.take(fact)
    beginning.memo = collected.memo
