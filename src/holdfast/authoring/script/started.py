"""The children that a program has started: their ends, and the calls that wait for them.

An end is matched to a child by run id, not by key alone: after a `continue_as`, children of an earlier pass may still
end. A child that ended before the timeout of a wait counts, however late its end is seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.authoring.script.calls import TIMED_OUT, UNREADABLE
from holdfast.authoring.script.timers import later
from holdfast.authoring.script.verdicts import marked, run_error
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.acceptance import refusal
from holdfast.core.redacted import whole
from holdfast.errors import InvalidInput, ResultTimeout

if TYPE_CHECKING:
    from holdfast.authoring.script.calls import ChildCall
    from holdfast.authoring.script.exchange import Exchange
    from holdfast.core.specs import WorkflowSpec


class _Child(msgspec.Struct):
    call: ChildCall
    until: datetime
    outcome: Any = None
    has_ended: bool = False
    waiters: list[asyncio.Future[Any]] = []


class StartedChildren:
    """The children of one program, by key."""

    __slots__ = ("_by_key", "_early", "_program", "_specs")

    def __init__(self, program: Exchange) -> None:
        self._program = program
        self._by_key: dict[str, _Child] = {}
        self._early: dict[str, e.ChildEnded] = {}
        self._specs: dict[str, WorkflowSpec] = {}  # by run

    def ask(self, call: ChildCall) -> None:
        """Starts a child, unless an earlier pass did."""
        program, key = self._program, call.key
        program.announced.pop(call.number, None)
        if program.loop.unwinding or key in self._by_key:
            return
        until = later(program.at, call.timeout.total_seconds())
        memo = program.memo(key)
        ended: e.ChildEnded | None = None
        if memo is not None and isinstance(memo.opened, e.ChildStarted):
            opened = memo.opened
            if opened.workflow != call.command.workflow:
                program.diverge(opened, call.command, call.place)
            call.command = msgspec.structs.replace(call.command, run=opened.run)
            until = opened.until or until
            if isinstance(memo.settled, e.ChildEnded) and memo.settled.run == opened.run:
                ended = memo.settled
        else:
            command = msgspec.structs.replace(call.command, until=until if call.command.awaited else None)
            recorded = program.ask(command, call.place, call.spec.arguments)
            if isinstance(recorded, e.ChildStarted):
                until = recorded.until or until
        self._by_key[key] = child = _Child(call, until)
        self._specs[call.command.run] = call.spec
        ended = ended or self._early.pop(call.command.run, None)
        if ended is not None:
            self._settle(key, child, ended)

    def has(self, call: ChildCall) -> bool:
        """Whether that very call was started."""
        child = self._by_key.get(call.key)
        return child is not None and child.call is call

    def check_signal(self, run: str, name: str, data: bytes) -> None:
        """Refuses a signal that the definition of a child does not take. For other runs only the id is known here."""
        spec = self._specs.get(run)
        why = refusal(spec, name, data) if spec is not None else None
        if why is not None:
            raise InvalidInput(f"run {run}: {why} Nothing was sent.")

    def result(self, call: ChildCall) -> Generator[Any, Any, Any]:
        """Waits for a started child. Returns its value, or raises the error that its parent sees."""
        program, key = self._program, call.key
        child = self._by_key.get(key)
        outcome = child.outcome if child is not None else None
        if child is None:  # closing: nothing was started
            yield from program.loop.outcome_future()
            return None
        if outcome is None:
            outcome = yield from self._wait(key, child)
        if outcome is TIMED_OUT:
            raise ResultTimeout(
                f"child {call.spec.label} (key {key}) did not end in time; it continues without its parent"
            )
        if outcome.status != "completed":
            raise marked(run_error(outcome, call.spec))
        value = program.read(call.spec.result, whole(outcome.value, outcome.run, "its result"))
        if value is UNREADABLE:
            yield from program.loop.outcome_future()
        return value

    def _wait(self, key: str, child: _Child) -> Generator[Any, Any, Any]:
        program = self._program
        if key not in program.timers and not program.loop.unwinding:
            program.timers.set(key, child.until)
        future = program.loop.outcome_future()
        child.waiters.append(future)
        try:
            return (yield from future)
        except asyncio.CancelledError:
            if future in child.waiters:
                child.waiters.remove(future)
                if not child.waiters:
                    program.timers.drop(key)
                    program.ask(c.EndWait(key=key))
            raise

    def ended(self, event: e.ChildEnded) -> None:
        child = self._by_key.get(event.key)
        if child is None or child.call.command.run != event.run:
            self._early[event.run] = event
        else:
            self._settle(event.key, child, event)

    def forget_value(self, call: ChildCall) -> None:
        """Drops the child's result, so that a parent of very many children need not hold it."""
        child = self._by_key.get(call.key)
        if child is not None and isinstance(child.outcome, e.ChildEnded):
            child.outcome = msgspec.structs.replace(child.outcome, value=e.NULL)

    def timed_out(self, key: str) -> bool:
        """A wait for a child timed out. Returns False if that key is not a child's."""
        child = self._by_key.get(key)
        if child is None:
            return False
        if child.outcome is None:
            child.outcome = TIMED_OUT
            self._wake(child)
        return True

    def cancel(self, event: e.CancelRequested) -> None:
        """Cancels the open children that were started with `on_cancel="cancel"`, because the run is cancelled."""
        for key, memo in self._program.beginning.memo.items():
            opened = memo.opened
            if not isinstance(opened, e.ChildStarted) or opened.on_cancel != "cancel" or key in self._by_key:
                continue
            if not isinstance(memo.settled, e.ChildEnded) and opened.run not in self._early:
                self._send_cancel(key, opened.run, event)
        asked = {child.call.command.run for child in self._by_key.values()}
        for run in self._program.beginning.left:  # started before a `continue_as`
            if run not in asked and run not in self._early:
                self._send_cancel(run, run, event)
        for key, child in self._by_key.items():
            if child.call.command.on_cancel == "cancel" and not child.has_ended:
                self._send_cancel(key, child.call.command.run, event)

    @property
    def is_any_open(self) -> bool:
        """Whether a child has not ended, awaited or not."""
        return any(not child.has_ended for child in self._by_key.values())

    def pending(self) -> list[asyncio.Future[Any]]:
        """Every future that may be awaited."""
        return [future for child in self._by_key.values() for future in child.waiters]

    def _send_cancel(self, key: str, run: str, event: e.CancelRequested) -> None:
        self._program.ask(c.Send(key=key, to=run, kind="cancel", name=event.reason))

    def _settle(self, key: str, child: _Child, event: e.ChildEnded) -> None:
        child.has_ended = True
        if child.outcome is not None:
            return
        self._program.timers.drop(key)
        is_late = event.ended_at is not None and event.ended_at > child.until
        child.outcome = TIMED_OUT if is_late else event
        self._wake(child)

    @staticmethod
    def _wake(child: _Child) -> None:
        waiters, child.waiters = child.waiters, []
        for future in waiters:
            if not future.done():
                future.set_result(child.outcome)
