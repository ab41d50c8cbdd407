"""Exports journals from a store and imports them into another: for tests that replay them, and for viewing them
elsewhere."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from os import getpid
from socket import gethostname
from typing import TypeVar

import msgspec

from holdfast.client.stream_spool import Spool, read_streams
from holdfast.core import events as e
from holdfast.core.doing import doing, encode_doing
from holdfast.core.exported import by_run, decode_export, encode_export, parts_of_export
from holdfast.core.payload import input_hash
from holdfast.core.projection import project
from holdfast.core.redaction import secrets_of
from holdfast.core.references import ReferringBytes, references_of, referred_by
from holdfast.core.run import Run
from holdfast.core.turn import Row, Turn, decode_row, is_compacted
from holdfast.errors import Conflict, CorruptJournal, InvalidInput, RunNotFound
from holdfast.ports.journal import Commit, Committed, Park, sole_verdict
from holdfast.ports.leases import Taken, WorkerRow
from holdfast.ports.runs import Made, NewRun, RunRow
from holdfast.ports.store import Store
from holdfast.turn.commit import exposure, spans_of
from holdfast.turn.settlement import answer_of

K = TypeVar("K", bound=e.Event)

PAGE = 1000
TTL = timedelta(minutes=10)
"""How long an import holds the runs it makes, so that no worker takes an incomplete one."""


async def export_journal(store: Store, run_id: str) -> bytes:
    """The journal of the tree that the run belongs to, as a file. For a compacted journal: the row that replaces the
    earlier ones, with everything a replay needs, and the rows since."""
    run = await store.get(run_id)
    if run is None:
        raise RunNotFound(f"no run {run_id!r} in {store.url}")
    rows = await _tree(store, run.root)
    return encode_export(run.root, rows, await _blobs(store, rows), await read_streams(store, list(by_run(rows))))


def holds_secrets(data: bytes, source: str) -> bool:
    """Whether an exported journal contains the value of a flow's secret variable."""
    _, rows, blobs = decode_export(data, source)
    events = (event for row in rows for event in decode_row(row).events)
    return any(any(True for _ in secrets_of(event)) for event in events) or any(
        re.search(rb'\\?"secrets\\?":\[', blob) for blob in blobs.values()
    )


async def _tree(store: Store, root: str) -> list[Row]:
    """All rows, page by page. Rows of one transaction may share a seq, so a page begins where the last one ended."""
    rows: dict[tuple[str, int], Row] = {}
    last, limit = 0, PAGE
    while True:
        page = await store.read_tree(root, from_seq=last, limit=limit)
        known = len(rows)
        rows.update({(row.run, row.ordinal): row for row in page})
        if len(page) < limit:
            return list(rows.values())
        last = page[-1].seq
        limit = limit * 2 if len(rows) == known else PAGE


async def _blobs(store: Store, rows: Sequence[Row]) -> dict[str, bytes]:
    """The blobs that these rows refer to, directly or through other blobs. Since older rows do not list references,
    also everything else that is kept for their runs. Missing blobs are left out."""
    wanted = {name for row in rows for name in references_of(decode_row(row).events)}
    for run in dict.fromkeys(row.run for row in rows):
        known = await store.get(run)
        contents = await store.contents(known.no) if known is not None else None
        wanted |= contents.references if contents is not None else frozenset[str]()
    found: dict[str, bytes] = {}
    while wanted:
        there = sorted(await store.known_blobs(sorted(wanted)))
        held = await store.blob_references(there)
        for name in there:
            data = await store.get_blob(name)
            found[name] = ReferringBytes(data, sorted(held[name])) if name in held else data
        wanted = {inner for names in held.values() for inner in names if inner not in found}
    return found


async def import_journal(store: Store, data: bytes, source: str) -> list[str]:
    """Makes the runs of a file, row by row, each journal identical to the one that was exported; returns their ids.

    Never overwrites: if a run with one of the ids exists, nothing is written. Runs that have not ended are only for
    viewing: no worker runs them.
    """
    _, rows, blobs = decode_export(data, source)
    journals = by_run(rows)
    for name, journal in journals.items():
        if is_compacted(journal[0]):
            raise InvalidInput(
                f"{source}: the journal of run {name} was compacted: its rows 1 to {journal[0].ordinal} are gone, and "
                "with them what an import writes again one by one. Nothing was imported. The file replays as it is "
                "(holdfast.testing.replay); to import a run, export it before it is compacted."
            )
        if await store.get(name) is not None:
            raise Conflict(f"run {name} is in {store.url} already: nothing was imported. An import never overwrites.")
    definitions = _definitions(rows)
    for name in _holders_last(blobs):
        await store.put_blob(blobs[name], kind="definition" if name in definitions else "payload")
    importing = _Importing(store, tuple(blobs), Spool(store, parts_of_export(data)))
    await importing.begin()
    try:
        for row in rows:
            await importing.take(row, is_last=row is journals[row.run][-1])
    finally:
        await store.release_all(importing.instance)
    return list(journals)


def _holders_last(blobs: Mapping[str, bytes]) -> list[str]:
    """The names of these blobs, each after those it refers to: a store only accepts references to blobs that exist."""
    done: dict[str, None] = {}
    for start in blobs:
        path = [start]
        while path:
            name = path[-1]
            waiting = [x for x in referred_by(blobs[name]) if x in blobs and x not in done and x not in path]
            if waiting:
                path.append(waiting[0])
            else:
                done[path.pop()] = None
    return list(done)


def _definitions(rows: Iterable[Row]) -> set[str]:
    """The definitions of the flows among these runs."""
    first = [decode_row(row).events[0] for row in rows if row.ordinal == 1]
    return {event.code for event in first if isinstance(event, e.Started) and event.style == "flow"}


class _Importing:
    def __init__(self, store: Store, brought: tuple[str, ...], spool: Spool) -> None:
        self._store = store
        self._spool = spool
        self._brought = brought  # the first run keeps all of it: older rows do not say what they refer to
        self.instance = f"import-{secrets.token_hex(6)}"
        self._runs: dict[str, tuple[int, int, Run]] = {}
        """For each run: its number, its epoch, its fold."""

    async def begin(self) -> None:
        worker = WorkerRow(
            instance=self.instance,
            worker=self.instance,
            queues=(),
            definitions=(),
            pid=getpid(),
            host=gethostname(),
            started_at=self._store.clock.now(),
        )
        await self._store.register(worker, TTL, takes_over="none")

    async def take(self, row: Row, *, is_last: bool) -> None:
        turn = decode_row(row)
        if row.ordinal == 1:
            await self._make(row, turn)
            if not is_last:
                return
            no, epoch, _ = self._runs[row.run]
            await self._spool.append(no, row.run, epoch)
            await self._store.release(no, epoch=epoch, until=None, inbox_seen=0)
            return
        no, epoch, run = self._runs[row.run]
        while epoch < row.epoch:
            await self._spool.append(no, row.run, epoch)
            epoch = (await self._held(row.run)).epoch
        if is_last:
            await self._spool.append(no, row.run, epoch)
        self._runs[row.run] = no, epoch, run
        commit = _commit(run, no, row, turn, Park(None) if is_last else None)
        verdict = sole_verdict(await self._store.commit([commit]))
        if not isinstance(verdict, Committed):
            raise Conflict(f"run {row.run}: another worker took it while row {row.ordinal} was imported: {verdict}")

    async def _make(self, row: Row, turn: Turn) -> None:
        started = turn.events[0]
        if not isinstance(started, e.Started):
            raise CorruptJournal(f"run {row.run}: its first row does not start it")
        run = Run(row.run)
        run.apply(turn)
        new = NewRun(
            row=msgspec.structs.replace(row, seq=0),
            started=msgspec.structs.replace(started, root=run.root, available_at=started.available_at or turn.at),
            doing=encode_doing(doing(run)),
            input_hash=await self._input_hash(started),
            references=tuple(dict.fromkeys((*references_of(turn.events), *self._brought))),
        )
        self._brought = ()
        no_key = self._store.clock.now()  # a key of an older run is no reason to refuse
        made = await self._store.create(new, key_since=no_key, instance=self.instance, worker=self.instance)
        if not isinstance(made, Made):
            raise Conflict(f"run {row.run} was made while it was imported: an import never overwrites")
        known = made.run if made.run.instance == self.instance else await self._held(row.run)
        self._runs[row.run] = known.no, known.epoch, run

    async def _held(self, run: str) -> RunRow:
        taken = await self._store.take(run, instance=self.instance, steal=True)
        if not isinstance(taken, Taken):
            raise Conflict(f"run {run}: another worker took it while it was imported")
        return taken.run

    async def _input_hash(self, started: e.Started) -> str:
        data = await self._store.get_blob(started.blob) if started.blob else bytes(started.value)
        return input_hash(data)


def _commit(run: Run, no: int, row: Row, turn: Turn, park: Park | None) -> Commit:
    """The turn as its worker would have committed it, without the messages it sent: those are in the rows of the
    receivers."""
    watched = [key for key, wait in run.waits.items() if wait.kind == "topic"]
    after = run.checksum
    run.apply(turn)
    return Commit(
        no=no,
        row=msgspec.structs.replace(row, seq=0),
        after=after,
        projection=project(run),
        is_terminal=run.end is not None,
        exposed=tuple(exposure(x) for x in _of(turn.events, e.Exposed)),
        attributes={name: value for x in _of(turn.events, e.AttributesSet) for name, value in x.attributes.items()},
        answers=tuple(answer_of(x) for x in _of(turn.events, e.Answered)),
        spans=spans_of(turn.events),
        references=references_of(turn.events),
        watch=tuple((x.name, x.key) for x in _of(turn.events, e.WaitStarted) if x.kind == "topic"),
        unwatch=tuple(key for key in watched if key not in run.waits),
        park=park,
    )


def _of(events: Sequence[e.AnyEvent], kind: type[K]) -> list[K]:
    return [event for event in events if isinstance(event, kind)]
