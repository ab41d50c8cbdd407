"""What a program waits for besides steps and children: sleeps, signals, topics and updates.

Signals and updates that are not yet waited for are kept in the order they came; a wait takes the oldest of its name,
and of several waits the one that was asked for first is served first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import msgspec

from holdfast.authoring.script.calls import TIMED_OUT, UNREADABLE, WAITING
from holdfast.authoring.script.timers import later
from holdfast.core import commands as c
from holdfast.core import events as e

if TYPE_CHECKING:
    from holdfast.authoring.script.calls import SleepCall, WaitCall
    from holdfast.authoring.script.exchange import Exchange
    from holdfast.core.passes import Memo


class Waits:
    """The open waits of one program."""

    __slots__ = ("_buffered", "_futures", "_open", "_program")

    def __init__(self, program: Exchange) -> None:
        self._program = program
        self._buffered: list[e.SignalReceived] = list(program.beginning.buffered)
        self._open: dict[str, WaitCall] = {}
        self._futures: dict[str, asyncio.Future[Any]] = {}

    def sleep(self, call: SleepCall) -> asyncio.Future[Any] | None:
        """What a sleep awaits; None if an earlier pass finished it."""
        program, key = self._program, call.key
        if program.loop.unwinding:
            return program.loop.outcome_future()
        memo = program.memo(key)
        if memo is not None and isinstance(memo.settled, e.TimerFired):
            return None
        program.timers.set(key, program.sleep_until(c.StartTimer(key=key, until=call.until), call.place))
        return self.future(key)

    def begin(self, call: WaitCall) -> Any:
        """Returns a message if one is there; else `WAITING`, and the call awaits its future."""
        program, key = self._program, call.key
        if program.loop.unwinding:
            return WAITING
        memo = program.memo(key)
        if memo is not None and isinstance(memo.settled, e.TimerFired):
            return TIMED_OUT
        known = _message_of(memo)
        if known is not None:
            value = self._read(call, known)
            return WAITING if value is UNREADABLE else value
        signal = self._take_buffered(call) if call.kind != "topic" else None
        if signal is not None:
            value = self._read(call, signal)
            return WAITING if value is UNREADABLE else value
        until = later(program.at, call.timeout.total_seconds()) if call.timeout is not None else None
        if memo is not None and memo.settled is None and isinstance(memo.opened, e.WaitStarted):
            until = memo.opened.until
        else:
            kind = cast("e.MessageKind", call.kind)
            asked = c.AwaitMessage(key=key, name=call.name, kind=kind, until=until)
            recorded = program.ask(asked, call.place)
            if isinstance(recorded, e.WaitStarted):
                until = recorded.until
        self._open[key] = call
        if until is not None:
            program.timers.set(key, until)
        return WAITING

    def future(self, key: str) -> asyncio.Future[Any]:
        self._futures[key] = future = self._program.loop.outcome_future()
        return future

    def give_up(self, key: str) -> None:
        """The author's code cancelled a wait."""
        self._open.pop(key, None)
        self._program.timers.drop(key)
        if self._futures.pop(key, None) is not None:
            self._program.ask(c.EndWait(key=key))

    def buffer(self, event: e.SignalReceived) -> None:
        """Keeps a signal for a later wait. One that an operator replaced keeps its place."""
        for index, kept in enumerate(self._buffered):
            if kept.message == event.message:
                self._buffered[index] = event
                return
        self._buffered.append(event)

    def drop(self, message: str) -> None:
        """Removes a kept signal that an operator dropped."""
        self._buffered = [kept for kept in self._buffered if kept.message != message]

    def signal(self, event: e.SignalReceived) -> None:
        """Gives a signal to the wait that was asked for first, or keeps it."""
        for key, call in self._open.items():
            if _is_for(call, event):
                self._program.ask(c.EndWait(key=key, message=event.message))
                self._give(key, call, event)
                return
        self.buffer(event)

    def awaits_update(self, name: str) -> bool:
        """Whether a wait takes the next update of that name."""
        return any(call.kind == "update" and call.name == name for call in self._open.values())

    def take_updates(self, name: str) -> list[e.UpdateReceived]:
        """The updates of that name that no wait has taken, in their order. A handler owns them from now on."""
        taken = [event for event in self._buffered if isinstance(event, e.UpdateReceived) and event.name == name]
        self._buffered = [event for event in self._buffered if event not in taken]
        return taken

    def topic(self, event: e.TopicReceived) -> None:
        """Gives a publication to its wait."""
        call = self._open.get(event.key)
        if call is not None:
            self._give(event.key, call, event)

    def timed_out(self, key: str) -> None:
        """A sleep or wait timed out."""
        self._open.pop(key, None)
        self._resolve(key, TIMED_OUT)

    @property
    def is_any_open(self) -> bool:
        """Whether something is waited for."""
        return bool(self._open or self._futures)

    def pending(self) -> list[asyncio.Future[Any]]:
        """Every future that may be awaited."""
        return list(self._futures.values())

    def _give(self, key: str, call: WaitCall, event: e.SignalReceived | e.TopicReceived) -> None:
        del self._open[key]
        self._program.timers.drop(key)
        value = self._read(call, event)
        if value is not UNREADABLE:
            self._resolve(key, value)

    def _read(self, call: WaitCall, event: e.SignalReceived | e.TopicReceived) -> Any:
        """The value of a message that is taken now. If it has the wrong type, the program stops and says what helps."""
        data = _content(call, event) if isinstance(event, e.SignalReceived) else event.value
        advice = "" if self._program.is_replaying else _advice(self._program.beginning.run, call, event)
        value = self._program.read(call.shape, data, advice)
        return (event, value) if call.kind == "update" and value is not UNREADABLE else value

    def _take_buffered(self, call: WaitCall) -> e.SignalReceived | None:
        for index, signal in enumerate(self._buffered):
            if _is_for(call, signal):
                del self._buffered[index]
                self._program.ask(c.EndWait(key=call.key, message=signal.message), call.place)
                return signal
        return None

    def _resolve(self, key: str, value: Any) -> None:
        future = self._futures.pop(key, None)
        if future is not None and not future.done():
            future.set_result(value)


def _is_for(call: WaitCall, event: e.SignalReceived) -> bool:
    kind = "update" if isinstance(event, e.UpdateReceived) else "signal"
    return call.kind == kind and call.name == event.name


def _content(call: WaitCall, signal: e.SignalReceived) -> msgspec.Raw:
    """What a wait returns for a signal: its value, or the value and its sender."""
    if not call.has_sender:
        return signal.value
    return msgspec.Raw(msgspec.json.encode({"value": signal.value, "sender": signal.sender}))


def _advice(run: str, call: WaitCall, event: e.SignalReceived | e.TopicReceived) -> str:
    """What an operator can do about a message that the run cannot read. Its id is in the inbox or in the journal."""
    if isinstance(event, e.SignalReceived):
        name, sender = event.message, f" from {event.sender}" if event.sender else ""
    else:
        name, sender = f"{event.message}/{event.key}", ""
    return (
        f"It is message {name}{sender}, and the run waits at {call.place}. Correct it: `holdfast messages replace "
        f"{run} {name} JSON`, or drop it: `holdfast messages drop {run} {name}`; then `holdfast resume {run}`."
    )


def _message_of(memo: Memo | None) -> e.SignalReceived | e.TopicReceived | None:
    """The message that an earlier pass took under that key. A wait that was given up waits again."""
    if memo is None:
        return None
    if memo.message is not None:
        return memo.message
    return memo.settled if isinstance(memo.settled, e.TopicReceived) else None
