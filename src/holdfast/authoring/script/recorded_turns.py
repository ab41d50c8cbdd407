"""Replays recorded turns: which input comes next, and whether the code asks for what the journal holds.

The cursor is consumed by the program, one input at a time, also from inside a call (the fast path). Every command is
compared at the moment it is asked for, so that a difference can name the author's line.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.payload import Arguments, hash_of
from holdfast.core.turn import Turn
from holdfast.errors import HoldfastError

ADVICE = (
    "The workflow changed while this run was open, or it is not deterministic: gate the change with patched('…'), or "
    "give the workflow a new version; then resume the run."
)

_DROPPED_AT_END = (c.RunStep, c.AbandonStep, c.StartTimer, c.AwaitMessage, c.EndWait)

_OUTPUTS = frozenset(e.OUTPUTS)
_ENDS = frozenset((*e.TERMINAL, e.RetryPlanned, e.Continued))
_IGNORED = frozenset(
    (
        e.Started,
        e.Adopted,
        e.Claimed,
        e.Released,
        e.AttemptFailed,
        e.AttemptStarted,
        e.PassStarted,
        e.Paused,
        e.Resumed,
        e.PredecessorEnded,
    )
)
_ADMINISTRATIVE = (e.Claimed, e.Released, e.Paused, e.Resumed)
_CORRECTION = frozenset((e.Paused, e.MessageDropped, e.SignalReceived, e.UpdateReceived))
"""Events that an operator writes about the messages of a paused run. A turn that takes messages in and pauses is
released."""

_BEFORE = frozenset((e.PredecessorEnded, e.InputGiven))
"""What comes in before a run begins, and does not begin it."""

_ABOUT_THE_RUN = frozenset(_ADMINISTRATIVE) | _CORRECTION | _BEFORE


def is_kept_at_end(command: c.Command) -> bool:
    """Whether a command still counts when the same turn ends the run or its pass. A taken message stays taken: a later
    pass must not take it again."""
    return not isinstance(command, _DROPPED_AT_END) or (isinstance(command, c.EndWait) and bool(command.message))


def is_administrative(events: Sequence[e.AnyEvent]) -> bool:
    """Whether a row was written about the run, not by its program: paused, resumed, or ended from outside."""
    if events and isinstance(last := events[-1], e.Failed | e.Cancelled) and last.imposed:
        return True
    for event in events:
        if type(event) not in _ABOUT_THE_RUN:
            return False  # most, and at once
    if not events:
        return False
    kinds = {type(event) for event in events} - _BEFORE
    if e.Paused in kinds and kinds <= _CORRECTION:
        return True
    return bool(kinds & {e.Paused, e.Resumed}) and kinds.issubset(_ADMINISTRATIVE)


class Cursor:
    """A place in the recorded turns of one pass. A turn's inputs are `_row[:_border]`, what was asked for follows."""

    __slots__ = (
        "_asked",
        "_border",
        "_index",
        "_proven",
        "_row",
        "_sent",
        "_taken",
        "_turns",
        "at",
        "ends_run",
        "is_imposed",
        "turn",
    )

    at: datetime
    """The events of the current turn."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = turns
        self._index = 0
        self._row: Sequence[e.AnyEvent] = ()
        self._border = 0
        self._taken = 0
        self._asked = 0
        self._proven = b""
        self._sent = 0  # parts to a stream that one event stands for
        self.turn: Turn | None = None
        self.ends_run: bool = False  # this turn ended the run or its pass
        self.is_imposed: bool = False  # the engine ended the run in this turn, whatever the program wanted

    def next_turn(self) -> Turn | None:
        """Moves to the next turn; its inputs begin."""
        if self._index >= len(self._turns):
            self.turn = None
            return None
        self.turn = turn = self._turns[self._index]
        self.at = turn.at
        self._index += 1
        self._taken = 0
        events = turn.events
        if len(events) == 2 and type(events[0]) is e.StepCompleted and type(events[1]) is e.StepScheduled:
            self._row = events
            self._border = self._asked = 1
            self.ends_run = self.is_imposed = False
            return turn
        inputs, outputs = split(events)
        self._row = (*inputs, *outputs)
        self._border = self._asked = len(inputs)
        last = outputs[-1] if outputs else None
        self.ends_run = type(last) in _ENDS
        self.is_imposed = isinstance(last, e.Failed | e.Cancelled) and last.imposed
        return turn

    def next_input(self) -> e.AnyEvent | None:
        if self._taken >= self._border:
            return None
        event = self._row[self._taken]
        self._taken += 1
        return event

    def coming_input(self) -> e.AnyEvent | None:
        """The input after the last one taken."""
        return self._row[self._taken] if self._taken < self._border else None

    def expected(self) -> e.AnyEvent | None:
        """What the journal expects next in this turn."""
        return self._row[self._asked] if self._asked < len(self._row) else None

    def confirm(self) -> None:
        """Confirms that the code asked for exactly that. Consecutive parts of a stream are one event."""
        event = self._row[self._asked]
        if type(event) is e.Streamed and self._sent + 1 < event.parts:
            self._sent += 1
            return
        self._sent = 0
        self._asked += 1

    def skips(self, command: c.Command) -> bool:
        """Whether the journal leaves out a command of this turn by rule."""
        return self.is_imposed or (self.ends_run and not is_kept_at_end(command))

    def recorded_args(self, key: str) -> bytes | None:
        """The arguments of this turn's next step, if that is its key: they were checked when they were recorded."""
        event = self._row[self._asked] if self._asked < len(self._row) else None
        if type(event) is e.StepScheduled and event.key == key:
            self._proven = proven = bytes(event.value)
            return proven
        return None

    def answer_to(self, key: str, name: str, args: bytes, *, is_idle: bool) -> e.StepCompleted | bool:
        """Whether exactly this step is next in the journal; if so, confirms it. Fast path: if nothing else can run
        (`is_idle`), this turn is used up and the next one begins with the step's result, moves there and returns that
        result."""
        row, asked = self._row, self._asked
        if asked >= len(row) or self.ends_run:
            return False
        event = row[asked]
        if (
            type(event) is not e.StepScheduled
            or event.key != key
            or (event.step or key) != name
            or (args is not self._proven and bytes(event.value) != args)
            or event.blob
        ):
            return False
        self._asked = asked = asked + 1
        index = self._index
        if not is_idle or asked < len(row) or self._taken < self._border or index >= len(self._turns):
            return True
        turn = self._turns[index]
        events = turn.events
        first = events[0] if events else None
        if type(first) is not e.StepCompleted or first.key != key:
            return True
        if len(events) == 2 and type(events[1]) is e.StepScheduled:  # as `next_turn` does it; nearly every turn is so
            self.turn = turn
            self.at = turn.at
            self._index = index + 1
            self._row = events
            self._border = self._asked = 1
        else:
            self.next_turn()
        self._taken = 1
        return first


def split(events: Sequence[e.AnyEvent]) -> tuple[list[e.AnyEvent], list[e.AnyEvent]]:
    """Splits a row into the program's inputs and what it asked for."""
    inputs: list[e.AnyEvent] = []
    outputs: list[e.AnyEvent] = []
    for event in events:
        if type(event) in _OUTPUTS:
            outputs.append(event)
        elif type(event) not in _IGNORED:
            inputs.append(event)
    return inputs, outputs


def is_same(event: e.AnyEvent, command: c.Command, reads: Arguments | None = None) -> bool:
    """Whether the journal's event records this command. Times are the journal's: a sleep keeps its first end."""
    match command:
        case c.RunStep():
            return (
                type(event) is e.StepScheduled
                and event.key == command.key
                and (event.step or event.key) == command.spec.name
                and (not command.spec.compares or same_arguments(event, command.args, command.spec.arguments))
            )
        case c.AbandonStep():
            return type(event) is e.StepAbandoned and event.key == command.key
        case c.StartTimer():
            return type(event) is e.SleepStarted and event.key == command.key
        case c.AwaitMessage():
            return type(event) is e.WaitStarted and (event.key, event.name, event.kind) == (
                command.key,
                command.name,
                command.kind,
            )
        case c.EndWait():
            return type(event) is e.WaitEnded and (event.key, event.message) == (command.key, command.message)
        case c.StartChild():
            return (
                type(event) is e.ChildStarted
                and (event.key, event.workflow, event.run) == (command.key, command.workflow, command.run)
                and (reads is None or same_arguments(event, command.args, reads))
            )
        case c.Send():
            return type(event) is e.MessageSent and (event.key, event.to, event.kind, event.name) == (
                command.key,
                command.to,
                command.kind,
                command.name,
            )
        case c.Expose():
            return type(event) is e.Exposed and event.name == command.name
        case c.Emit():
            return type(event) is e.Streamed and event.name == command.name
        case c.Answer():
            return type(event) is e.Answered and (event.message, event.outcome) == (command.message, command.outcome)
        case c.SetAttributes():
            return type(event) is e.AttributesSet and event.attributes == command.attributes
        case c.Patch():
            return type(event) is e.Patched and event.name == command.name
        case c.Enter():
            return type(event) is e.Entered and event.key == command.key
        case c.Keep():
            return type(event) is e.Kept
        case c.Complete():
            return type(event) is e.Completed
        case c.Fail():
            return type(event) in (e.Failed, e.RetryPlanned)
        case c.Stop():
            return type(event) is e.Cancelled
        case c.ContinueAs():
            return type(event) is e.Continued and event.workflow == command.workflow


def same_arguments(event: e.StepScheduled | e.ChildStarted, args: bytes, arguments: Arguments) -> bool:
    """Whether it was asked for with these arguments."""
    kept = event.blob or (event.hashed if isinstance(event, e.StepScheduled) else "")
    if kept:
        return kept == hash_of(args)
    recorded = bytes(event.value)
    if recorded == args:
        return True
    # A new parameter or field with a default is no other request: read the old one with today's eyes.
    try:
        return arguments.decode(recorded) == arguments.decode(args)
    except HoldfastError:
        return False


def say_event(event: e.AnyEvent | None) -> str:
    """An event of the journal, for the message of a divergence."""
    match event:
        case None:
            return "nothing more in this turn"
        case e.StepScheduled():
            given = f"arguments of hash {event.hashed[:12]}" if event.hashed else _short(event.value)
            return f"step {event.step or event.key!r} (key {event.key!r}) with {given}"
        case e.SleepStarted():
            return f"sleep {event.key!r}"
        case e.WaitStarted():
            return f"wait for {event.kind} {event.name!r} (key {event.key!r})"
        case e.ChildStarted():
            return f"child {event.workflow!r} (key {event.key!r}, run {event.run!r}) with {_short(event.value)}"
        case e.Completed() | e.Failed() | e.Cancelled():
            return f"the run's end ({type(event).__name__.lower()})"
        case _:
            return f"{type(event).__name__} {getattr(event, 'key', '') or getattr(event, 'name', '')!r}"


def say_command(command: c.Command | None) -> str:
    """A command of the code, for the message of a divergence."""
    match command:
        case None:
            return "nothing"
        case c.RunStep():
            return f"step {command.spec.name!r} (key {command.key!r}) with {_short(command.args)}"
        case c.StartTimer():
            return f"sleep {command.key!r}"
        case c.AwaitMessage():
            return f"wait for {command.kind} {command.name!r} (key {command.key!r})"
        case c.StartChild():
            return f"child {command.workflow!r} (key {command.key!r}, run {command.run!r}) with {_short(command.args)}"
        case c.Complete() | c.Fail() | c.Stop():
            return f"the run's end ({type(command).__name__.lower()})"
        case _:
            return f"{type(command).__name__} {getattr(command, 'key', '') or getattr(command, 'name', '')!r}"


def _short(value: bytes | msgspec.Raw) -> str:
    text = bytes(value).decode(errors="replace")
    return text if len(text) <= 120 else text[:117] + "…"
