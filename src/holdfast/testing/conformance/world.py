"""What the conformance tests share: values that a real client and worker would make, and views of a whole store.

Rows are chained, projections are folds, and a store is only asked for what its ports promise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Literal

import msgspec

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.core import events as e
from holdfast.core.doing import doing, encode_doing
from holdfast.core.failure import Failure
from holdfast.core.fold import fold
from holdfast.core.projection import Projection, project
from holdfast.core.references import references_of
from holdfast.core.run import Run
from holdfast.core.snapshot import Snapshot
from holdfast.core.turn import (
    FORMAT,
    Row,
    Turn,
    checksum,
    decode_row,
    decode_rows,
    encode_events,
    genesis,
    is_compacted,
    micros,
)
from holdfast.ports import inbox
from holdfast.ports.inbox import Message, Publication, Unconsumed
from holdfast.ports.inbox import message as compose
from holdfast.ports.journal import Commit, Committed, Journal, Park, Verdict, sole_verdict
from holdfast.ports.leases import ClaimRequest, Claims, TakeOver, WorkerRow
from holdfast.ports.runs import Creation, Filter, Joining, Made, NewRun, Replaced, RunRow
from holdfast.ports.store import Store
from holdfast.turn.commit import exposure

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
TTL = timedelta(seconds=15)
WINDOW = timedelta(hours=24)
TOPICS = ("news", "weather")
DONE = e.Completed(value=msgspec.Raw(b'"shipped"'))
BOOM = e.Failed(failure=Failure("ValueError", "no stock"))
STOPPED = e.Cancelled(reason="customer left")


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def chained(previous: bytes, run: str, ordinal: int, epoch: int, at: datetime, events: Sequence[e.AnyEvent]) -> Row:
    """A row that follows the row with the checksum `previous`."""
    body = encode_events(events)
    moment = micros(at)
    return Row(run, ordinal, epoch, moment, FORMAT, checksum(previous, ordinal, epoch, moment, body), body)


def new_run(
    run: str,
    at: datetime,
    workflow: str = "order",
    *,
    input_hash: str = "",
    blobs: tuple[tuple[str, bytes], ...] = (),
    needs: tuple[str, ...] = (),
    watcher: tuple[str, str] | None = None,
    unique: str = "",
    rides: bool = False,
    replaces: Replaced | None = None,
    joins: Joining | None = None,
    **started: Any,
) -> NewRun:
    """A run to be made; further arguments are those of `Started`."""
    first = e.Started(workflow=workflow, **started)
    row = chained(genesis(run), run, 1, 0, at, [first])
    made = fold(run, [decode_row(row)])
    return NewRun(
        row=row,
        started=first,
        doing=encode_doing(doing(made)),
        input_hash=input_hash,
        blobs=blobs,
        needs=needs,
        references=references_of([first]),
        watcher=watcher,
        unique=unique,
        rides=rides,
        replaces=replaces,
        joins=joins,
    )


def signal(run: str, message: str, name: str = "go", value: bytes = b"1") -> Message:
    """A signal to a run."""
    event = e.SignalReceived(message=message, name=name, value=msgspec.Raw(value))
    return compose(run, message, "signal", event)


def publication(
    topic: str, message: str, value: bytes = b"1", blobs: tuple[tuple[str, bytes], ...] = ()
) -> Publication:
    """A message to the watchers of a topic, with the place of the wait's key left empty."""
    event = e.TopicReceived(key="", message=message, name=topic, value=msgspec.Raw(value))
    return inbox.publication(topic, message, event, blobs=blobs)


def request(worker: WorkerRow, *, limit: int = 10, only: Sequence[str] = ()) -> ClaimRequest:
    """What a worker asks for when it claims."""
    return ClaimRequest(worker=worker, limit=limit, max_claims=5, only=tuple(only))


def event_of(message: Unconsumed) -> Any:
    """The event a message holds."""
    return msgspec.json.decode(message.body, type=e.AnyEvent)


@dataclass
class Holder:
    """A worker that advances a run: it reads the journal at the claim and writes turns, as the engine does."""

    world: World
    row: RunRow
    turns: list[Turn]

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def no(self) -> int:
        return self.row.no

    @property
    def epoch(self) -> int:
        return self.row.epoch

    @property
    def run(self) -> Run:
        return fold(self.id, self.turns)

    def turn(self, *events: e.AnyEvent, park: Park | None = None, **rest: Any) -> Commit:
        """The next turn; the first one of an epoch begins with the claim. Further arguments are those of `Commit`."""
        run = self.run
        if run.epoch != self.epoch:
            restarted = tuple(step.key for step in run.in_flight)
            events = (e.Claimed(worker=self.row.worker, restarted=restarted), *events)
        row = chained(run.checksum, self.id, run.ordinal + 1, self.epoch, self.world.clock.now(), events)
        return Commit(
            no=self.no,
            row=row,
            after=run.checksum,
            projection=self._projection(row),
            is_terminal=any(isinstance(event, e.TERMINAL) for event in events),
            exposed=tuple(exposure(event) for event in events if isinstance(event, e.Exposed)),
            references=references_of(events),
            park=park,
            **rest,
        )

    async def commit(self, *events: e.AnyEvent, park: Park | None = None, **rest: Any) -> Verdict:
        """Writes the next turn."""
        return await self.submit(self.turn(*events, park=park, **rest))

    async def submit(self, commit: Commit) -> Verdict:
        """Sends a turn, and remembers it if it was accepted."""
        verdict = sole_verdict(await self.world.store.commit([commit]))
        if isinstance(verdict, Committed):
            self.accept(commit)
        return verdict

    def accept(self, commit: Commit) -> None:
        """The turn is durable: the next one follows it."""
        if commit.row.ordinal > self.run.ordinal:
            self.turns.append(decode_row(commit.row))

    async def commits(self, *events: e.AnyEvent, park: Park | None = None, **rest: Any) -> Committed:
        """Writes the next turn, which must be accepted."""
        verdict = await self.commit(*events, park=park, **rest)
        assert isinstance(verdict, Committed), verdict
        return verdict

    async def parks(self, until: datetime | None = None, *, inbox_seen: int = 0) -> None:
        """Ends a turn by releasing the run."""
        await self.commits(park=Park(until), inbox_seen=inbox_seen)

    def child(self, run: str, key: str, workflow: str = "parcel", **started: Any) -> NewRun:
        """A child to be made with the next turn."""
        return new_run(
            run,
            self.world.clock.now(),
            workflow,
            watcher=(self.id, key),
            parent=self.id,
            parent_key=key,
            root=self.row.root,
            **started,
        )

    def _projection(self, row: Row) -> Projection:
        return project(fold(self.id, [*self.turns, decode_row(row)]))


@dataclass
class World:
    """A store under test, its clock, and what the tests do with both."""

    store: Store
    clock: VirtualClock
    workers: dict[str, WorkerRow] = field(default_factory=dict[str, WorkerRow])

    # -- making things -------------------------------------------------------------------------------------------------

    def new(self, run: str, workflow: str = "order", **facts: Any) -> NewRun:
        """A run to be made now."""
        return new_run(run, self.clock.now(), workflow, **facts)

    async def create(self, new: NewRun, **options: Any) -> Creation:
        """Creates a run with the usual window for its key."""
        return await self.store.create(new, key_since=self.clock.now() - WINDOW, **options)

    async def make(self, run: str, workflow: str = "order", **facts: Any) -> RunRow:
        """Creates a run that must not exist yet."""
        creation = await self.create(self.new(run, workflow, **facts))
        assert isinstance(creation, Made), creation
        return creation.run

    async def put_snapshot(self, no: int, snapshot: Snapshot, blobs: Mapping[str, bytes]) -> bool:
        """Keeps a snapshot that refers to just the blobs it brings."""
        return await self.store.put_snapshot(no, snapshot, blobs, tuple(blobs))

    async def compact(self, no: int, stand_in: Row) -> int:
        """Compacts, with the references of the stand-in."""
        return await self.store.compact(no, stand_in, references_of(decode_row(stand_in).events))

    async def worker(
        self,
        instance: str = "i1",
        worker: str = "",
        *,
        queues: tuple[str, ...] = ("default",),
        definitions: tuple[tuple[str, str], ...] = (("order", ""), ("parcel", "")),
        pid: int = 0,
        host: str = "here",
        takes_over: TakeOver = "gone",
    ) -> WorkerRow:
        """A registered worker instance; its id is that of the instance with a w for the i."""
        row = WorkerRow(
            instance=instance,
            worker=worker or instance.replace("i", "w"),
            queues=queues,
            definitions=definitions,
            pid=pid,
            host=host,
            started_at=self.clock.now(),
        )
        await self.store.register(row, TTL, takes_over=takes_over)
        self.workers[instance] = row
        return row

    async def claim(self, worker: WorkerRow, *, limit: int = 10, only: Sequence[str] = ()) -> Claims:
        return await self.store.claim(request(worker, limit=limit, only=only))

    async def claimed_ids(self, worker: WorkerRow, *, limit: int = 10) -> list[str]:
        """Claims, and says which runs were taken, in order."""
        return [run.id for run in (await self.claim(worker, limit=limit)).runs]

    async def held_run(self, run: str, *, instance: str = "i1", **facts: Any) -> Holder:
        """A new run, claimed by a worker that is registered if it was not."""
        await self.make(run, **facts)
        return await self.holder(run, instance=instance)

    async def holder(self, run: str, *, instance: str = "i1") -> Holder:
        """Claims a run that is due."""
        worker = self.workers.get(instance) or await self.worker(instance)
        (row,) = (await self.claim(worker, only=[run])).runs
        return await self.reader(row)

    async def reader(self, row: RunRow) -> Holder:
        """A holder of the run as that row says, its journal read."""
        rows = await self.store.history(row.id)
        return Holder(self, row, decode_rows(rows))

    async def ended_run(self, run: str, end: e.Terminal = DONE, **facts: Any) -> RunRow:
        """A run that has ended."""
        holder = await self.held_run(run, **facts)
        await holder.commits(end)
        return await self.get(run)

    # -- looking -------------------------------------------------------------------------------------------------------

    async def get(self, run: str) -> RunRow:
        """The row of a run, which must exist."""
        row = await self.store.get(run)
        assert row is not None, f"no run {run}"
        return row

    async def unread(self, run: str, after: int = 0) -> list[Unconsumed]:
        """The messages of a run that were not consumed."""
        no = (await self.get(run)).no
        return list((await self.store.unread({no: after})).get(no, []))

    async def runs(self) -> list[RunRow]:
        """All runs, page by page."""
        found: list[RunRow] = []
        after = ""
        while True:
            page = await self.store.list(Filter(), after=after, limit=100)
            found += page.runs
            if not page.next:
                return found
            after = page.next

    async def dump(self) -> dict[str, Any]:
        """Everything the ports show, for comparing before and after."""
        runs = await self.runs()
        return {
            "runs": runs,
            "rows": {run.id: await self.store.history(run.id) for run in runs},
            "inbox": {run.id: await self.unread(run.id) for run in runs},
            "exposed": {run.id: list(await self.store.exposures(run.id)) for run in runs},
            "watchers": {topic: list(await self.store.watchers(topic)) for topic in TOPICS},
            "workers": list(await self.store.workers()),
            "held": {instance: dict(await self.store.held(instance)) for instance in self.workers},
            "leases": {run.id: await self.store.lease(run.id) for run in runs},
            "trees": await self.store.trees(),
            "count": {status: count for status, count in (await self.store.count()).items() if count},
        }

    async def settle(self) -> None:
        """Waits until readers see every committed row: see `settle`."""
        for root in {row.root for row in await self.runs()}:
            await settle(self.store, root)

    async def verify(self) -> None:
        """Checks that each row equals the fold of its journal, which is chained, ordered and without gaps."""
        seen: set[int] = set()
        trees: dict[str, list[Row]] = {}
        runs = await self.runs()
        histories = await asyncio.gather(*(self.store.history(row.id) for row in runs))
        shown_by = await asyncio.gather(*(self.store.exposures(row.id) for row in runs))
        read = await self.store.read({row.no: 1 for row in runs})
        for row, rows, exposures in zip(runs, histories, shown_by, strict=True):
            trees.setdefault(row.root, []).extend(rows)
            assert rows == read[row.no]
            run = fold(row.id, decode_rows(rows))
            first = rows[0].ordinal if is_compacted(rows[0]) else 1
            assert [each.ordinal for each in rows] == list(range(first, row.next_ordinal))
            assert all(first.seq < second.seq for first, second in pairwise(rows))
            assert all(first.epoch <= second.epoch for first, second in pairwise(rows))
            assert rows[-1].epoch <= row.epoch
            assert not seen & {each.seq for each in rows}
            seen |= {each.seq for each in rows}
            assert (_projected(row), row.updated_at, row.ended_at) == (project(run), run.updated_at, run.ended_at)
            assert _fixed(row) == _fixed(run)
            shown = {name: (value, blob) for name, value, blob in exposures}
            assert shown == {each.name: (bytes(each.value), each.blob) for each in run.exposed.values()}
            if run.end is not None:
                assert (row.available_at, row.instance) == (None, "")
        for root, rows in trees.items():
            if len(await self.store.read_tree(root)) < len(rows):
                await settle(self.store, root)
            assert await self.store.read_tree(root) == sorted(rows, key=lambda row: row.seq)


async def settle(store: Journal, root: str) -> None:
    """Waits until readers of a tree, and of news, see its newest row.

    A store with transactions shows rows in order only as far as no earlier one can still appear. Any transaction that
    is open on the same server, even one of another test, holds newer rows back until it ends.
    """
    newest = await store.last_seq(root)
    for _ in range(500):
        if newest is None or await store.read_tree(root, from_seq=newest, limit=1):
            return
        await asyncio.sleep(0.02)


def _projected(row: RunRow) -> Projection:
    return Projection(row.workflow, row.version, row.status, row.doing, row.started_at)


def _fixed(row: RunRow | Run) -> tuple[Any, ...]:
    """What is fixed when a run is created."""
    return (
        (row.id, row.code, row.codec, row.queue, row.priority, row.key),
        (row.parent, row.parent_key, row.root, row.deadline, row.attributes, row.created_at),
    )


EndName = Literal["completed", "failed", "cancelled"]
ENDS: dict[EndName, e.Terminal] = {"completed": DONE, "failed": BOOM, "cancelled": STOPPED}
