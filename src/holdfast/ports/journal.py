"""The journal: rows are written only by `commit` and never change; only compaction removes old ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias

import msgspec

from holdfast.core.projection import Projection
from holdfast.core.snapshot import Snapshot
from holdfast.core.turn import Row
from holdfast.errors import DiskFull, StoreContended, StoreRefused, StoreUnavailable
from holdfast.ports.blobs import BlobData
from holdfast.ports.inbox import Message, Publication
from holdfast.ports.parts import StepSpan, TurnParts
from holdfast.ports.runs import NewRun
from holdfast.ports.updates import UpdateAnswer


class Park(msgspec.Struct, frozen=True, gc=False):
    """Release the lease with this turn. `until`: when the run is due again; None: not by time."""

    until: datetime | None


class Exposure(msgspec.Struct, frozen=True, gc=False):
    """An exposed value: raw JSON, or the name of a blob. `references`: that blob, and what it refers to."""

    name: str
    value: bytes
    blob: str = ""
    references: tuple[str, ...] = ()


class Commit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One turn of one run, and everything that becomes visible with it.

    Fenced by `row.epoch`, `row.ordinal` and `after`: it applies only if the run's epoch is `row.epoch`, its next
    ordinal is `row.ordinal`, the row before that has the checksum `after` (empty: there is none), and it has not ended.
    Epochs alone cannot distinguish the holders of two histories, which exist once a store has lost its last commits (in
    a failover, or with a backup): both continue from the same number.

    `references`: the blobs that the row refers to. `answers`: the outcomes of updates. `attributes`: those that change;
    None removes one.
    """

    no: int
    row: Row
    after: bytes
    projection: Projection
    inbox_seen: int = 0
    is_consuming: bool = False
    is_terminal: bool = False
    is_progress: bool = True
    children: tuple[NewRun, ...] = ()
    messages: tuple[Message, ...] = ()
    publications: tuple[Publication, ...] = ()
    exposed: tuple[Exposure, ...] = ()
    answers: tuple[UpdateAnswer, ...] = ()
    attributes: Mapping[str, str | None] = {}
    watch: tuple[tuple[str, str], ...] = ()
    unwatch: tuple[str, ...] = ()
    blobs: Mapping[str, BlobData] = {}
    references: tuple[str, ...] = ()
    park: Park | None = None
    parts: tuple[TurnParts, ...] = ()
    spans: tuple[StepSpan, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it consumes no messages and brings nothing besides its row and the projection, as most turns do."""
        return not (
            self.is_consuming or self.children or self.messages or self.publications or self.exposed
            or self.answers or self.attributes or self.watch or self.unwatch or self.blobs or self.references
            or self.parts or self.spans
        )  # fmt: skip


class Committed(msgspec.Struct, frozen=True, gc=False):
    """Durable. `inbox_last` tells the holder of messages it has not read."""

    seq: int
    inbox_last: int


class Fenced(msgspec.Struct, frozen=True, gc=False):
    """Another worker advanced or took the run. Normal; nothing was written. `epoch` is the current one (0: the run is
    gone)."""

    epoch: int
    next_ordinal: int


class Unread(msgspec.Struct, frozen=True, gc=False):
    """A terminal turn was refused because messages arrived that it has not seen: nothing was written."""

    inbox_last: int


Verdict: TypeAlias = Committed | Fenced | Unread


class Refused(msgspec.Struct, frozen=True, gc=False):
    """The store works but did not accept this turn of a batch: another transaction holds the run's row, or the turn's
    contents cannot be stored. Nothing of it was written. It is not a verdict: the same turn may be sent again."""

    error: Exception


Answer: TypeAlias = Verdict | Refused


def sole_verdict(answers: Sequence[Answer]) -> Verdict:
    """The verdict on a turn that was sent alone."""
    (answer,) = answers
    if isinstance(answer, Refused):
        raise answer.error
    return answer


def answered(outcomes: Sequence[Verdict | Exception]) -> list[Answer]:
    """The answer of `Journal.commit` to a batch, from the outcome of each turn; raises what it raises."""
    failed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if failed and len(failed) == len(outcomes) and (len(failed) == 1 or all(map(is_away, failed))):
        raise failed[0]
    return [Refused(outcome) if isinstance(outcome, Exception) else outcome for outcome in outcomes]


def is_away(error: Exception) -> bool:
    """Whether the store currently accepts no writes at all."""
    return isinstance(error, StoreUnavailable | DiskFull | StoreRefused) and not isinstance(error, StoreContended)


class Tree(msgspec.Struct, frozen=True, gc=False):
    """A root and what its journal holds: rows of the root and of every run below it."""

    root: str
    last_seq: int
    rows: int
    open: int
    """Runs of it that have not ended."""


class Journal(Protocol):
    """Append-only rows per run, with ordinals without gaps, ordered store-wide by seq."""

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Answer]:
        """Applies many turns, of different runs, in one transaction; one verdict each, in order.

        For each: fence, then the row, the projection, `next_ordinal`, and what `ports.row.row_after` makes of the rest
        of the run's row: claims-without-progress back to 0 (unless the turn keeps the lease and is no progress: it only
        takes up again what was in flight); `park` clears the lease and sets `available_at` to now if `inbox_last >
        inbox_seen`, else to `park.until`; a terminal turn never leaves `available_at` behind, drops the run's watches,
        and is `Unread` if `inbox_last > inbox_seen`.

        Then children (created like `Runs.create`, but an id in use never fails the turn, see there), messages and
        publications (each bumps its target's `inbox_last` and lowers its `available_at`; to an ended or missing run
        they are dropped; of a message that has a `reply` the run itself is told, even if it ends with this turn),
        exposed values, attributes, watches, blobs, answers (the first to a question is the one that counts, and the
        run's listeners are told), parts of streams and the outcomes of attempts that sent some (`ports.parts`), and
        with `is_consuming` the inbox rows up to `inbox_seen` are marked consumed by this ordinal.

        A turn is durable when this returns `Committed`. Sending the same commit again (same run, epoch, ordinal and
        checksum) after an unknown outcome answers `Committed`, never writes twice. A fenced turn leaves no trace and
        does not disturb the others of its batch. Nor does one that the store refuses: if a turn spoils the transaction,
        each turn is tried in its own, and those that fail again are `Refused`. A turn sent alone raises its error
        instead. If the store accepts no writes at all (`is_away`), that is raised, with nothing written.
        """
        ...

    def commit_now(self, commit: Commit) -> Verdict | None:
        """Like `commit` for one turn, at once and on this thread, if this process writes nothing else now. Returns None
        if it would have to wait: then call `commit` with the same turn, which recognises the turn if it was written
        after all. A store that cannot do this always returns None.
        """
        ...

    async def read(self, runs: Mapping[int, int]) -> Mapping[int, list[Row]]:
        """Rows of several runs: run number → first ordinal wanted (inclusive). Ordered by ordinal.

        Of a compacted journal the first row is the stand-in (`core.turn.is_compacted`), unless a later ordinal is
        wanted, so that a reader never mistakes the rest for the whole.
        """
        ...

    async def history(self, run: str, *, after_seq: int = 0, limit: int = 1000) -> list[Row]:
        """Rows of one run with a greater seq, oldest first. An unknown run has none.

        A cursor inside the part that was compacted is answered with the stand-in and what follows it.
        """
        ...

    async def snapshots(self, runs: Iterable[int]) -> Mapping[int, Snapshot]:
        """The snapshot of each of these runs (by number) that has one."""
        ...

    async def put_snapshot(
        self, run: int, snapshot: Snapshot, blobs: Mapping[str, BlobData], references: Sequence[str]
    ) -> bool:
        """Keeps a snapshot, the blobs it brings and its references (`core.snapshot.references_of_past`), in one
        transaction; an earlier one of the run is replaced.

        Fenced by what it covers: False, and no trace, if the run's row `snapshot.ordinal` is not stored with
        `snapshot.checksum`, or if a snapshot of a later ordinal is there. Needs no lease: folding the same rows always
        gives the same snapshot. No run is woken, and no row of `runs` changes.
        """
        ...

    async def drop_snapshots(self, runs: Iterable[int] | None = None) -> int:
        """Drops the snapshots of these runs (None: all). Returns how many. It affects only speed."""
        ...

    async def compact(self, run: int, stand_in: Row, references: Sequence[str]) -> int:
        """Puts `stand_in`, which has these references, in the place of the row of its ordinal, removes the rows before
        it, and says how many went; in one transaction.

        Fenced by the row it replaces: 0, and no trace, unless the row of that ordinal is stored with the same epoch,
        time and checksum, and is not the newest row of its run (which stays a turn: it is how an end is read, and how a
        commit with an unknown outcome is recognised). Likewise unless all its segments are stored, which are kept from
        then on: a snapshot that was dropped meanwhile may have taken them along. The stand-in keeps the seq of the row
        it replaces. Needs no lease and disturbs no holder: what a holder writes next follows rows that stay as they
        are; it may have to wait for the end of this. Consumed messages of the rows that went keep their ids, so that a
        late retry of a sender is still recognised, and lose their bodies.

        What the rows that went and the emptied messages referred to begins its grace (see `Upkeep.collect`), unless
        something else of the run refers to it, even under concurrent writes.
        """
        ...

    # -- reading a tree ------------------------------------------------------------------------------------------------

    async def read_tree(self, root: str, *, from_seq: int = 0, limit: int = 1000) -> list[Row]:
        """Rows of a root and of every run below it, in their total order: seq ascending, from `from_seq` (inclusive),
        at most `limit`. An id that is not a root has none.

        What was shown is final: no row of the tree appears later with a lower seq than one already shown. So a reader
        continues from the last seq it saw, and a store with concurrent writers stops before rows that may still be
        committed. Seqs are positions, not counts: they may begin anywhere and have gaps.
        """
        ...

    async def last_seq(self, root: str) -> int | None:
        """The seq of the tree's newest row; None if there is no such root."""
        ...

    async def trees(self, *, after: str = "", limit: int = 100) -> list[Tree]:
        """Trees in which at least one run has not ended, by the id of their root, from after `after` on."""
        ...
