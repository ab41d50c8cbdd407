"""Sagas: blocks whose completed steps are undone in reverse when the block fails.

The scope lives in the program and is derived again on every replay; each undo is an ordinary durable step. The saga
waits briefly for a step that was in flight when the block ended, so that it can be undone too if it took effect.
"""

from __future__ import annotations

import asyncio
from contextvars import Token
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast.authoring.script.context import require_program
from holdfast.authoring.script.exits import ContinueRun, Unwinding
from holdfast.authoring.script.scope import Scope, current_scope
from holdfast.core.commands import Keep
from holdfast.errors import CompensationFailed, NotAllowedHere

if TYPE_CHECKING:
    from types import TracebackType

    from holdfast.authoring.script.script_program import ScriptProgram

LATE = 10.0
"""Seconds that a failing saga waits for the outcome of a step that was in flight."""


class Saga:
    """`async with saga():` — on an error or a cancel, undo the completed steps in reverse, each durably."""

    def __init__(self, budget: timedelta | None = None) -> None:
        self._program: ScriptProgram = require_program("saga()")
        self._budget = budget
        self._scope = Scope()
        self._parent: Scope | None = None
        self._token: Token[Scope | None] | None = None

    async def __aenter__(self) -> None:
        self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
        await self.settle(error)

    def __enter__(self) -> None:
        raise NotAllowedHere("in an async workflow write `async with saga():`; `with` is for holdfast.sync")

    def __exit__(self, *_: object) -> None: ...

    def open(self) -> None:
        self._parent = current_scope.get()
        self._token = current_scope.set(self._scope)

    def leave(self) -> None:
        if self._token is not None:
            current_scope.reset(self._token)

    async def settle(self, error: BaseException | None) -> None:
        """Keeps or undoes what was done in the block, depending on how it ended."""
        if error is None:
            self._keep()
        elif not isinstance(error, Unwinding | ContinueRun | GeneratorExit):
            await self._undo_all(error)

    def _keep(self) -> None:
        """The block succeeded: an outer saga takes over its completed steps."""
        if self._parent is not None:
            self._scope.hand_over(self._parent)
        elif self._scope.done:
            self._program.ask(Keep(keys=tuple(done.key for done in self._scope.done)))

    async def _undo_all(self, error: BaseException) -> None:
        """Undoes in reverse order of completion. Collects failures and continues. A cancel takes effect afterwards."""
        scope = self._scope
        in_flight = scope.in_flight()
        cancelled: asyncio.CancelledError | None = None
        if in_flight:
            late = asyncio.ensure_future(asyncio.wait(in_flight, timeout=LATE))
            cancelled = await self._to_the_end(late)
        failures: list[str] = []
        loop = self._program.loop
        until = None if self._budget is None else loop.time() + self._budget.total_seconds()
        while scope.done:
            done = scope.done.pop()
            if until is not None and loop.time() >= until:
                failures.append(f"{done.key}: the time for undoing has run out")
                continue
            undoing = asyncio.ensure_future(done.undo.undo_call(self._program, done))
            cancelled = await self._to_the_end(undoing, until) or cancelled
            if undoing.cancelled():
                failures.append(f"{done.key}: the time for undoing has run out")
                continue
            failed = undoing.exception()
            if isinstance(failed, Exception):  # one failed undo must not keep the others from running
                failures.append(f"{done.key}: {failed}")
            elif failed is not None:
                raise failed
        if failures:
            raise CompensationFailed(
                f"{len(failures)} of the undo steps failed after {type(error).__name__}: {error}\n"
                + "\n".join(failures),
                failures=failures,
            ) from error
        if cancelled is not None:
            raise cancelled

    async def _to_the_end(
        self, undoing: asyncio.Future[Any], until: float | None = None
    ) -> asyncio.CancelledError | None:
        """Waits for the undo. A cancel of the run does not stop it, and is returned to the caller; only its time limit
        stops it."""
        cancelled: asyncio.CancelledError | None = None
        loop = self._program.loop
        while not undoing.done():
            try:
                left = None if until is None else max(0.0, until - loop.time())
                done, _ = await asyncio.wait([undoing], timeout=left)
                if not done:
                    undoing.cancel()
            except asyncio.CancelledError as error:
                if self._program.loop.unwinding:
                    raise
                cancelled = error
        return cancelled


def saga() -> Saga:
    """A block whose completed steps are undone in reverse if it fails or is cancelled."""
    return Saga()
