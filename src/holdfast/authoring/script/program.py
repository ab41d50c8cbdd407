"""The script program: an ordinary Python function, made to wait for a journal.

Fed one event at a time, the program's own loop (`loop`) runs to quiescence between two of them. What the body asks for
becomes commands; during a replay each is compared with what the journal holds. The program does no I/O, reads no clock
and draws no chance: its time is the turn's, its random numbers follow from the run's id.

Invariants: the key of a call is taken when it is called; an outcome is delivered to exactly one call; nothing is asked
for after the end, while closing, or after a divergence.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec

from holdfast.authoring.script.bridge import SyncBody
from holdfast.authoring.script.calls import TIMED_OUT, ChildCall, DurableCall, StepCall, WaitCall
from holdfast.authoring.script.loop import DurableLoop, Timer
from holdfast.authoring.script.replaying import Cursor, is_same, say_command, say_event
from holdfast.authoring.script.sagas import Done, Unwinding
from holdfast.authoring.script.verdicts import say_unawaited, ending, error_of, run_error
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.keys import Keys
from holdfast.core.passes import Beginning, Memo
from holdfast.core.retry import LATEST
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.core.turn import Turn
from holdfast.errors import Diverged, NotAllowedHere

_MISS: tuple[bool, Any] = (False, None)


@dataclass(slots=True)
class _Open:
    """A step asked for, whose outcome is wanted."""

    call: StepCall[Any]
    command: c.RunStep
    future: asyncio.Future[Any] | None = None


class ScriptProgram:
    """One pass of a script run. See the module for what holds."""

    def __init__(self, spec: WorkflowSpec, beginning: Beginning, settings: Settings) -> None:
        self.spec = spec
        self.beginning = beginning
        self.settings = settings
        self.loop = DurableLoop(self, budget=settings.activation_budget)
        self.at = beginning.at
        self.keys = Keys()
        self.exposed: dict[str, bytes] = {}
        self.continuing: c.ContinueAs | None = None
        self.cancel: e.CancelRequested | None = None
        self.past_deadline = False
        self._commands: list[c.Command] = []
        self._cursor: Cursor | None = None
        self._divergence: Diverged | None = None
        self._main: asyncio.Task[Any] | None = None
        self._is_over = False
        self._numbers = 0
        self._announced: dict[int, DurableCall[Any]] = {}
        self._open: dict[str, _Open] = {}
        self._abandoned: dict[str, _Open] = {}
        self._waits: dict[str, WaitCall] = {}
        self._children: dict[str, ChildCall | e.ChildStarted] = {}
        self._ended_children: dict[str, e.ChildEnded | Any] = {}
        self._futures: dict[str, asyncio.Future[Any]] = {}
        self._timers: dict[str, tuple[datetime, Timer | None]] = {}
        self._timer_heap: list[tuple[datetime, int, str]] = []
        self._timer_keys: dict[int, str] = {}
        self._buffered: list[e.SignalReceived] = list(beginning.buffered)
        self._unpatched: set[str] = set()
        self._random: random.Random | None = None

    # -- the program protocol ------------------------------------------------------------------------------------------

    def activate(self, at: datetime, inputs: Sequence[e.Input]) -> list[c.Command]:
        """Feeds what happened, in order, and returns what to do."""
        self._commands = []
        with self.loop.enter():
            self._set_time(at)
            cancelled = next((x for x in inputs if isinstance(x, e.CancelRequested)), None)
            if self._main is None and cancelled is not None:
                self._is_over = True
                return [c.Stop(reason=cancelled.reason, actor=cancelled.actor)]
            self._begin()
            for event in inputs:
                self._deliver(event)
        return self._commands

    def replay(self, turns: Sequence[Turn]) -> None:
        """Goes through recorded turns; `Diverged` at the first difference."""
        self._cursor = cursor = Cursor(turns)
        try:
            with self.loop.enter():
                while (turn := cursor.next_turn()) is not None:
                    self._set_time(turn.at)
                    self._begin()
                    while (event := cursor.next_input()) is not None:
                        self._deliver(event)
                    self._check_divergence()
                    if cursor.expected() is not None and not cursor.is_imposed:
                        raise self._diverged(cursor.expected(), None, None)
        finally:
            self._cursor = None

    def next_timer(self) -> datetime | None:
        """When the earliest timer is due."""
        heap = self._timer_heap
        while heap:
            due, _, key = heap[0]
            kept = self._timers.get(key)
            if kept is not None and kept[0] == due:
                return due
            heapq.heappop(heap)
        return None

    def due_timers(self, now: datetime) -> list[str]:
        """Timers that have come due, in the order in which they fire."""
        due = sorted(entry for entry in self._timer_heap if entry[0] <= now)
        keys = [key for at, _, key in due if key in self._timers and self._timers[key][0] == at]
        return list(dict.fromkeys(keys))

    def open_steps(self) -> Mapping[str, c.RunStep]:
        """Steps asked for whose outcome is still wanted."""
        return {key: kept.command for key, kept in self._open.items()}

    def close(self) -> None:
        """Ends the program without effects."""
        self._is_over = True
        pending = [kept.future for kept in self._open.values() if kept.future is not None]
        self.loop.unwind([*pending, *self._futures.values()], Unwinding)
        self._announced.clear()

    @property
    def has_begun(self) -> bool:
        """Whether the body has been entered."""
        return self._main is not None

    @property
    def is_replaying(self) -> bool:
        """Whether recorded turns are being gone through."""
        return self._cursor is not None

    @property
    def rng(self) -> random.Random:
        """Random numbers that follow from the run, its place and its pass."""
        if self._random is None:
            begin = self.beginning
            self._random = random.Random(f"{begin.run}:{begin.ordinal}:{begin.number}")  # noqa: S311 replayed, no secret
        return self._random

    # -- asked by calls ------------------------------------------------------------------------------------------------

    def announce(self, call: DurableCall[Any]) -> int:
        """A call was made; until it is awaited the program remembers it."""
        if self._is_over and not self.loop.unwinding:
            raise NotAllowedHere(f"{call.key}: the run has ended; nothing durable can be asked for any more")
        self._numbers += 1
        self._announced[self._numbers] = call
        return self._numbers

    def awaited(self, call: DurableCall[Any]) -> None:
        """The call was awaited, or is not meant to be."""
        self._announced.pop(hash(call), None)

    def ask(self, command: c.Command) -> e.AnyEvent | None:
        """Asks for something. During a replay, returns the event that recorded it."""
        cursor = self._cursor
        if cursor is None:
            if not self._is_over:
                self._commands.append(command)
            return None
        if self._divergence is not None or cursor.skips(command):
            return None
        expected = cursor.expected()
        if expected is None or not is_same(expected, command):
            self._divergence = self._diverged(expected, command, _author_line())
            return None
        cursor.confirm()
        return expected

    def memo(self, key: str) -> Memo | None:
        """What an earlier pass left under that key."""
        return self.beginning.memo.get(key) if self.beginning.memo else None

    def ask_step(self, call: StepCall[Any]) -> tuple[bool, Any]:
        """Asks for a step; the outcome at once if it is known already."""
        if self.loop.unwinding:
            return _MISS
        key = call.key
        memo = self.memo(key)
        if memo is not None and isinstance(memo.settled, e.StepCompleted | e.StepFailed):
            return self._memoised_step(call, memo)
        command = call.command()
        self._open[key] = kept = _Open(call, command)
        if call.scope is not None and call.undo is not None:
            call.scope.in_flight[key] = self.loop.create_future()
        self.ask(command)
        cursor = self._cursor
        if cursor is None or self._divergence is not None or not self.loop.idle:
            return _MISS
        outcome = cursor.outcome_follows(key)
        if outcome is None:
            return _MISS
        self._set_time(cast("Turn", cursor.turn).at)
        del self._open[key]
        value = call.spec.result.decode(outcome.value)
        self._settle_scope(kept, value, is_done=True)
        return True, value

    def future_of(self, key: str) -> asyncio.Future[Any]:
        """What a call awaits until its outcome is delivered."""
        future = self.loop.outcome_future()
        kept = self._open.get(key)
        if kept is not None:
            kept.future = future
        else:
            self._futures[key] = future
        return future

    def abandon_step(self, key: str) -> None:
        """The author's code cancelled a step."""
        kept = self._open.pop(key, None)
        if kept is not None and not self.loop.unwinding:
            self._abandoned[key] = kept
            self.ask(c.AbandonStep(key=key))

    def ask_sleep(self, command: c.StartTimer) -> datetime:
        """Asks for a sleep and answers with its end: the one recorded first, if there is one."""
        memo = self.memo(command.key)
        if memo is not None and isinstance(memo.opened, e.SleepStarted):
            return memo.opened.until
        if self.loop.unwinding:
            return command.until
        recorded = self.ask(command)
        return recorded.until if isinstance(recorded, e.SleepStarted) else command.until

    def timer_future(self, key: str, until: datetime) -> asyncio.Future[Any]:
        """What a sleep awaits."""
        self._set_timer(key, until, None)
        return self.future_of(key)

    def ask_wait(self, call: WaitCall) -> Any:
        """Asks for a message: its payload if one is there, else None and the call waits."""
        if self.loop.unwinding:
            return None
        memo = self.memo(call.key)
        if memo is not None and memo.settled is not None:
            return TIMED_OUT if isinstance(memo.settled, e.TimerFired) else _payload_of(memo)
        if call.kind == "signal":
            for index, signal in enumerate(self._buffered):
                if signal.name == call.name:
                    del self._buffered[index]
                    self.ask(c.EndWait(key=call.key, message=signal.message))
                    return signal.value
        until = _later(self.at, call.timeout.total_seconds()) if call.timeout is not None else None
        if memo is not None and isinstance(memo.opened, e.WaitStarted):
            until = memo.opened.until
        else:
            command = c.AwaitMessage(key=call.key, name=call.name, kind=cast("Any", call.kind), until=until)
            recorded = self.ask(command)
            if isinstance(recorded, e.WaitStarted):
                until = recorded.until
        self._waits[call.key] = call
        if until is not None:
            self._set_timer(call.key, until, None)
        return None

    def end_wait(self, key: str) -> None:
        """A wait, sleep or child's end is no longer wanted."""
        self._futures.pop(key, None)
        self._waits.pop(key, None)
        self._drop_timer(key)
        if not self.loop.unwinding:
            self.ask(c.EndWait(key=key))

    def ask_child(self, call: ChildCall) -> None:
        """Asks for a child run, unless an earlier pass started it."""
        if self.loop.unwinding:
            return
        key = call.key
        self.awaited(call)
        until = _later(self.at, call.timeout.total_seconds()) if call.command.awaited else None
        memo = self.memo(key)
        if memo is not None and isinstance(memo.opened, e.ChildStarted):
            until = memo.opened.until
            if isinstance(memo.settled, e.ChildEnded):
                self._ended_children[key] = memo.settled
        else:
            recorded = self.ask(msgspec.structs.replace(call.command, until=until))
            if isinstance(recorded, e.ChildStarted):
                until = recorded.until
        self._children[key] = call
        if until is not None and key not in self._ended_children:
            self._set_timer(key, until, None)

    def child_outcome(self, key: str) -> Any:
        """How the child ended, if it has."""
        return self._ended_children.get(key)

    def child_result(self, ended: e.ChildEnded, spec: WorkflowSpec) -> Any:
        """The value or error a parent sees."""
        if ended.status == "completed":
            return spec.result.decode(ended.value)
        raise run_error(ended, spec)

    def patched(self, name: str) -> bool:
        """Whether this run takes the new path of a change."""
        if name in self.beginning.patches:
            return True
        if name in self._unpatched:
            return False
        cursor = self._cursor
        if cursor is not None:
            expected = cursor.expected()
            if not (isinstance(expected, e.Patched) and expected.name == name):
                self._unpatched.add(name)
                return False
        self.ask(c.Patch(name=name))
        self.beginning.patches.add(name)
        return True

    # -- asked by the loop ---------------------------------------------------------------------------------------------

    def timer_set(self, timer: Timer, /) -> None:
        """A timer of asyncio: `asyncio.sleep` is a durable sleep, anything else is derived again on replay."""
        until = _later(self.at, timer.when_at - self.loop.now)
        if timer.kind == "sleep":
            key = self.keys.take("sleep")
            memo = self.memo(key)
            if memo is not None and isinstance(memo.settled, e.TimerFired):
                self.loop.fire(timer)
                return
            until = self.ask_sleep(c.StartTimer(key=key, until=until))
        else:
            key = self.keys.take("timeout")
        self._timer_keys[timer.number] = key
        self._set_timer(key, until, timer)

    def timer_cancelled(self, timer: Timer, /) -> None:
        """asyncio no longer wants it."""
        key = self._timer_keys.pop(timer.number)
        self._drop_timer(key)
        if timer.kind == "sleep":
            self.ask(c.EndWait(key=key))

    def call_step(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Awaitable[Any] | None:
        """`asyncio.to_thread(step, …)`."""
        durable = getattr(function, "durable_call", None)
        return None if durable is None else cast("Awaitable[Any]", durable(self, args, kwargs))

    # -- delivering ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._main is not None:
            return
        self._main = self.loop.create_task(self._body(), name=self.spec.name)
        self._run()

    async def _body(self) -> Any:
        args, kwargs = self.spec.arguments.decode(self.beginning.start.value)
        if self.spec.is_async:
            return await self.spec.function(*args, **kwargs)
        return await SyncBody(self, self.spec.function, args, kwargs).main()

    def _run(self) -> None:
        """Runs to quiescence; if the body ended, says how."""
        self.loop.run_ready()
        self._check_divergence()
        main = self._main
        if main is not None and main.done() and not self._is_over:
            self._finish(main)

    def _finish(self, main: asyncio.Task[Any]) -> None:
        command = ending(self, main, say_unawaited(list(self._announced.values())))
        if self._cursor is None:
            self._commands = [x for x in self._commands if isinstance(x, _KEPT_AT_END)]
        self.ask(command)
        self._is_over = True
        self._check_divergence()

    def _deliver(self, event: e.AnyEvent) -> None:
        """One input, then quiescence."""
        if self._is_over:
            return
        match event:
            case e.StepCompleted():
                self._deliver_step(event.key, event)
            case e.StepFailed():
                self._deliver_step(event.key, event)
            case e.TimerFired():
                self._deliver_timer(event.key)
            case e.SignalReceived():
                self._deliver_signal(event)
            case e.TopicReceived():
                wait = self._waits.pop(event.key, None)
                self._drop_timer(event.key)
                if wait is not None:
                    self._resolve(event.key, event.value)
            case e.ChildEnded():
                self._deliver_child(event)
            case e.CancelRequested():
                self._deliver_cancel(event)
            case e.DeadlineReached():
                self.past_deadline = True
                cast("asyncio.Task[Any]", self._main).cancel("the run's deadline passed")
            case _:
                return
        self._run()

    def _deliver_step(self, key: str, event: e.StepCompleted | e.StepFailed) -> None:
        kept = self._open.pop(key, None) or self._abandoned.pop(key, None)
        if kept is None:
            raise Diverged(
                f"run {self.beginning.run}: the journal holds the outcome of step {key!r}, which the code never asked "
                f"for. {_ADVICE}"
            )
        if isinstance(event, e.StepCompleted):
            value = kept.call.spec.result.decode(event.value)
            self._settle_scope(kept, value, is_done=True)
            if kept.future is not None and not kept.future.done():
                kept.future.set_result(value)
            return
        self._settle_scope(kept, None, is_done=False)
        if kept.future is not None and not kept.future.done():
            kept.future.set_exception(error_of(event, kept.command))

    def _memoised_step(self, call: StepCall[Any], memo: Memo) -> tuple[bool, Any]:
        kept = _Open(call, call.command())
        if isinstance(memo.opened, e.StepScheduled) and not is_same(memo.opened, kept.command):
            self._divergence = self._diverged(memo.opened, kept.command, _author_line())
            return _MISS
        if isinstance(memo.settled, e.StepFailed):
            raise error_of(memo.settled, kept.command)
        assert isinstance(memo.settled, e.StepCompleted)
        value = call.spec.result.decode(memo.settled.value)
        self._settle_scope(kept, value, is_done=True)
        return True, value

    def _settle_scope(self, kept: _Open, value: Any, *, is_done: bool) -> None:
        call = kept.call
        if call.scope is None or call.undo is None:
            return
        if is_done:
            call.scope.done.append(Done(call.key, call.undo, value, call.args, call.spec))
        late = call.scope.in_flight.pop(call.key, None)
        if late is not None and not late.done():
            late.set_result(None)

    def _deliver_timer(self, key: str) -> None:
        kept = self._timers.pop(key, None)
        if kept is None:
            return  # cancelled by what was delivered before it in this very turn
        timer = kept[1]
        if timer is not None:
            self.loop.fire(timer)
            return
        self._waits.pop(key, None)
        if key in self._children:
            self._ended_children[key] = TIMED_OUT
        self._resolve(key, TIMED_OUT)

    def _deliver_signal(self, event: e.SignalReceived) -> None:
        for key, wait in self._waits.items():
            if wait.kind == "signal" and wait.name == event.name:
                del self._waits[key]
                self._drop_timer(key)
                self.ask(c.EndWait(key=key, message=event.message))
                self._resolve(key, event.value)
                return
        self._buffered.append(event)

    def _deliver_child(self, event: e.ChildEnded) -> None:
        key = event.key
        kept = self._timers.pop(key, None)
        if kept is not None and event.ended_at is not None and event.ended_at > kept[0]:
            self._ended_children[key] = TIMED_OUT
        elif self._ended_children.get(key) is not TIMED_OUT:
            self._ended_children[key] = event
        self._resolve(key, self._ended_children[key])

    def _deliver_cancel(self, event: e.CancelRequested) -> None:
        if self.cancel is not None:
            return
        self.cancel = event
        for key, child in self._children.items():
            command = child.command if isinstance(child, ChildCall) else None
            if command is not None and command.on_cancel == "cancel" and key not in self._ended_children:
                self.ask(c.Send(key=key, to=command.run, kind="cancel", name=event.reason))
        cast("asyncio.Task[Any]", self._main).cancel(event.reason or "the run was cancelled")

    def _resolve(self, key: str, value: Any) -> None:
        future = self._futures.pop(key, None)
        if future is not None and not future.done():
            future.set_result(value)

    # -- small parts ---------------------------------------------------------------------------------------------------

    def _set_time(self, at: datetime) -> None:
        self.at = at
        self.loop.now = at.timestamp()
        self.loop.reset_budget()

    def _set_timer(self, key: str, until: datetime, timer: Timer | None) -> None:
        self._timers[key] = (until, timer)
        heapq.heappush(self._timer_heap, (until, len(self._timer_heap), key))

    def _drop_timer(self, key: str) -> None:
        self._timers.pop(key, None)

    def _check_divergence(self) -> None:
        if self._divergence is not None:
            raise self._divergence

    def _diverged(self, expected: e.AnyEvent | None, command: c.Command | None, line: str | None) -> Diverged:
        turn = self._cursor.turn if self._cursor is not None else None
        at = f"at row {turn.ordinal} " if turn is not None else ""
        where = f" ({line})" if line else ""
        return Diverged(
            f"run {self.beginning.run}: {at}the journal says {say_event(expected)} but the code asked for "
            f"{say_command(command)}{where}. {_ADVICE}"
        )


_KEPT_AT_END = (c.StartChild, c.Send, c.Expose, c.Patch, c.Keep)
"""What is still done when asked for in the turn that ends the run."""

_ADVICE = (
    "The workflow changed while this run was open, or it is not deterministic: gate the change with patched('…'), or "
    "give the workflow a new version; then resume the run."
)


def _later(at: datetime, seconds: float) -> datetime:
    """That much later, but never past the end of the calendar: what is due then never comes."""
    return at + timedelta(seconds=seconds) if seconds < (LATEST - at).total_seconds() else LATEST


def _payload_of(memo: Memo) -> Any:
    if memo.message is not None:
        return memo.message.value
    return memo.settled.value if isinstance(memo.settled, e.TopicReceived) else TIMED_OUT


def _author_line() -> str | None:
    """The innermost line on the stack that is neither Holdfast's nor asyncio's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("holdfast.", "asyncio.")):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = cast("Any", frame.f_back)
    return None


