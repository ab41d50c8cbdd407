"""The PostgreSQL store: the verbs of the ports, each one function call or one query.

A store belongs to the process that opened it. A forked child must open its own: two processes cannot share a
connection.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from holdfast.adapters.postgres import run_list, trees, wire
from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres import upkeep_statements as upkeep_sql
from holdfast.adapters.postgres.address import Address, parse_address
from holdfast.adapters.postgres.blob_store import Keeping
from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.condition import Examined
from holdfast.adapters.postgres.connections import Dialler, TimedConnection
from holdfast.adapters.postgres.creation import Entrance, Entries, Entry, NewEntry, delivery_of
from holdfast.adapters.postgres.lane import Lane
from holdfast.adapters.postgres.leases import Leasing
from holdfast.adapters.postgres.limits import Limiting, Moves
from holdfast.adapters.postgres.migrations import bring_up_to_date, schema_version
from holdfast.adapters.postgres.overview import Looking
from holdfast.adapters.postgres.queues import Queued
from holdfast.adapters.postgres.read_batches import Gathered
from holdfast.adapters.postgres.schedules import Scheduled
from holdfast.adapters.postgres.shared_transactions import Lending
from holdfast.adapters.postgres.streams import Streaming
from holdfast.adapters.postgres.turns import Turns
from holdfast.adapters.postgres.updates import Asked
from holdfast.adapters.sql.rows import counted, run_row
from holdfast.adapters.telemetry.logs import logged
from holdfast.core.checksums import checked_shown
from holdfast.core.instants import nearest_instant
from holdfast.core.status import Status
from holdfast.core.turn import Row, micros
from holdfast.ports.clock import Clock
from holdfast.ports.condition import Schema
from holdfast.ports.inbox import Accepted, Delivery, Message, Publication, Unconsumed, Watcher, kept_message
from holdfast.ports.journal import Answer, Commit, Tree, Verdict
from holdfast.ports.limits import PlaceMove
from holdfast.ports.runs import Creation, Filter, Made, NewRun, Page, RunRow
from holdfast.ports.telemetry import Telemetry

T = TypeVar("T")
Rows: TypeAlias = list[Row]  # `list` is a verb of the port
Trees: TypeAlias = list[Tree]
UnreadOf: TypeAlias = Mapping[int, list[Unconsumed]]

_OTHERS = 4
"""Connections that are not for reading: two lanes, the heart, the notices."""


async def open_postgres(
    address: str,
    *,
    clock: Clock | None = None,
    auto_migrate: bool = True,
    max_connections: int = 10,
    telemetry: Telemetry | None = None,
) -> PostgresStore:
    """Opens the store at a URL: `postgresql://user@host/database`, several hosts with commas, `?schema=NAME` for
    another schema than `holdfast`, `?notices=off` where LISTEN is not possible.

    Makes the schema if it is missing and brings it up to date. `StoreRefused` says why it cannot be used.
    """
    place = parse_address(address)
    dialler = Dialler(place)
    moments = Moments(clock)

    def prepare() -> TimedConnection:
        connection = dialler.dial(patience=10)
        try:
            bring_up_to_date(connection, place, auto_migrate=auto_migrate)
            asked = time.monotonic_ns()
            ((moment,),) = connection.execute(sql.TIME.encode()).fetchall()
            moments.server.saw(moment, asked, time.monotonic_ns())
        except BaseException:
            connection.close()
            raise
        return connection

    opening = asyncio.get_running_loop().run_in_executor(None, prepare)
    try:
        connection = await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unwanted)
        raise
    return PostgresStore(place, dialler, moments, connection, max_connections, telemetry or logged())


def _close_unwanted(opening: asyncio.Future[TimedConnection]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def schema_of(address: str) -> Schema:
    """The schema version of a store; 0 if it is missing. Changes nothing. Blocks."""
    place = parse_address(address)
    connection = Dialler(place).dial(patience=10)
    try:
        return schema_version(connection, place)
    finally:
        connection.close()


class PostgresStore(Leasing, Keeping, Looking, Examined, Queued, Scheduled, Limiting, Streaming, Asked, Lending):
    """A `ports.store.Store` in a schema. Usable from any thread and event loop of the process that opened it."""

    def __init__(
        self,
        address: Address,
        dialler: Dialler,
        moments: Moments,
        connection: TimedConnection,
        max_connections: int,
        telemetry: Telemetry,
    ) -> None:
        most = max(1, max_connections - _OTHERS)
        super().__init__(address, dialler, moments, connection, most, telemetry)
        self._rows_by_id: Gathered[RunRow] = Gathered(self._get_all)
        self._turns: Turns | None = None
        self._turns_lane: Lane[Sequence[Commit]] | None = None
        self._places_lane: Lane[PlaceMove] | None = None
        self._entrance: Entrance | None = None
        self._making = threading.Lock()  # one lane of a kind, and none after the end

    def __repr__(self) -> str:
        return f"<PostgresStore {self.url}>"

    @property
    def url(self) -> str:
        """The address without the password."""
        return self._address.url

    @property
    def clock(self) -> Clock:
        """An estimate of the server's clock, unless another clock was given."""
        return self._moments.clock

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Calls the listener with hints after each write of this process, on the writing thread, and when other
        processes say that they wrote."""
        return self._listeners.add(listener)

    def changes(self) -> int:
        """Grows when another process says that it wrote."""
        self._check_process()
        self._notices.start()
        return self._notices.changes

    async def close(self) -> None:
        """Finishes all accepted work and closes every connection."""
        self._check_process()
        with self._making:
            self._is_closed = True
        await asyncio.to_thread(self._let_go)

    def _let_go(self) -> None:
        for lane in (self._turns_lane, self._places_lane):
            if lane is not None:
                lane.close()
        if self._entrance is not None:
            self._entrance.lane.close()
        self._end_lending()
        self._threads.shutdown()
        self._notices.close()
        for link in self._links:
            link.drop()

    # -- journal -------------------------------------------------------------------------------------------------------

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Answer]:
        """See `ports.journal`."""
        if not batch:
            return []
        self._check_process()
        verdicts: Sequence[Answer] = await self._lane_of_turns().ask(batch)
        return verdicts

    def commit_now(self, commit: Commit) -> Verdict | None:
        """See `ports.journal`. Waits a few milliseconds at most, so a server that does not answer blocks no event
        loop."""
        if self._turns is None or self._is_closed:
            return None
        self._check_process()
        return self._turns.now(commit)

    async def read(self, runs: Mapping[int, int]) -> Mapping[int, Rows]:
        """See `ports.journal`."""
        found: dict[int, Rows] = {no: [] for no in runs}
        for no, run, *columns in await self._keep(sql.READ_FROM, list(runs), list(runs.values())):
            found[no].append(Row(run, *columns))
        return found

    async def history(self, run: str, *, after_seq: int = 0, limit: int = 1000) -> Rows:
        """See `ports.journal`."""
        rows = await self._rows(sql.READ_AFTER, run, after_seq, limit)
        return [Row(run, *row) for row in rows]

    async def read_tree(self, root: str, *, from_seq: int = 0, limit: int = 1000) -> Rows:
        """See `ports.journal`."""
        return await self._run(lambda link: trees.rows_of(link, root, from_seq, limit))

    async def last_seq(self, root: str) -> int | None:
        """See `ports.journal`."""
        ((last,),) = await self._rows(sql.LAST_SEQ, root)
        return None if last is None else int(last)

    async def trees(self, *, after: str = "", limit: int = 100) -> Trees:
        """See `ports.journal`."""
        return [Tree(*row) for row in await self._rows(sql.OPEN_TREES, after, limit)]

    # -- runs ----------------------------------------------------------------------------------------------------------

    async def create(
        self, new: NewRun, *, key_since: datetime, instance: str = "", worker: str = "", first: Commit | None = None
    ) -> Creation:
        """See `ports.runs`."""
        creation: Creation = await self._enter(NewEntry(new, micros(key_since), instance, worker, first))
        if instance and isinstance(creation, Made) and creation.run.instance:
            self._claimers.count(instance, creation.run.workflow)
        return creation

    async def get(self, run: str) -> RunRow | None:
        """See `ports.runs`."""
        return await self._rows_by_id.get(run)

    async def list(self, which: Filter, *, after: str = "", limit: int = 100) -> Page:
        """See `ports.runs`."""
        return await self._run(lambda link: run_list.page(link, which, after, limit))

    async def count(self) -> dict[Status, int]:
        """See `ports.runs`."""
        return counted(await self._keep(sql.COUNT_BY_STATUS))

    async def exposed(self, run: str, name: str) -> tuple[bytes, str] | None:
        """See `ports.runs`."""
        rows = await self._rows(sql.EXPOSED, run, name)
        return checked_shown(run, name, *rows[0]) if rows else None

    async def exposures(self, run: str) -> Sequence[tuple[str, bytes, str]]:
        """See `ports.runs`; by name."""
        return [(name, *checked_shown(run, name, *shown)) for name, *shown in await self._rows(sql.EXPOSURES, run)]

    # -- inbox ---------------------------------------------------------------------------------------------------------

    async def send(self, message: Message) -> Delivery:
        """See `ports.inbox`."""
        delivery: Delivery = await self._enter(message)
        return delivery

    async def replace(self, message: Message, no: int) -> Delivery:
        """See `ports.inbox`."""
        values = (self._moments.wall(), wire.encoded_json(wire.message(message)), no)
        ((word,),) = await self._keep(upkeep_sql.REPLACE_MESSAGE, *values)
        delivery = delivery_of(word)
        if delivery == Accepted():
            self._tell((message.run,))
        return delivery

    async def publish(self, publication: Publication) -> Sequence[str]:
        """See `ports.inbox`."""
        sent = wire.encoded_json(wire.publication(publication))
        reached: Sequence[str]
        ((reached, woken),) = await self._rows(sql.PUBLISH, self._moments.wall(), sent)
        self._tell(woken)
        return reached

    async def sent(self, run: str, id: str) -> Message | None:
        """See `ports.inbox`."""
        return next((kept_message(*row) for row in await self._rows(sql.SENT, run, id)), None)

    async def published(self, topic: str, id: str) -> Message | None:
        """See `ports.inbox`."""
        return next((kept_message(*row) for row in await self._rows(sql.PUBLISHED, id, topic)), None)

    async def watchers(self, topic: str) -> Sequence[Watcher]:
        """See `ports.inbox`; oldest first."""
        return [Watcher(run, key, nearest_instant(since)) for run, key, since in await self._rows(sql.WATCHERS, topic)]

    async def unread(self, runs: Mapping[int, int]) -> UnreadOf:
        """See `ports.inbox`."""
        found: dict[int, list[Unconsumed]] = {no: [] for no in runs}
        for no, *columns in await self._rows(sql.UNREAD, list(runs), list(runs.values())):
            found[no].append(Unconsumed(*columns))
        return found

    # -- leases --------------------------------------------------------------------------------------------------------

    # -- condition -----------------------------------------------------------------------------------------------------

    # -- how -----------------------------------------------------------------------------------------------------------

    def _lane_of_turns(self) -> Lane[Sequence[Commit]]:
        if self._turns_lane is not None:
            return self._turns_lane
        with self._making:
            if self._turns_lane is None:
                self._check_open()
                link = self._link(writes_plainly=True)
                self._turns = turns = Turns(link, self._moments, self._tell)
                self._turns_lane = Lane("holdfast-turns", turns.perform, link.drop, turns.connect)
            return self._turns_lane

    def _lane_of_places(self) -> Lane[PlaceMove]:
        self._check_process()
        with self._making:
            if self._places_lane is None:
                self._check_open()
                link = self._link()
                self._places_lane = Lane("holdfast-places", Moves(link, self._moments, self._tell).perform, link.drop)
            return self._places_lane

    def _way_in(self) -> Entrance:
        if self._entrance is not None:
            return self._entrance
        with self._making:
            if self._entrance is None:
                self._check_open()
                link = self._link(writes_plainly=True)
                entries = Entries(link, self._moments, self._tell)
                self._entrance = Entrance(entries, Lane("holdfast-entries", entries.perform, link.drop))
            return self._entrance

    async def _enter(self, entry: Entry) -> Any:
        self._check_process()
        return await self._way_in().ask(entry)

    async def _get_all(self, runs: Sequence[str]) -> Mapping[str, RunRow]:
        rows = map(run_row, await self._rows(sql.RUNS_BY_ID, list(runs)))
        return {row.id: row for row in rows}
