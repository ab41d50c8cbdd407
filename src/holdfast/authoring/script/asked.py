"""The steps a program has asked for, until their outcomes are delivered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.authoring.script.calls import WAITING, StepCall
from holdfast.authoring.script.recorded_turns import is_same
from holdfast.authoring.script.scope import Done
from holdfast.authoring.script.verdicts import error_of
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.step import cut_off
from holdfast.errors import NotDecodable

if TYPE_CHECKING:
    from holdfast.authoring.script.exchange import Exchange


class AskedSteps:
    """Open steps by key: those whose outcome is wanted, and those that the author's code gave up but whose outcome may
    still come."""

    __slots__ = ("_abandoned", "_open", "_program")

    def __init__(self, program: Exchange) -> None:
        self._program = program
        self._open: dict[str, StepCall[Any]] = {}
        self._abandoned: dict[str, StepCall[Any]] = {}

    def commands(self) -> dict[str, c.RunStep]:
        """The steps that were asked for and are still wanted."""
        return {key: call.asked for key, call in self._open.items()}

    @property
    def is_any_open(self) -> bool:
        """Whether an outcome may still come, wanted or not."""
        return bool(self._open or self._abandoned)

    def pending(self) -> list[asyncio.Future[Any]]:
        """Every future that may be awaited."""
        return [call.future for call in self._open.values() if call.future is not None] if self._open else []

    def ask(self, call: StepCall[Any]) -> Any:
        """Asks for a step. Returns its outcome if it is already known, else `WAITING`."""
        program = self._program
        loop = program.loop
        if loop.unwinding:
            return WAITING
        key = call.key
        if program.beginning.memo:
            memoised = self._memoised_step(call)
            if memoised is not WAITING:
                return memoised
        if call.scope is not None:
            call.scope.began(key, loop)
        cursor = program.cursor
        known: e.StepCompleted | bool = False
        if cursor is not None:
            known = cursor.answer_to(key, call.spec.name, call.args, is_idle=loop.idle)
            if type(known) is e.StepCompleted:
                program.set_time(cursor.at)
                return self._completed(call, known)
        self._open[key] = call
        call.asked = call.command()
        if known is False:
            program.ask(call.asked, call.place)
        return WAITING

    def abandon(self, key: str) -> None:
        """The author's code cancelled a step."""
        call = self._open.pop(key, None)
        if call is not None and not self._program.loop.unwinding:
            self._abandoned[key] = call
            self._program.ask(c.AbandonStep(key=key), call.place)

    def _memoised_step(self, call: StepCall[Any]) -> Any:
        """The outcome that an earlier pass, or the run that this one retries, got from that step."""
        memo = self._program.beginning.memo.get(call.key)
        if memo is None:
            return WAITING
        if call.spec.once and memo.settled is None and isinstance(memo.opened, e.StepScheduled):
            raise error_of(cut_off(call.key, call.spec.name, 1), call.spec)
        if not isinstance(memo.settled, e.StepCompleted | e.StepFailed):
            return WAITING
        opened = memo.opened
        begin = self._program.beginning.start
        if isinstance(begin, e.Started) and begin.retried_from:
            if opened is None or not is_same(opened, call.command()):
                return WAITING  # the new run's code asks for something else: that has not been done
        elif isinstance(opened, e.StepScheduled) and (opened.step or opened.key) != call.spec.name:
            self._program.diverge(opened, call.command(), call.place)
            return WAITING
        if isinstance(memo.settled, e.StepFailed):
            raise error_of(memo.settled, call.spec)
        return self._completed(call, memo.settled)

    def _completed(self, call: StepCall[Any], event: e.StepCompleted) -> Any:
        """The value of a completed step, or `WAITING` forever if it cannot be read."""
        try:
            value = call.spec.result.decode(event.value)
        except NotDecodable as error:
            self._program.stop(error)
            return WAITING
        if call.scope is not None:
            call.scope.settled(call.key, Done(call.key, call.undo, value, call.args, call.spec))
        return value

    def deliver(self, event: e.StepCompleted | e.StepFailed) -> None:
        key = event.key
        call = self._open.pop(key, None) or self._abandoned.pop(key, None)
        if call is None:
            said = f"the journal holds the outcome of step {key!r}, which the code never asked for"
            self._program.part(said, journal=f"the outcome of step {key!r}", code="nothing")
            return
        future = call.future
        is_wanted = future is not None and not future.done()
        if type(event) is e.StepCompleted:
            value = self._completed(call, event)
            if future is not None and is_wanted and value is not WAITING:
                future.set_result(value)
            return
        if call.scope is not None:
            call.scope.settled(key, None)
        if future is not None and is_wanted and type(event) is e.StepFailed:
            future.set_exception(error_of(event, call.spec))
