"""Going through recorded turns: which input comes next, and whether the code asks for what the journal holds.

The cursor is consumed by the program, one input at a time, also from inside a call (the fast path). Every command is
compared at the moment it is asked for, so that a difference can name the author's line.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.payload import hash_of
from holdfast.core.turn import Turn
from holdfast.errors import HoldfastError

_DROPPED_AT_END = (c.RunStep, c.AbandonStep, c.StartTimer, c.AwaitMessage, c.EndWait)
"""What a program asks for in the very turn that ends its run is not done, hence not in the journal."""

_IGNORED = (e.Started, e.Adopted, e.Claimed, e.Released, e.AttemptFailed, e.AttemptStarted, e.PassStarted, e.Paused, e.Resumed)


class Cursor:
    """A place in the recorded turns of one pass."""

    __slots__ = ("_asked", "_index", "_inputs", "_outputs", "_taken", "_turns", "turn")

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = turns
        self._index = 0
        self.turn: Turn | None = None
        self._inputs: list[e.AnyEvent] = []
        self._outputs: list[e.AnyEvent] = []
        self._taken = 0
        self._asked = 0

    def next_turn(self) -> Turn | None:
        """Moves to the next turn; its inputs begin."""
        if self._index >= len(self._turns):
            self.turn = None
            return None
        self.turn = turn = self._turns[self._index]
        self._index += 1
        self._inputs, self._outputs = split(turn.events)
        self._taken = self._asked = 0
        return turn

    def next_input(self) -> e.AnyEvent | None:
        """The next input of this turn."""
        if self._taken >= len(self._inputs):
            return None
        event = self._inputs[self._taken]
        self._taken += 1
        return event

    def outcome_follows(self, key: str) -> e.StepCompleted | None:
        """The fast path: this turn is used up and the next one begins with the result of `key`. Moves there."""
        if self._taken < len(self._inputs) or self._asked < len(self._outputs) or self._index >= len(self._turns):
            return None
        first = self._turns[self._index].events[0]
        if type(first) is not e.StepCompleted or first.key != key:
            return None
        self.next_turn()
        self._taken = 1
        return first

    def expected(self) -> e.AnyEvent | None:
        """What the journal says is asked for next in this turn."""
        return self._outputs[self._asked] if self._asked < len(self._outputs) else None

    def confirm(self) -> None:
        """The code asked for just that."""
        self._asked += 1

    @property
    def ends_run(self) -> bool:
        """Whether this turn ended the run or its pass."""
        return bool(self._outputs) and isinstance(self._outputs[-1], (*e.TERMINAL, e.RetryPlanned, e.Continued))

    @property
    def is_imposed(self) -> bool:
        """Whether the engine ended the run in this turn, whatever the program wanted."""
        last = self._outputs[-1] if self._outputs else None
        return isinstance(last, e.Failed | e.Cancelled) and last.imposed

    def skips(self, command: c.Command) -> bool:
        """Whether a command of this turn is not in the journal by rule."""
        return self.is_imposed or (self.ends_run and isinstance(command, _DROPPED_AT_END))


def split(events: Sequence[e.AnyEvent]) -> tuple[list[e.AnyEvent], list[e.AnyEvent]]:
    """What a program is fed, and what it asked for."""
    inputs: list[e.AnyEvent] = []
    outputs: list[e.AnyEvent] = []
    for event in events:
        if isinstance(event, e.OUTPUTS):
            outputs.append(event)
        elif not isinstance(event, _IGNORED):
            inputs.append(event)
    return inputs, outputs


def is_same(event: e.AnyEvent, command: c.Command) -> bool:  # noqa: PLR0911 one line for each command
    """Whether the journal's event records this command. Times are the journal's: a sleep keeps its first end."""
    match command:
        case c.RunStep():
            return (
                type(event) is e.StepScheduled
                and event.key == command.key
                and (event.step or event.key) == command.spec.name
                and _same_arguments(event, command)
            )
        case c.AbandonStep():
            return type(event) is e.StepAbandoned and event.key == command.key
        case c.StartTimer():
            return type(event) is e.SleepStarted and event.key == command.key
        case c.AwaitMessage():
            return type(event) is e.WaitStarted and (event.key, event.name) == (command.key, command.name)
        case c.EndWait():
            return type(event) is e.WaitEnded and (event.key, event.message) == (command.key, command.message)
        case c.StartChild():
            return type(event) is e.ChildStarted and (event.key, event.workflow) == (command.key, command.workflow)
        case c.Send():
            return type(event) is e.MessageSent and (event.key, event.to, event.kind) == (
                command.key,
                command.to,
                command.kind,
            )
        case c.Expose():
            return type(event) is e.Exposed and event.name == command.name
        case c.Patch():
            return type(event) is e.Patched and event.name == command.name
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


def _same_arguments(event: e.StepScheduled, command: c.RunStep) -> bool:
    if event.blob:
        return event.blob == hash_of(command.args)
    recorded = bytes(event.value)
    if recorded == command.args:
        return True
    # A new parameter or field with a default is no other request: read the old one with today's eyes.
    arguments = command.spec.arguments
    try:
        args, kwargs = arguments.decode(recorded)
        return arguments.encode(args, kwargs) == command.args
    except HoldfastError:
        return False


def say_event(event: e.AnyEvent | None) -> str:
    """An event of the journal, for the message of a divergence."""
    match event:
        case None:
            return "nothing more in this turn"
        case e.StepScheduled():
            return f"step {event.step or event.key!r} (key {event.key!r}) with {_short(event.value)}"
        case e.SleepStarted():
            return f"sleep {event.key!r}"
        case e.WaitStarted():
            return f"wait for {event.kind} {event.name!r} (key {event.key!r})"
        case e.ChildStarted():
            return f"child {event.workflow!r} (key {event.key!r})"
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
            return f"child {command.workflow!r} (key {command.key!r})"
        case c.Complete() | c.Fail() | c.Stop():
            return f"the run's end ({type(command).__name__.lower()})"
        case _:
            return f"{type(command).__name__} {getattr(command, 'key', '') or getattr(command, 'name', '')!r}"


def _short(value: object) -> str:
    text = bytes(value).decode(errors="replace") if isinstance(value, bytes) else bytes(value).decode()  # type: ignore[call-overload]
    return text if len(text) <= 120 else text[:117] + "…"  # noqa: PLR2004 as much as a line shows
