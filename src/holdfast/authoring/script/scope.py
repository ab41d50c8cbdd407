"""What a saga block has done so far, and how to undo it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import msgspec

from holdfast.core.specs import StepSpec


class Done(msgspec.Struct):
    """A completed step of a scope, with what its undo needs."""

    key: str
    undo: Any
    result: Any
    args: bytes
    spec: StepSpec

    def undo_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The result first, then the step's own arguments, bound to the undo's parameters by position."""
        args, kwargs = self.spec.arguments.decode(self.args)
        return (self.result, *args), dict(kwargs)


class Scope:
    """What one saga block has done so far. After a block succeeded, its parent takes over, including outcomes that come
    late."""

    __slots__ = ("_heir", "_in_flight", "done")

    def __init__(self) -> None:
        self.done: list[Done] = []
        self._in_flight: dict[str, asyncio.Future[None]] = {}
        self._heir: Scope | None = None

    def began(self, key: str, loop: asyncio.AbstractEventLoop) -> None:
        """A step that can be undone was asked for."""
        scope = self._answering()
        scope._in_flight[key] = loop.create_future()

    def settled(self, key: str, done: Done | None) -> None:
        """The outcome of a step came. A completed step is added to what can be undone."""
        scope = self._answering()
        if done is not None:
            scope.done.append(done)
        late = scope._in_flight.pop(key, None)
        if late is not None and not late.done():
            late.set_result(None)

    def in_flight(self) -> list[asyncio.Future[None]]:
        """Futures that end when the outcomes of open steps come."""
        return list(self._in_flight.values())

    def hand_over(self, parent: Scope) -> None:
        """Hands everything to the outer block, because this one succeeded."""
        parent.done.extend(self.done)
        parent._in_flight.update(self._in_flight)
        self._heir = parent

    def _answering(self) -> Scope:
        scope = self
        while scope._heir is not None:
            scope = scope._heir
        return scope


current_scope: ContextVar[Scope | None] = ContextVar("holdfast_saga", default=None)
