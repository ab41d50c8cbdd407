"""Reads from a store what a load and a replay need. The only module of this package that awaits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from holdfast.core import events as e
from holdfast.core.messages import ended
from holdfast.core.snapshot import Snapshot
from holdfast.core.turn import Row, last_turn
from holdfast.errors import BlobNotFound, CorruptJournal
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store
from holdfast.turn.history import Journal, Load, Loaded
from holdfast.turn.payloads import inline
from holdfast.turn.replay import Replay


def _ignore(run: str, why: Exception) -> None:
    pass


async def read_journals(store: Store, wanted: Mapping[int, int], long: int) -> dict[int, Journal]:
    """The journals of runs, by number; `wanted` says where each ends. Snapshots are looked up first for those with at
    least `long` rows (0: none)."""
    lengthy = [no for no, ordinal in wanted.items() if 0 < long <= ordinal]
    snapshots: Mapping[int, Snapshot] = await store.snapshots(lengthy) if lengthy else {}
    first = {no: snapshots[no].ordinal if no in snapshots else 1 for no in wanted}
    rows = await store.read(first)
    return {no: Journal(rows.get(no, []), snapshots.get(no), end) for no, end in wanted.items()}


async def load(
    store: Store,
    no: int,
    run_id: str,
    journal: Journal | None = None,
    *,
    tell: Callable[[str, Exception], None] = _ignore,
) -> Loaded:
    """The run and its turns; without `journal`, reads its rows. An invalid snapshot is reported and dropped."""
    work = Load(run_id, journal if journal is not None else Journal((await store.read({no: 1}))[no]))
    while work.result is None:
        if work.bad_snapshot is not None:
            tell(run_id, work.bad_snapshot)
            await store.drop_snapshots([no])
            work.give_rows((await store.read({no: 1}))[no])
            continue
        try:
            blobs = await store.get_blobs(work.needs)
        except (BlobNotFound, CorruptJournal) as error:
            work.give(error)
        else:
            work.give(blobs)
    return work.result


async def read_ends(store: Store, rows: Sequence[RunRow]) -> dict[str, e.ChildEnded]:
    """The ends of those runs that have ended, by run, with their results in place."""
    over = {row.no: row.next_ordinal - 2 for row in rows if row.status.is_terminal}
    lasts: Mapping[int, list[Row]] = await store.read(over) if over else {}
    ends: dict[str, e.ChildEnded] = {}
    for row in rows:
        if row.no in over:
            turn = last_turn(row.id, lasts[row.no])
            ends[row.id] = ended(row.id, cast("e.Terminal", turn.events[-1]), turn.at, "")
    wanted = {end.blob for end in ends.values() if end.blob}
    blobs: Mapping[str, bytes] = await store.get_blobs(wanted) if wanted else {}
    return {run: cast("e.ChildEnded", inline(end, blobs)) for run, end in ends.items()}


async def supply(store: Store, replay: Replay) -> None:
    """Gives a replay the next blobs it needs."""
    if replay.needs:
        replay.give(await store.get_blobs(replay.needs))
