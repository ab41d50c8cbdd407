"""Verifies a store. For each run it reads the journal and checks its chain, compares everything else with the journal,
and reads and hashes every blob. It repairs nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.client import differences
from holdfast.client.stream_differences import of_streams
from holdfast.core import events as e
from holdfast.core.messages import decode_event
from holdfast.core.payload import canonical, hash_of, input_hash
from holdfast.core.references import references_of
from holdfast.core.run import Run
from holdfast.core.turn import UNREADABLE, Row, decode_row, is_compacted, segments_of
from holdfast.errors import BlobNotFound, CorruptJournal, HoldfastError
from holdfast.ports.contents import Contents, StoredMessage
from holdfast.ports.leases import WorkerRow
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store
from holdfast.turn.history import Journal, Loaded
from holdfast.turn.payloads import blobs_named
from holdfast.turn.source import load
from holdfast.upkeep.imposition import is_operator

LOOKS = 5
"""Maximum number of tries for a run that changes while it is checked."""

_LOOSE = "no reference keeps that from being collected"


class Finding(msgspec.Struct, frozen=True, gc=False):
    """What was checked of one run, what is wrong, and what cannot be checked."""

    run: str
    rows: int
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        """The first problem; empty if there is none."""
        return self.problems[0] if self.problems else ""


async def verify_run(store: Store, row: RunRow) -> Finding:
    """Checks one run. A run that was removed meanwhile has no problem."""
    finding = Finding(row.id, 0)
    for _ in range(LOOKS):
        earlier, finding = finding, await _looked_at(store, row)
        if not finding.problems:
            return finding
        again = await store.get(row.id)
        if again is None:
            return finding if row.damage else Finding(row.id, 0)  # an id that is no text finds nothing
        if again == row and finding.problems == earlier.problems:
            return finding
        row = again
    return finding


async def _looked_at(store: Store, row: RunRow) -> Finding:
    rows = (await store.read({row.no: 1}))[row.no]
    if row.damage:
        return Finding(row.id, len(rows), (f"its row is damaged: {'; '.join(row.damage)}",))
    try:
        contents = await store.contents(row.no)
    except CorruptJournal as error:
        return Finding(row.id, len(rows), (str(error),))
    if contents is None:
        return Finding(row.id, 0)
    if not rows:
        return Finding(row.id, 0, ("its journal is missing",))
    try:
        loaded = await load(store, row.no, row.id, Journal(rows))
        run = loaded.run
        problems = [*differences.of_row(row, run, rows), *differences.of_contents(row, run, contents)]
        problems += await _of_blobs(store, run, rows, loaded, contents)
        problems += await _of_input(store, row, loaded)
        problems += await _of_others(store, row, run)
        problems += await of_streams(store, row.id, rows, contents)
        problems += await _unreadable(store, contents)
    except HoldfastError as error:  # says which row
        if not isinstance(error, CorruptJournal | BlobNotFound):
            raise  # a store out of reach says nothing about the run
        return Finding(row.id, len(rows), (str(error).removeprefix(f"run {row.id}: "),))
    return Finding(row.id, len(rows), tuple(problems), tuple(differences.notes_on(row, run, contents)))


async def _unreadable(store: Store, contents: Contents) -> list[str]:
    """Data that will be read next but cannot be decoded, although its checksum matches or it has none."""
    problems: list[str] = []
    for message in contents.messages:
        try:
            _ = message.consumed or decode_event(message.body)
        except CorruptJournal as error:
            problems.append(f"message {message.no} ({message.id}): {error}")
    for shown in contents.shown:
        try:
            msgspec.json.decode(await store.get_blob(shown.blob) if shown.blob else shown.value)
        except (*UNREADABLE, CorruptJournal, BlobNotFound) as error:
            problems.append(f"the value it shows as {shown.name!r} cannot be read: {error}")
    return problems


def damaged_workers(workers: Sequence[WorkerRow]) -> list[Finding]:
    """Workers whose row cannot be read in full."""
    return [Finding(one.worker, 0, (f"its row is damaged: {'; '.join(one.damage)}",)) for one in workers if one.damage]


async def _of_blobs(store: Store, run: Run, rows: Sequence[Row], loaded: Loaded, contents: Contents) -> list[str]:
    """Checks that every payload kept as a blob exists, as well as what a flow executes, and the references that keep
    them."""
    problems: list[str] = []
    named = blobs_named(loaded.turns) | {value.blob for value in contents.shown if value.blob}
    if run.style == "flow" and run.code:
        named.add(run.code)
    segments = set(segments_of(rows[0])) if is_compacted(rows[0]) else set[str]()
    for name in sorted(named | segments):
        try:
            await store.get_blob(name)
        except (CorruptJournal, BlobNotFound) as error:
            problems.append(str(error))
    problems += [
        f"blob {name} refers to blob {one}, which is not there"
        for name, inner in sorted((await store.blob_references(sorted(contents.references))).items())
        for one in sorted(inner - await store.known_blobs(sorted(inner)))
    ]
    told = {name for row in rows for name in references_of(decode_row(row).events)}
    told |= {name for message in contents.messages if not message.consumed for name in _told_by(message)}
    loose = await store.known_blobs(sorted((told | segments) - contents.references))
    problems += [f"it refers to blob {name}, and {_LOOSE}" for name in sorted(loose)]
    return problems


def _told_by(message: StoredMessage) -> tuple[str, ...]:
    """The references of a message. One that cannot be read has none here, and is reported elsewhere."""
    try:
        return references_of((decode_event(message.body),))
    except CorruptJournal:
        return ()


async def _of_input(store: Store, row: RunRow, loaded: Loaded) -> list[str]:
    """Checks the hash of the arguments, as far as they are known: a retry has those of the original, which may have
    been different when it began, and a run that was redacted has none."""
    started = loaded.turns[0].events[0] if loaded.turns and loaded.turns[0].events else None
    if not isinstance(started, e.Started) or loaded.run.origin != 1 or started.retried_from:
        return []
    if loaded.run.redacted and not row.input_hash:
        return []
    data = await store.get_blob(started.blob) if started.blob else bytes(started.value)
    whole = hash_of(canonical(data))  # as the first stores had it
    if row.input_hash in {input_hash(data), whole, "" if started.parent else whole}:
        return []
    return [f"its row says input_hash = {row.input_hash!r}, which is not that of its arguments"]


async def _of_others(store: Store, row: RunRow, run: Run) -> list[str]:
    """Checks that the holder is known, and that a run which it waits for, and did not start, knows of it."""
    problems: list[str] = []
    is_known = not row.instance or is_operator(row.instance)
    if not is_known and row.instance not in {worker.instance for worker in await store.workers()}:
        problems.append(f"its row says that worker instance {row.instance!r} holds it, and there is none")
    for wait in run.waits.values() if run.end is None else ():
        if wait.kind != "child":
            continue
        child = await store.get(wait.run)
        if child is None or child.status.is_terminal or (child.parent, child.parent_key) == (run.id, wait.key):
            continue
        contents = await store.contents(child.no)
        if contents is not None and not any(x[:2] == (run.id, wait.key) for x in contents.adoptions):
            problems.append(f"it waits for the end of run {wait.run!r}, which does not know of it")
    return problems
