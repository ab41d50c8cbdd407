"""What an event loop has asked of the writer, collected for one pass of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.adapters.sqlite.attempt import Work
from holdfast.adapters.sqlite.transaction import Operation


class Request(msgspec.Struct, eq=False):
    """Work whose caller waits for `future` on an event loop."""

    future: asyncio.Future[Any]
    work: Work

    def answer(self) -> None:
        """Answers the waiting caller, on the thread of its loop."""
        if self.future.done():  # cancelled meanwhile; what was written stays written
            return
        try:
            result = self.work.outcome()
        except Exception as error:  # noqa: BLE001 - the waiting caller gets it
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class Batch(Work, eq=False):
    """Several operations for one caller. Its outcome is the outcome of each: a result or an error."""

    parts: Sequence[Work] = ()

    @staticmethod
    def of(operations: Sequence[Operation[Any]]) -> Batch:
        """The batch of these operations."""
        return Batch(lambda _: None, is_large=True, parts=[Work(operation) for operation in operations])

    @property
    def pieces(self) -> Sequence[Work]:
        """See `Work`."""
        return self.parts

    def outcome(self) -> list[Any]:
        """The result or error of each operation."""
        if self.error is not None:
            raise self.error
        return [piece.result if piece.error is None else piece.error for piece in self.parts]


class Outbox:
    """Requests of one event loop that are not sent yet. `is_calm` says that the last request came alone and that a pass
    of the loop has ended since: the next one need not wait for others."""

    __slots__ = ("is_calm", "loop", "requests")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self.requests: list[Request] = []
        self.is_calm: bool = False

    def was_calm(self) -> bool:
        """Whether the outbox is calm. If so, it is calm again only a pass of the loop later, so that no caller starves
        others."""
        if not self.is_calm or self.requests:
            return False
        self.is_calm = False
        self.loop.call_soon(self._become_calm)
        return True

    def emptied(self) -> list[Request]:
        """Empties the outbox and returns what was in it, before any request is carried out."""
        requests, self.requests = self.requests, []
        self.is_calm = len(requests) == 1
        return requests

    def _become_calm(self) -> None:
        self.is_calm = True
