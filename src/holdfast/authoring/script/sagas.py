"""Sagas: completed steps that know their way back, undone in reverse when the block fails.

The scope lives in the program and is derived again on every replay; each undo is an ordinary durable step. A step that
was in flight when the block ended is waited for a little, so that it can be undone too if it took effect.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.authoring.script.context import require_program
from holdfast.core.commands import Keep
from holdfast.errors import CompensationFailed, NotAllowedHere

if TYPE_CHECKING:
    from types import TracebackType

    from holdfast.authoring.script.calls import StepCall
    from holdfast.authoring.script.program import ScriptProgram
    from holdfast.core.specs import StepSpec

LATE = 10.0
"""Seconds a failing saga waits for the outcome of a step that was in flight."""


@dataclass(slots=True)
class Done:
    """A completed step of a scope: what undoing it takes."""

    key: str
    undo: Any
    result: Any
    args: bytes
    spec: StepSpec

    def undo_arguments(self, undo: StepSpec) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The result first, then the step's own arguments, bound to the undo's parameters by position."""
        args, kwargs = self.spec.arguments.decode(self.args)
        return (self.result, *args), dict(kwargs)


@dataclass(slots=True)
class Scope:
    """What one saga block has done so far."""

    parent: Scope | None
    done: list[Done] = field(default_factory=list[Done])
    in_flight: dict[str, asyncio.Future[None]] = field(default_factory=dict[str, "asyncio.Future[None]"])


current_scope: ContextVar[Scope | None] = ContextVar("holdfast_saga", default=None)


class Unwinding(BaseException):
    """Private: closes a program. No code of an author can catch it by name, and nothing durable happens after it."""


class ContinueRun(BaseException):
    """Private: `continue_as` leaves the body with it."""


class Saga:
    """`async with saga():` — on an error or a cancel, undo the completed steps in reverse, each durably."""

    def __init__(self) -> None:
        self._program: ScriptProgram = require_program("saga()")
        self._scope = Scope(None)
        self._token: Token[Scope | None] | None = None

    async def __aenter__(self) -> None:
        self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
        await self.settle(error)

    async def settle(self, error: BaseException | None) -> None:
        """What the end of the block means for what was done in it."""
        if error is None:
            self.keep()
        elif not isinstance(error, Unwinding | ContinueRun | GeneratorExit):
            await self.undo_all(error)

    def __enter__(self) -> None:
        raise NotAllowedHere("in an async workflow write `async with saga():`; `with` is for holdfast.sync")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def open(self) -> None:
        """Enters the scope."""
        self._scope.parent = current_scope.get()
        self._token = current_scope.set(self._scope)

    def leave(self) -> None:
        """Leaves the scope, whatever comes next."""
        if self._token is not None:
            current_scope.reset(self._token)

    def keep(self) -> None:
        """All went well: an outer saga now answers for what was done."""
        parent = self._scope.parent
        if parent is not None:
            parent.done.extend(self._scope.done)
            parent.in_flight.update(self._scope.in_flight)
        elif self._scope.done:
            self._program.ask(Keep(keys=tuple(done.key for done in self._scope.done)))

    async def undo_all(self, error: BaseException) -> None:
        """Undoes in reverse order of completion; collects what fails and goes on."""
        scope = self._scope
        if scope.in_flight:
            await asyncio.wait(list(scope.in_flight.values()), timeout=LATE)
        failures: list[str] = []
        while scope.done:
            done = scope.done.pop()
            try:
                await self.undo(done)
            except Exception as failed:  # noqa: BLE001 one failed undo must not keep the others from running
                failures.append(f"{done.key}: {failed}")
        if failures and isinstance(error, Exception):
            raise CompensationFailed(
                f"{len(failures)} of the undo steps failed after {type(error).__name__}: {error}\n" + "\n".join(failures),
                failures=failures,
            ) from error

    def undo(self, done: Done) -> StepCall[Any]:
        """The call that undoes one completed step."""
        call: StepCall[Any] = done.undo.undo_call(self._program, done)
        return call


def saga() -> Saga:
    """A block whose completed steps are undone in reverse if it fails or is cancelled."""
    return Saga()
