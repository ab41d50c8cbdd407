"""What every part of a PostgreSQL store stands on: its links and threads, its clock, and its hints."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres.address import Address
from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.connections import Dialler, TimedConnection
from holdfast.adapters.postgres.lane import closed
from holdfast.adapters.postgres.link import LONG, Link
from holdfast.adapters.postgres.notices import Notices
from holdfast.adapters.sql.listeners import Listeners
from holdfast.adapters.system.forked import belongs_to_this_process
from holdfast.core.shares import Claimers
from holdfast.errors import StoreRefused
from holdfast.ports.parts import STREAMS
from holdfast.ports.telemetry import Tell

T = TypeVar("T")


class Access:
    """The connections of a PostgreSQL store. The parts that implement the ports build on it."""

    def __init__(
        self,
        address: Address,
        dialler: Dialler,
        moments: Moments,
        connection: TimedConnection,
        threads: int,
        report: Tell,
    ) -> None:
        self._address = address
        self._dialler = dialler
        self._moments = moments
        self._pid = os.getpid()
        belongs_to_this_process(self)
        self._texts = sql.Texts(address.quoted)
        self._listeners = Listeners(report)
        self._claimers = Claimers()
        self._notices = Notices(address, dialler, lambda hint: self._listeners.tell((hint,)), report)
        first = Link(dialler, self._texts, connection)
        self._links = [first]  # all of them, so that closing the store closes every connection
        self._idle = [first]  # append and pop are atomic
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="holdfast-store")
        self._is_closed = False

    async def _rows(self, statement: str, *values: object) -> Any:
        return await self._run(lambda link: link.ask(statement, values))

    async def _run(self, ask: Callable[[Link], T]) -> T:
        self._check_usable()
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._lend, ask)

    def _lend(self, ask: Callable[[Link], T]) -> T:
        try:
            link = self._idle.pop()
        except IndexError:
            link = self._link()
        try:
            return ask(link)
        finally:
            self._idle.append(link)

    def _link(self, *, writes_plainly: bool = False) -> Link:
        link = Link(self._dialler, self._texts, writes_plainly=writes_plainly)
        self._links.append(link)
        return link

    def _check_usable(self) -> None:
        self._check_process()
        self._check_open()

    def _check_open(self) -> None:
        if self._is_closed:
            raise closed()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreRefused(
                f"the store {self._address.url} was opened by process {self._pid} and cannot be used in the forked "
                f"child {os.getpid()}: two processes cannot share a connection. Open the store again in the child, as "
                "an App does by itself, and get runs from that: app.get(…)."
            )

    async def _keep(self, statement: str, *values: object) -> Any:
        """Runs a statement that may take long, and returns its rows."""
        return await self._run(lambda link: link.ask(statement, values, patience=LONG))

    def _tell(self, runs: Iterable[str]) -> None:
        """Tells listeners here and, with one notice, those of other processes."""
        told = dict.fromkeys(runs)
        if STREAMS in told:
            del told[STREAMS]
            self._listeners.tell((STREAMS,))
            self._notices.send_parts()
        if told:
            self._listeners.tell(told)
            self._notices.send()
