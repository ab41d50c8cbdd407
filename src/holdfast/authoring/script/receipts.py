"""Receipts: the outcomes of the signals that a run sent.

The commit of the turn that sends a signal decides whether it arrives. If it does not, that commit puts a message into
the sender's own inbox. The journal holds an outcome only if the signal was lost, or if the program waits for it: a
receipt that is not awaited costs nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from holdfast.authoring.script.bridge import block_on
from holdfast.core import events as e
from holdfast.core.passes import place_of_send
from holdfast.errors import Conflict, HoldfastError, RunFinished, RunNotFound

if TYPE_CHECKING:
    from holdfast.authoring.script.exchange import Exchange


class Receipt:
    """What `Signal.send` returns. Awaited, it ends once the signal is in the inbox of the other run, or raises
    `RunFinished`, `RunNotFound` or, if another message has its id, `Conflict`. A signal that is not awaited is sent
    too."""

    __slots__ = ("_id", "_key", "_name", "_place", "_receipts", "_to")

    def __init__(self, receipts: Receipts, key: str, to: str, name: str, id: str = "") -> None:
        self._receipts = receipts
        self._key = key
        self._to = to
        self._name = name
        self._id = id
        self._place = receipts.sent(name, to) if not id else ""  # under an id of its own the store knows what was sent

    def __repr__(self) -> str:
        return f"<Receipt of {self._name!r} to {self._to!r}>"

    def __await__(self) -> Generator[Any, Any, None]:
        receipts = self._receipts
        event = receipts.known(self._key, self._place)
        if event is None:
            future = receipts.future(self._key, self._to)
            try:
                event = yield from future
            except asyncio.CancelledError:
                receipts.give_up(self._key, future)
                raise
        if event.status != "delivered":
            raise self._refused(event)

    def _refused(self, event: e.SendSettled) -> HoldfastError:
        to, what = self._to, f"signal {self._name} was not delivered"
        if event.status == "missing":
            return RunNotFound(f"no run {to!r} in this store: {what}")
        if event.status == "conflict":
            return Conflict(
                f"run {to}: id {self._id!r} was used for another message, so {what}. Use a different id for a "
                f"different message. What was sent: holdfast show {to}"
            )
        return RunFinished(f"run {to} has {_HOW[event.status]}: {what}", run_id=to, status=event.status)


class SyncReceipt(Receipt):
    """What `Signal.send` of `holdfast.sync` returns."""

    __slots__ = ()

    def wait(self) -> None:
        """Waits until the signal is in the inbox of the other run. Raises `RunFinished`, `RunNotFound` or `Conflict`
        if it cannot be delivered."""
        block_on(self, "Receipt.wait()")


class Receipts:
    """The receipts of one program."""

    __slots__ = ("_futures", "_known", "_lost", "_program", "_sent", "_targets")

    def __init__(self, program: Exchange) -> None:
        self._program = program
        self._known: dict[str, e.SendSettled] = {}
        self._lost: set[tuple[str, int]] = set()
        self._sent: Counter[tuple[str, str]] = Counter()
        self._targets: dict[str, str] = {}
        self._futures: dict[str, list[asyncio.Future[e.SendSettled]]] = {}

    def sent(self, name: str, to: str) -> str:
        """Counts a sent signal. Returns the key under which an earlier pass would have recorded its outcome."""
        self._sent[name, to] += 1
        return place_of_send(name, to, self._sent[name, to])

    def known(self, key: str, place: str) -> e.SendSettled | None:
        """The outcome, if the journal has it. A delivery in an earlier pass counts, although the signal is sent
        again."""
        memo = self._program.memo(place) if place else None
        earlier = memo.settled if memo is not None else None
        if isinstance(earlier, e.SendSettled) and (earlier.key, earlier.ordinal) not in self._lost:
            return earlier
        return self._known.get(key)

    def future(self, key: str, to: str) -> asyncio.Future[e.SendSettled]:
        """The future of one waiter. Each has its own: cancelling one does not affect the others."""
        future = self._program.loop.outcome_future()
        self._targets[key] = to
        self._futures.setdefault(key, []).append(future)
        return future

    def give_up(self, key: str, future: asyncio.Future[e.SendSettled]) -> None:
        """The author's code no longer waits."""
        left = [one for one in self._futures.pop(key, ()) if one is not future]
        if left:
            self._futures[key] = left

    def settled(self, event: e.SendSettled) -> None:
        """Delivers an outcome. A loss from an earlier pass ends no wait, since its keys are used again."""
        if event.status != "delivered" and event.ordinal <= self._program.beginning.ordinal:
            self._lost.add((event.key, event.ordinal))
            return
        self._known.setdefault(event.key, event)
        for future in self._futures.pop(event.key, ()):
            if not future.done():
                future.set_result(event)

    def awaited(self) -> dict[str, str]:
        """Keys and receivers of the signals whose outcome is awaited."""
        return {key: self._targets[key] for key in self._futures}

    def pending(self) -> list[asyncio.Future[Any]]:
        """Every future that may be awaited."""
        return [future for several in self._futures.values() for future in several]


_HOW = {"completed": "completed", "failed": "failed", "cancelled": "been cancelled"}
