"""The client of a process. It opens its store at first use and closes it with its last user."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self

from holdfast.adapters.system.forked import refuse_private
from holdfast.authoring.script.context import find_program
from holdfast.client.borrowed_transaction import lent
from holdfast.client.client import Client
from holdfast.errors import NotAllowedHere


class ClientHolder:
    """Opens one client for a process and keeps it. A subclass defines how."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._opening: asyncio.Lock | None = None
        self._users = 0
        self._pid = os.getpid()

    @property
    def url(self) -> str:
        """The address of the store."""
        raise NotImplementedError

    async def _open(self) -> Client:
        raise NotImplementedError

    async def _close(self) -> None:
        """Closes what `_open` opened."""
        raise NotImplementedError

    async def client(self) -> Client:
        """The client. Opens the store at first use."""
        self._check_process()
        if find_program() is not None:
            raise NotAllowedHere(
                "an app was used in a workflow, which would do the same again on every replay: use start(…), "
                "each(…), signals and children there, or use the app in a step"
            )
        if self._client is None:
            if self._opening is None:
                self._opening = asyncio.Lock()
            async with self._opening:
                if self._client is None:
                    self._client = await self._open()
        return self._client

    @property
    def is_open(self) -> bool:
        """Whether the store is open here."""
        return self._client is not None and self._pid == os.getpid()

    def _check_process(self) -> None:
        """Forgets the parent's store in a forked child, which must open its own."""
        if self._pid == os.getpid():
            return
        if self._client is not None:
            refuse_private(self.url, self._pid)
        self._pid = os.getpid()
        self._client = self._opening = None
        self._users = 0

    async def close(self) -> None:
        """Closes the store. The app opens it again when it is next used. In a forked child the parent's store stays
        open."""
        if not self.is_open:
            return
        client, self._client = self._client, None
        self._opening = None
        if client is not None:
            client.close()
        await self._close()

    async def __aenter__(self) -> Self:
        """A client only: no worker."""
        self._users += 1
        await self.client()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._users = max(0, self._users - 1)
        if self._users == 0:
            await self.close()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Any]:
        """`async with app.connection() as connection:` — a transaction in the database of the journal, for your tables.

        It commits at the end of the block and rolls back if the block raises. With `start(…, connection=)`, the run and
        your rows are committed together or not at all. On SQLite it is an `apsw.Connection`, and nothing else can write
        to the file until the block ends: keep it short. On PostgreSQL it is a `psycopg.AsyncConnection`.
        """
        async with lent((await self.client()).store) as connection:
            yield connection
