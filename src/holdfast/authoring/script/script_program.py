"""The script program: an ordinary Python function, made to wait for a journal.

Fed one event at a time, the program's own loop (`loop`) runs to quiescence between two of them. What the body asks for
becomes commands; during a replay each is compared with what the journal holds. The program does no I/O and reads
neither a clock nor real randomness: its time is that of the turn, and its random numbers follow from the run's id.

Invariants: the key of a call is taken when it is called; an outcome is delivered to exactly one call; nothing is asked
for after the end, while closing, or after a divergence; a program that has begun is referenced until it is closed, so
the garbage collector never finds a suspended body.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, cast

from holdfast.authoring.script._close import bury
from holdfast.authoring.script._tasks import source_of
from holdfast.authoring.script.asked import AskedSteps
from holdfast.authoring.script.bridge import SyncBody
from holdfast.authoring.script.exchange import Exchange
from holdfast.authoring.script.exits import Unwinding
from holdfast.authoring.script.receipts import Receipts
from holdfast.authoring.script.recorded_turns import (
    Cursor,
    is_administrative,
    is_kept_at_end,
)
from holdfast.authoring.script.served import Served
from holdfast.authoring.script.started import StartedChildren
from holdfast.authoring.script.verdicts import ending, objection_of
from holdfast.authoring.script.waits import Waits
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.passes import Beginning, with_inputs
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.core.turn import Turn


class ScriptProgram(Exchange):
    """One pass of a script run. The module lists its invariants."""

    __slots__ = ("_children", "_given", "_main", "_receipts", "_served", "_sync_body", "_waits", "steps")

    def __init__(self, spec: WorkflowSpec, beginning: Beginning, settings: Settings) -> None:
        super().__init__(spec, beginning, settings)
        self.steps: AskedSteps = AskedSteps(self)
        self._receipts: Receipts | None = None
        self._waits: Waits | None = None
        self._children: StartedChildren | None = None
        self._served: Served | None = None
        self._main: asyncio.Task[Any] | None = None
        self._sync_body: SyncBody | None = None
        self._given: tuple[e.InputGiven, ...] = ()  # before it began

    # -- the program protocol ------------------------------------------------------------------------------------------

    def activate(self, at: datetime, inputs: Sequence[e.Input]) -> list[c.Command]:
        """Feeds what happened, in order, and returns what to do."""
        self._commands = []
        with self.loop:
            self.set_time(at)
            if self._main is None:
                self._begin(inputs)
            last = len(inputs) - 1
            for index, event in enumerate(inputs):
                self._deliver(event, inputs[index + 1] if index < last else None)
        return self._commands

    def replay(self, turns: Sequence[Turn]) -> None:
        """Replays recorded turns. Raises `Diverged` at the first difference."""
        self.cursor = cursor = Cursor(turns)
        try:
            with self.loop:
                while (turn := cursor.next_turn()) is not None:
                    self.set_time(turn.at)
                    self._begin(turn.events)
                    while (event := cursor.next_input()) is not None:
                        self._deliver(event, cursor.coming_input())
                    if cursor.expected() is not None and not cursor.is_imposed:
                        self.diverge(cursor.expected(), None, None)
                    self._check()
        finally:
            self.cursor = None

    def next_timer(self) -> datetime | None:
        """When the earliest timer is due."""
        return None if self._timers is None else self._timers.next_at()

    def due_timers(self, now: datetime) -> list[str]:
        """Timers that are due, in the order in which they fire."""
        return [] if self._timers is None else self._timers.due(now)

    def awaited_sends(self) -> Mapping[str, str]:
        """Sent signals whose outcome the program waits for."""
        return _NO_SENDS if self._receipts is None else self._receipts.awaited()

    def open_steps(self) -> Mapping[str, c.RunStep]:
        """Steps asked for whose outcome is still wanted."""
        return self.steps.commands()

    def stuck_at(self) -> str | None:
        """Where the body is stuck, if it waits for nothing that a run can be told: no step, timer, message, child or
        receipt is open. It then waits for an event that nothing sets, or for another program's."""
        main = self._main
        if main is None or self._is_over or main.done() or self.loop.unwinding or self.steps.is_any_open:
            return None
        if (self._timers is not None and self._timers.next_at() is not None) or self.awaited_sends():
            return None
        if (self._waits is not None and self._waits.is_any_open) or (self._children and self._children.is_any_open):
            return None
        if self._served is not None and self._served.is_any:
            return None
        places = [source_of(task) for task in reversed(self.loop.unfinished_tasks())]
        return next((place for place in places if place is not None), self.spec.where)

    def objection(self, event: e.UpdateReceived) -> str | None:
        """Why a question is refused before it reaches the body, or None. Changes nothing."""
        known = self.spec.updates().get(event.name)
        served, own_check = (None, None) if self._served is None else self._served.check_of(event.name)
        shape = served or (known.question if known is not None else None)
        if shape is None:
            return f"workflow {self.spec.label} does not take update {event.name!r}" if self.spec.is_closed else None
        checks = [one for one in (known.check if known is not None else None, own_check) if one is not None]
        return objection_of(shape, checks, event)

    def close(self) -> bool:
        """Ends the program without effects. Returns False if the author's code refused to end."""
        self._is_over = True
        has_ended = self.loop.unwind(self._pending, Unwinding)
        self.announced.clear()
        _begun.discard(self)
        bodies = [] if self._sync_body is None else [self._sync_body]
        bodies += [] if self._served is None else self._served.bodies
        left_behind = [body for body in bodies if body.is_left_behind()]  # each is counted
        if not has_ended or left_behind:
            return False
        # What refers to the program is released: the two would otherwise wait for the collector.
        with suppress(AttributeError):  # it was closed before
            del self.steps
        self._main = self._waits = self._children = self._receipts = self._served = self._sync_body = None
        return True

    def _pending(self) -> list[asyncio.Future[Any]]:
        """Every future of the program that code may wait for."""
        pending: list[asyncio.Future[Any]] = []
        for kind in (self.steps, self._waits, self._children, self._receipts):
            if kind is not None:
                pending += kind.pending()
        return pending

    # -- what is waited for: made when first needed, since most programs ask for steps alone ---------------------------

    @property
    def waits(self) -> Waits:
        """Sleeps, signals and topics."""
        if self._waits is None:
            self._waits = Waits(self)
        return self._waits

    @property
    def receipts(self) -> Receipts:
        """The receipts of sent signals."""
        if self._receipts is None:
            self._receipts = Receipts(self)
            self.is_plain: bool = False
        return self._receipts

    @property
    def served(self) -> Served:
        """Updates that handlers answer."""
        if self._served is None:
            self._served = Served(self, self.waits)
        return self._served

    @property
    def children(self) -> StartedChildren:
        """Runs that it started."""
        if self._children is None:
            self._children = StartedChildren(self)
        return self._children

    # -- how it stands -------------------------------------------------------------------------------------------------

    @property
    def has_begun(self) -> bool:
        """Whether the body has been entered."""
        return self._main is not None

    @property
    def is_body_running(self) -> bool:
        """Whether the current task is the body itself, not a task that it made."""
        return asyncio.current_task(self.loop) is self._main

    @property
    def has_swallowed_cancel(self) -> bool:
        """Whether the run was cancelled but its body returned."""
        main = self._main
        return self.cancel is not None and main is not None and main.done() and _has_returned(main)

    @property
    def left_tasks(self) -> list[str]:
        """Tasks that still run although the body has ended: they were never awaited."""
        main = self._main
        if main is None or not main.done() or not _has_returned(main):
            return []
        served = [] if self._served is None else self._served.tasks
        tasks = [task for task in self.loop.unfinished_tasks() if task not in served]
        return [str(getattr(task.get_coro(), "__qualname__", task)) for task in tasks]

    # -- delivering ----------------------------------------------------------------------------------------------------

    def _begin(self, events: Sequence[e.AnyEvent]) -> None:
        """Enters the body, unless it was entered before, must wait, or the run is cancelled before it begins."""
        if self._main is not None or self._is_over or is_administrative(events):
            return
        given = [*self._given]
        for event in events:
            if type(event) is e.InputGiven:
                given.append(event)
            elif type(event) is e.CancelRequested and not self.spec.is_begun_when_cancelled:
                self.children.cancel(event)
                self.ask(c.Stop(reason=event.reason, actor=event.actor))
                self._is_over = True
                return
        if self.beginning.number > 1 and not any(isinstance(x, e.PassStarted) for x in events):
            return
        start = self.beginning.start
        if given and self.beginning.number == 1:  # else they are in it
            start = with_inputs(start, given)
        args, kwargs = self.spec.arguments.decode(start.value)
        _begun.add(self)
        # A context of its own: what the worker keeps in context variables is not the run's.
        context = contextvars.Context()
        function, code = self.spec.function, getattr(self.spec.function, "__code__", None)
        if not self.spec.is_async:
            body = self._in_thread(args, kwargs)
        elif code is not None and code.co_flags & inspect.CO_COROUTINE:
            body = function(*args, **kwargs)
        else:
            body = _called(function, args, kwargs)
        self._main = self.loop.create_task(body, name=self.spec.name, context=context)
        self._run()

    async def _in_thread(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._sync_body = SyncBody(self, self.spec.function, args, kwargs)
        return await self._sync_body.main()

    def _run(self) -> None:
        """Runs to quiescence."""
        if self._broken is None:
            self.loop.run_ready()
        if self._broken is not None:
            raise self._broken
        if self._main is not None and not self._is_over and (self._main.done() or self.loop.callback_errors):
            self._end(self._main)

    def _end(self, main: asyncio.Task[Any]) -> None:
        """Says how the body ended. `_run` has no variable for the task: an error that the body raised keeps the frames
        below it, and the task keeps the error."""
        command = ending(self, main, list(self.announced.values()))
        if self.cursor is None and self._commands:
            self._commands = [x for x in self._commands if is_kept_at_end(x)]
        self.ask(command)
        self._is_over = True
        if self._broken is not None:
            raise self._broken

    def _deliver(self, event: e.AnyEvent, coming: e.AnyEvent | None) -> None:
        """Delivers one input, then runs to quiescence. Timers due at the same instant count as one: asyncio fires them
        together."""
        if self._is_over:
            return
        if self._main is None:  # a new pass is planned for later; what comes meanwhile is kept for it
            if isinstance(event, e.SignalReceived):
                self.waits.buffer(event)
            elif isinstance(event, e.MessageDropped):
                self.waits.drop(event.message)
            elif isinstance(event, e.ChildEnded):
                self.children.ended(event)
            elif isinstance(event, e.InputGiven):
                self._given += (event,)
            return
        match event:
            case e.StepCompleted() | e.StepFailed():
                self.steps.deliver(event)
            case e.TimerFired():
                due = self._deliver_timer(event.key)
                if due is not None and type(coming) is e.TimerFired and self.timers.due_at(coming.key) == due:
                    return
            case e.SignalReceived():
                if not (self._served and isinstance(event, e.UpdateReceived) and self._served.serves(event)):
                    self.waits.signal(event)
            case e.TopicReceived():
                self.waits.topic(event)
            case e.MessageDropped():
                self.waits.drop(event.message)
            case e.SendSettled():
                self.receipts.settled(event)
            case e.ChildEnded():
                self.children.ended(event)
            case e.CancelRequested():
                self._deliver_cancel(event)
            case e.DeadlineReached():
                if self.cancel is None and not self.past_deadline:
                    self._main.cancel("the run's deadline passed")
                self.past_deadline = True
            case _:
                return
        self._run()

    def _deliver_timer(self, key: str) -> datetime | None:
        """Fires the timer. Returns when it was due."""
        kept = self.timers.take(key)
        if kept is None:
            return None  # cancelled by what was delivered before it in this very turn
        timer = kept[1]
        if timer is not None:
            self._timer_keys.pop(timer.number, None)
            self.loop.fire(timer)
        elif not self.children.timed_out(key):
            self.waits.timed_out(key)
        return kept[0]

    def _deliver_cancel(self, event: e.CancelRequested) -> None:
        if self.cancel is not None:
            return
        self.cancel: e.CancelRequested | None = event
        self.children.cancel(event)
        if not self.past_deadline:  # else the clean-up has begun, and is not interrupted again
            cast("asyncio.Task[Any]", self._main).cancel(event.reason or "the run was cancelled")


async def _called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A callable that is marked as a coroutine function may raise when it is called: the run's error, not the
    turn's."""
    return await function(*args, **kwargs)


def _has_returned(task: asyncio.Task[Any]) -> bool:
    return not task.cancelled() and task.exception() is None


_NO_SENDS: Mapping[str, str] = {}
_begun: set[ScriptProgram] = set()
atexit.register(lambda: bury(*(program.loop for program in _begun)))  # not to be taken apart by the collector
