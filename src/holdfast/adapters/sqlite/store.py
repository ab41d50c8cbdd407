"""The SQLite store: the verbs of the ports, each one operation of the writer or one query of a reader.

A store belongs to the process that opened it. A forked child must open its own: SQLite's locks are not inherited.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TypeAlias

import apsw

from holdfast.adapters.sql.rows import counted, run_row
from holdfast.adapters.sqlite import messages, trees
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.access import MANY
from holdfast.adapters.sqlite.blob_store import Keeping
from holdfast.adapters.sqlite.condition import Examined
from holdfast.adapters.sqlite.connections import Durability, fetch
from holdfast.adapters.sqlite.leases import Leasing
from holdfast.adapters.sqlite.limits import Limiting
from holdfast.adapters.sqlite.open_checks import prepare
from holdfast.adapters.sqlite.overview import Looking
from holdfast.adapters.sqlite.queues import Queued
from holdfast.adapters.sqlite.run_list import page
from holdfast.adapters.sqlite.schedules import Scheduled
from holdfast.adapters.sqlite.shared_transactions import Lending
from holdfast.adapters.sqlite.starts import CreateRun
from holdfast.adapters.sqlite.streams import Streaming
from holdfast.adapters.sqlite.turns import commit_turn
from holdfast.adapters.sqlite.updates import Asked
from holdfast.adapters.system.clock import SystemClock
from holdfast.core.checksums import checked_shown
from holdfast.core.instants import nearest_instant
from holdfast.core.status import Status
from holdfast.core.turn import Row, micros
from holdfast.ports.clock import Clock
from holdfast.ports.inbox import Delivery, Message, Publication, Unconsumed, Watcher, kept_message
from holdfast.ports.journal import Answer, Commit, Tree, Verdict, answered
from holdfast.ports.runs import Creation, Filter, Made, NewRun, Page, RunRow
from holdfast.ports.telemetry import Tell

Rows: TypeAlias = list[Row]  # `list` is a verb of the port
Trees: TypeAlias = list[Tree]
UnreadOf: TypeAlias = Mapping[int, list[Unconsumed]]


async def open_sqlite(
    address: str | os.PathLike[str],
    *,
    clock: Clock | None = None,
    auto_migrate: bool = True,
    durability: Durability = "full",
    max_connections: int = 10,
    tell: Tell | None = None,
) -> SqliteStore:
    """Opens the store at a path or URL (`sqlite:///file.db`, `sqlite:////folder/file.db`, `sqlite:///:memory:`).

    Makes the file if it is missing and brings its schema up to date. `durability="normal"` syncs at checkpoints only: a
    power cut may then lose the last commits. At most `max_connections` are open for reading; writing has its own.
    Raises `StoreRefused` with the reason if a file cannot be used.
    """
    location = await asyncio.to_thread(prepare, address, auto_migrate=auto_migrate, durability=durability)
    chosen = "off" if location.folder else durability
    return SqliteStore(location, clock or SystemClock(), chosen, max_connections, tell)


class SqliteStore(Leasing, Keeping, Looking, Examined, Queued, Scheduled, Limiting, Streaming, Asked, Lending):
    """A `ports.store.Store` in one file. Usable from any thread and event loop of the process that opened it."""

    @property
    def url(self) -> str:
        """The address of the file."""
        return self._location.url

    @property
    def clock(self) -> Clock:
        """The clocks of this host, unless others were given."""
        return self._clock

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Calls the listener with hints after each commit of this process, on the committing thread."""
        return self._listeners.add(listener)

    def changes(self) -> int:
        """Grows when another connection wrote; within this process that is only the heartbeat."""
        self._check_process()
        return self._writer.changes()

    async def close(self) -> None:
        """Finishes all accepted work and closes every connection."""
        self._check_process()
        self._writer.flush()
        self._readers.close()
        await asyncio.to_thread(self._writer.close)
        self._end()

    # -- journal -------------------------------------------------------------------------------------------------------

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Answer]:
        """See `ports.journal`."""
        if not batch:
            return []
        if len(batch) == 1:
            return [await self._write(partial(commit_turn, commit=batch[0]), is_large=_is_large(batch[0]))]
        self._check_writable()
        return answered(await self._writer.run_all([partial(commit_turn, commit=commit) for commit in batch]))

    def commit_now(self, commit: Commit) -> Verdict | None:
        """See `ports.journal`."""
        self._check_process()
        if _is_large(commit):
            return None
        return self._writer.run_now(partial(commit_turn, commit=commit))

    async def read(self, runs: Mapping[int, int]) -> Mapping[int, Rows]:
        """See `ports.journal`."""

        def ask(connection: apsw.Connection) -> Mapping[int, Rows]:
            found: dict[int, Rows] = {}
            for no, first in runs.items():
                ids = fetch(connection, sql.ID_OF_RUN, (no,))
                found[no] = [Row(ids[0][0], *row) for row in fetch(connection, sql.READ_FROM, (no, first))]
            return found

        return self._read(ask)

    async def history(self, run: str, *, after_seq: int = 0, limit: int = 1000) -> Rows:
        """See `ports.journal`."""

        def ask(connection: apsw.Connection) -> Rows:
            numbers = fetch(connection, sql.NO_OF_RUN, (run,))
            rows = fetch(connection, sql.READ_AFTER, (numbers[0][0], after_seq, limit)) if numbers else []
            return [Row(run, *row) for row in rows]

        return self._read(ask)

    async def read_tree(self, root: str, *, from_seq: int = 0, limit: int = 1000) -> Rows:
        """See `ports.journal`. Off the event loop: a tree may be large, and so may the store."""
        return await asyncio.to_thread(self._read, partial(trees.rows_of, root=root, from_seq=from_seq, limit=limit))

    async def last_seq(self, root: str) -> int | None:
        """See `ports.journal`."""
        found: Sequence[tuple[int | None]] = self._rows(sql.LAST_SEQ, root, root)
        return found[0][0]

    async def trees(self, *, after: str = "", limit: int = 100) -> Trees:
        """See `ports.journal`. Off the event loop: it looks at every run that has not ended."""
        return [Tree(*row) for row in await asyncio.to_thread(self._rows, sql.OPEN_TREES, after, limit)]

    # -- runs ----------------------------------------------------------------------------------------------------------

    async def create(
        self, new: NewRun, *, key_since: datetime, instance: str = "", worker: str = "", first: Commit | None = None
    ) -> Creation:
        """See `ports.runs`."""
        since = micros(key_since) if new.started.key else 0
        creation = await self._write(CreateRun(new, since, instance, worker, first))
        if instance and isinstance(creation, Made) and creation.run.instance:
            self._claimers.count(instance, creation.run.workflow)
        return creation

    async def get(self, run: str) -> RunRow | None:
        """See `ports.runs`."""
        rows = self._rows(sql.RUN_BY_ID, run)
        return run_row(rows[0]) if rows else None

    async def list(self, which: Filter, *, after: str = "", limit: int = 100) -> Page:
        """See `ports.runs`."""
        return self._read(lambda connection: page(connection, which, after, limit))

    async def count(self) -> dict[Status, int]:
        """See `ports.runs`. Off the event loop: it counts every run."""
        rows = await asyncio.to_thread(self._rows, sql.COUNT_BY_STATUS)
        return counted(rows)

    async def exposed(self, run: str, name: str) -> tuple[bytes, str] | None:
        """See `ports.runs`."""
        rows = self._rows(sql.EXPOSED, run, name)
        return checked_shown(run, name, *rows[0]) if rows else None

    async def exposures(self, run: str) -> Sequence[tuple[str, bytes, str]]:
        """See `ports.runs`; by name."""
        return [(name, *checked_shown(run, name, *shown)) for name, *shown in self._rows(sql.EXPOSURES, run)]

    # -- inbox ---------------------------------------------------------------------------------------------------------

    async def send(self, message: Message) -> Delivery:
        """See `ports.inbox`."""
        return await self._write(lambda transaction: messages.send(transaction, message))

    async def replace(self, message: Message, no: int) -> Delivery:
        """See `ports.inbox`."""
        return await self._write(lambda transaction: messages.replace(transaction, message, no))

    async def publish(self, publication: Publication) -> Sequence[str]:
        """See `ports.inbox`."""
        return await self._write(lambda transaction: messages.publish(transaction, publication), is_large=True)

    async def sent(self, run: str, id: str) -> Message | None:
        """See `ports.inbox`."""
        return next((kept_message(*row) for row in self._rows(messages.SENT, run, id)), None)

    async def published(self, topic: str, id: str) -> Message | None:
        """See `ports.inbox`."""
        return next((kept_message(*row) for row in self._rows(messages.PUBLISHED, topic, id)), None)

    async def watchers(self, topic: str) -> Sequence[Watcher]:
        """See `ports.inbox`; oldest first."""
        return [Watcher(run, key, nearest_instant(since)) for run, key, since in self._rows(sql.WATCHERS, topic)]

    async def unread(self, runs: Mapping[int, int]) -> UnreadOf:
        """See `ports.inbox`."""
        return self._read(
            lambda connection: {
                no: [Unconsumed(*row) for row in fetch(connection, sql.UNREAD, (no, seen))] for no, seen in runs.items()
            }
        )

    # -- leases --------------------------------------------------------------------------------------------------------

    # -- condition -----------------------------------------------------------------------------------------------------

    # -- how -----------------------------------------------------------------------------------------------------------


def _is_large(commit: Commit) -> bool:
    """Whether the work is too large for an event loop, which it would block."""
    return bool(commit.blobs) or len(commit.children) > MANY
