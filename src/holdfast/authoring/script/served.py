"""Updates that handlers serve: one handler for each name, and one task for each question.

A question is taken when it comes, in the order of the inbox, and its handler runs to its first wait before the next
input is delivered. Questions that an earlier pass took are given to the handlers of this pass again, so that changes in
memory are made again; an answer counts once.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.authoring.script.ask import Ask
from holdfast.authoring.script.bridge import SyncBody
from holdfast.authoring.script.calls import UNREADABLE
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.specs import Check, UpdateSpec
from holdfast.errors import InvalidInput, NotAllowedHere, UpdateRefused

if TYPE_CHECKING:
    from holdfast.authoring.script.exchange import Exchange
    from holdfast.authoring.script.waits import Waits


class _Handler:
    __slots__ = ("check", "function", "key", "update")

    def __init__(self, update: UpdateSpec, function: Callable[..., Any], check: Check | None, key: str) -> None:
        self.update = update
        self.function = function
        self.check = check
        self.key = key  # of the next question


class Served:
    """The handlers of one program."""

    __slots__ = ("_by_name", "_program", "_waits", "bodies", "tasks")

    def __init__(self, program: Exchange, waits: Waits) -> None:
        self._program = program
        self._waits = waits
        self._by_name: dict[str, _Handler] = {}
        self.tasks: list[asyncio.Task[Any]] = []
        self.bodies: list[SyncBody] = []

    @property
    def is_any(self) -> bool:
        """Whether a question would be served."""
        return bool(self._by_name)

    def check_free(self, name: str) -> None:
        """Refuses a second handler for that name."""
        if name in self._by_name:
            raise NotAllowedHere(
                f"update {name} is served by a handler of this run: it cannot be taken or served again"
            )

    def check_of(self, name: str) -> tuple[Any, Check | None]:
        """The shape and the check of a served question; None for each if it is not served."""
        handler = self._by_name.get(name)
        return (None, None) if handler is None else (handler.update.question, handler.check)

    def begin(self, update: UpdateSpec, function: Callable[..., Any], check: Check | None) -> None:
        """Serves that name from now on, beginning with questions that have already come."""
        if not callable(function):
            raise InvalidInput(f"Update.serve() takes a function of one question, got {function!r}")
        self.check_free(update.name)
        program = self._program
        if self._waits.awaits_update(update.name):
            raise NotAllowedHere(f"update {update.name} is being taken by this run: it cannot be served as well")
        handler = _Handler(update, function, check, self._next_key(update.name))
        self._by_name[update.name] = handler
        while (memo := program.memo(handler.key)) is not None and isinstance(memo.message, e.UpdateReceived):
            self._start(handler, memo.message)
        for event in self._waits.take_updates(update.name):
            self._take(handler, event)

    def serves(self, event: e.UpdateReceived) -> bool:
        """Starts the handler. Returns False if there is none."""
        handler = self._by_name.get(event.name)
        if handler is None:
            return False
        self._take(handler, event)
        return True

    def _take(self, handler: _Handler, event: e.UpdateReceived) -> None:
        self._program.ask(c.EndWait(key=handler.key, message=event.message))
        self._start(handler, event)

    def _start(self, handler: _Handler, event: e.UpdateReceived) -> None:
        program = self._program
        handler.key = self._next_key(handler.update.name)
        value = program.read(handler.update.question, event.value)
        if value is UNREADABLE:
            return
        ask: Ask[Any, Any] = Ask(program, handler.update, event, value)
        task = program.loop.create_task(
            self._serve(handler, ask), name=f"serve {handler.update.name}", context=contextvars.Context()
        )
        self.tasks = [one for one in self.tasks if not one.done()]
        self.tasks.append(task)

    def _next_key(self, name: str) -> str:
        return self._program.take_key(f"serve {name}")

    async def _serve(self, handler: _Handler, ask: Ask[Any, Any]) -> None:
        try:
            result = await self._called(handler, ask.value)
            ask.answer(result)
        except UpdateRefused as refused:
            ask.refuse(refused.reason)
        except Exception as error:  # noqa: BLE001 it is told to who asked, and the run continues
            ask.leave(error)

    async def _called(self, handler: _Handler, value: Any) -> Any:
        if not self._program.spec.is_async:
            body = SyncBody(self._program, handler.function, (value,), {})
            self.bodies = [one for one in self.bodies if one.is_alive]
            self.bodies.append(body)
            return await body.main()
        result = handler.function(value)
        return await result if inspect.isawaitable(result) else result
