"""Shared transactions: a memory store has none, so every request for one raises."""

from __future__ import annotations

from datetime import datetime

from holdfast.adapters.memory.access import Access
from holdfast.errors import InvalidInput, NotAllowedHere
from holdfast.ports.inbox import Delivery, Message
from holdfast.ports.runs import Creation, NewRun
from holdfast.ports.transactions import OpenTransaction

_NO_DATABASE = (
    "the store is memory://, which has no database to share a transaction with. Use sqlite:///… or postgresql://…."
)


class Lending(Access):
    """The part of a memory store that refuses to lend transactions."""

    @property
    def is_exclusive(self) -> bool:
        """See `ports.transactions`."""
        return False

    async def transact(self, *, is_async: bool) -> OpenTransaction:
        """See `ports.transactions`: refused."""
        raise NotAllowedHere(f"{_NO_DATABASE} In a test put a Fake in the place of a step with tx=True.")

    async def create_within(self, connection: object, new: NewRun, *, key_since: datetime) -> Creation:
        """See `ports.transactions`: refused."""
        raise InvalidInput(f"connection=: {_NO_DATABASE}")

    async def send_within(self, connection: object, message: Message) -> Delivery:
        """See `ports.transactions`: refused."""
        raise InvalidInput(f"connection=: {_NO_DATABASE}")

    async def sent_within(self, connection: object, run: str, id: str) -> Message | None:
        """See `ports.transactions`: refused."""
        raise InvalidInput(f"connection=: {_NO_DATABASE}")

    def wake(self) -> None:
        """Does nothing: callers have no transactions here."""
