"""Reads from a store what a load and a replay need. The only module of this package that awaits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.core.snapshot import Snapshot
from holdfast.errors import BlobNotFound, CorruptJournal
from holdfast.ports.store import Store
from holdfast.turn.history import Journal, Load, Loaded
from holdfast.turn.replay import Replay


def _tell_nobody(run: str, why: Exception) -> None:
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
    tell: Callable[[str, Exception], None] = _tell_nobody,
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


async def supply(store: Store, replay: Replay) -> None:
    """Gives a replay the next blobs it needs."""
    if replay.needs:
        replay.give(await store.get_blobs(replay.needs))
