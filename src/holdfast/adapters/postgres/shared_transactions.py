"""Transactions that the store shares: those it lends, and those of callers that it joins."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime

import psycopg

from holdfast.adapters.postgres import caller_transaction
from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres.access import Access
from holdfast.adapters.postgres.address import Address
from holdfast.adapters.postgres.after_commit import Home
from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.connections import Dialler, TimedConnection
from holdfast.adapters.postgres.creation import NewEntry
from holdfast.adapters.postgres.lent_session import Engines
from holdfast.adapters.postgres.lent_transaction import LentTransaction
from holdfast.adapters.postgres.link import PATIENCE, Link
from holdfast.adapters.postgres.problems import is_lost, translated
from holdfast.adapters.postgres.slots import Slots
from holdfast.core.turn import micros
from holdfast.ports.inbox import Delivery, Message
from holdfast.ports.runs import Creation, NewRun
from holdfast.ports.telemetry import Telemetry

MOST_UNTOLD = 1000
"""Runs of callers' transactions that are remembered until the caller says that it has committed."""


class Lending(Access):
    """The part of a PostgreSQL store through which others write. It lends at most `most` transactions at a time."""

    def __init__(
        self,
        address: Address,
        dialler: Dialler,
        moments: Moments,
        connection: TimedConnection,
        most: int,
        telemetry: Telemetry,
    ) -> None:
        super().__init__(address, dialler, moments, connection, most, telemetry.tell)
        self._most_lent = most
        self._telemetry = telemetry
        self._slots = Slots(most)
        self._spare: list[TimedConnection] = []  # append and pop are atomic
        self._lending = ThreadPoolExecutor(most, thread_name_prefix="holdfast-transactions")
        self._is_ending = threading.Event()
        self._home: Home | None = None
        self._engines = Engines()
        self._untold: dict[str, None] = {}

    @property
    def is_exclusive(self) -> bool:
        """See `ports.transactions`."""
        return False

    async def transact(self, *, is_async: bool) -> LentTransaction:
        """See `ports.transactions`."""
        self._check_usable()
        await self._slots.take()
        future = asyncio.get_running_loop().run_in_executor(self._lending, self._begun)
        try:
            dialled = await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(self._unwanted)
            raise
        except BaseException:
            self._slots.give_back()
            raise
        return LentTransaction(
            dialled,
            self._texts,
            self._moments,
            is_async=is_async,
            threads=self._lending,
            link=lambda: Link(self._dialler, self._texts),
            tell=self._tell,
            report=self._telemetry.tell,
            give_back=self._returned,
            is_closed=self._is_ending,
            engines=self._engines,
        )

    async def create_within(self, connection: object, new: NewRun, *, key_since: datetime) -> Creation:
        """See `ports.transactions`."""
        entry = NewEntry(new, micros(key_since), "", "")
        return await caller_transaction.create(connection, entry, await self._at_home())

    async def send_within(self, connection: object, message: Message) -> Delivery:
        """See `ports.transactions`."""
        return await caller_transaction.send(connection, message, await self._at_home())

    async def sent_within(self, connection: object, run: str, id: str) -> Message | None:
        """See `ports.transactions`."""
        return await caller_transaction.sent(connection, run, id, await self._at_home())

    def wake(self) -> None:
        """See `ports.transactions`."""
        untold, self._untold = self._untold, {}
        self._tell(untold)

    async def _at_home(self) -> Home:
        self._check_usable()
        if self._home is None:
            (identity,) = await self._rows(sql.IDENTITY)
            self._home = Home(self._address.url, identity, self._texts, self._moments, self._tell, self._owe)
        return self._home

    def _owe(self, runs: Iterable[str]) -> None:
        """Keeps the names of runs until `wake`. Of very many the first do: one is enough to make workers look."""
        if len(self._untold) < MOST_UNTOLD:
            self._untold.update(dict.fromkeys(runs))

    def _begun(self) -> TimedConnection:
        """A connection in a new transaction. A spare connection may have been lost unnoticed."""
        while True:
            try:
                dialled, is_new = self._spare.pop(), False
            except IndexError:
                dialled, is_new = self._dialler.dial(PATIENCE), True
            try:
                dialled.patience = PATIENCE
                dialled.execute(self._texts[sql.BEGIN])
            except psycopg.Error as error:
                dialled.close()
                if is_new or not is_lost(error):
                    raise translated(error) from error
            else:
                return dialled

    def _unwanted(self, begun: asyncio.Future[TimedConnection]) -> None:
        """Returns a connection whose caller has given up."""
        if not begun.cancelled() and begun.exception() is None:
            begun.result().close()
        self._slots.give_back()

    def _returned(self, dialled: TimedConnection) -> None:
        """Makes the connection spare, once nothing of its borrower is left in the session."""
        try:
            dialled.execute(self._texts[sql.DISCARD])
        except psycopg.Error:
            dialled.close()
        if not dialled.closed and not self._is_ending.is_set() and len(self._spare) < self._most_lent:
            self._spare.append(dialled)
        else:
            dialled.close()
        self._slots.give_back()

    def _end_lending(self) -> None:
        """Blocks until every transaction that is ending has ended."""
        self._is_ending.set()
        self._lending.shutdown()
        while self._spare:
            with suppress(psycopg.Error):
                self._spare.pop().close()
