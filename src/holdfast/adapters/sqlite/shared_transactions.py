"""Transactions that the store lends, and what callers write in them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from holdfast.adapters.sqlite import caller_transaction, messages
from holdfast.adapters.sqlite.access import Access
from holdfast.adapters.sqlite.lent_transaction import LentTransaction
from holdfast.adapters.sqlite.starts import CreateRun
from holdfast.core.turn import micros
from holdfast.ports.inbox import Delivery, Message
from holdfast.ports.runs import Creation, NewRun


class Lending(Access):
    """The part of a SQLite store through which others write."""

    @property
    def is_exclusive(self) -> bool:
        """See `ports.transactions`."""
        return True

    async def transact(self, *, is_async: bool) -> LentTransaction:
        """See `ports.transactions`. There is one kind of connection."""
        self._check_writable()
        return await self._writer.lend(self._open_writable)

    async def create_within(self, connection: object, new: NewRun, *, key_since: datetime) -> Creation:
        """See `ports.transactions`."""
        self._check_process()
        create: Callable[..., Creation] = CreateRun(new, micros(key_since), "", "")
        return caller_transaction.within(self._writer.lent, connection, create, self._location.url)

    async def send_within(self, connection: object, message: Message) -> Delivery:
        """See `ports.transactions`."""
        self._check_process()
        return caller_transaction.within(
            self._writer.lent, connection, lambda transaction: messages.send(transaction, message), self._location.url
        )

    async def sent_within(self, connection: object, run: str, id: str) -> Message | None:
        """See `ports.transactions`."""
        self._check_process()
        return caller_transaction.within(
            self._writer.lent, connection, lambda transaction: messages.sent(transaction, run, id), self._location.url
        )

    def wake(self) -> None:
        """Checks that this is the store's process, and nothing more: a lent transaction tells when it commits."""
        self._check_process()
