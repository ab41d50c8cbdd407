"""Who holds which run, how often it was claimed, and what a refused call must leave alone: kept from the calls that
pass, apart from the store's own columns.

S3: a turn or a release that is refused leaves no trace, in the run's row or anywhere else. S16: a run goes from one
holder to the next only when it was given back or its lease is over. L5: claims without progress are counted, one by
one, and whoever has had too many of them is not begun; see `blame`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from holdfast.core import events as e
from holdfast.core.suspicion import is_convicted
from holdfast.core.turn import Turn
from holdfast.ports.journal import Commit
from holdfast.ports.leases import TakeOver, WorkerRow
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store
from tests.lab.sim.blame import Blame
from tests.lab.sim.invariants import Wrong

if TYPE_CHECKING:
    from tests.lab.sim.loop import SimulatedClock

Traces: TypeAlias = dict[str, Any]
"""What a commit could change, by name."""


@dataclass
class Instance:
    """One worker instance: its lease lasts until that second of that boot."""

    worker: str
    boot: str
    until: float


class Holding:
    """The leases of one world."""

    def __init__(self, clock: SimulatedClock, max_claims: int) -> None:
        self._clock = clock
        self._max_claims = max_claims
        self._instances: dict[str, Instance] = {}
        self._held: dict[str, str] = {}
        self._claims: dict[str, int] = {}
        self._taken_back: set[str] = set()
        """Runs whose count a worker may have taken back since, as it turned out to be alive."""
        self._blame = Blame()
        self._spent: dict[str, int] = {}
        """The epoch of a claim that was one too many, by run."""

    # -- instances -----------------------------------------------------------------------------------------------------

    def registered(self, row: WorkerRow, ttl: timedelta, *, takes_over: TakeOver) -> None:
        """It is known, its lease begins; the others of its id are ended if it takes over from all."""
        for name in [name for name, one in self._instances.items() if takes_over == "all" and one.worker == row.worker]:
            self.ended(name)
        self._renew(row.instance, row.worker, ttl)

    def beaten(self, instance: str, ttl: timedelta) -> None:
        """Its lease is renewed. What it had before a gap may be anybody's by now."""
        known = self._instances.get(instance)
        if known is not None:
            self._renew(instance, known.worker, ttl)
        else:
            self._taken_back.update(self._claims)

    def ended(self, instance: str) -> None:
        """It is over, and whatever it had is free."""
        self._instances.pop(instance, None)
        self._held = {run: holder for run, holder in self._held.items() if holder != instance}

    def _renew(self, instance: str, worker: str, ttl: timedelta) -> None:
        if not self._is_live(instance):
            self.ended(instance)
            self._taken_back.update(self._claims)
        boot, second = self._clock.boot()
        self._instances[instance] = Instance(worker, boot, second + ttl.total_seconds())

    def _is_live(self, instance: str) -> bool:
        boot, second = self._clock.boot()
        known = self._instances.get(instance)
        return known is not None and known.boot == boot and known.until > second

    # -- runs ----------------------------------------------------------------------------------------------------------

    def given_back(self, run: str) -> None:
        """Nobody holds it."""
        self._held.pop(run, None)
        self._taken_back.add(run)

    def s16_is_free(self, run: RunRow) -> Wrong:
        """Before it goes to somebody, whoever had it has given it back, or the lease is over."""
        holder = self._held.get(run.id, "")
        if holder and holder != run.instance and self._is_live(holder):
            until = self._instances[holder].until
            yield f"epoch {run.epoch} is given to {run.instance}, and the lease of {holder} lasts until second {until}"

    def granted(self, run: RunRow) -> None:
        """It has a holder."""
        self._held[run.id] = run.instance

    def written_back(self, run: str, instance: str, *, is_done: bool) -> None:
        """Its holder, from whom it was freed, has it again."""
        if is_done:
            self._held[run] = instance

    # -- claims --------------------------------------------------------------------------------------------------------

    def l5_counted(self, run: RunRow) -> Wrong:
        """A claim is counted by the claim."""
        before = self._claims.get(run.id, 0)
        if run.claims != before + 1 and not (run.id in self._taken_back and 0 < run.claims <= before):
            yield f"epoch {run.epoch} is claim {before + 1} without progress, its row says {run.claims}"
        self._claims[run.id] = run.claims
        self._taken_back.discard(run.id)
        self._spent.pop(run.id, None)
        if is_convicted(run.suspicion, run.claims, self._max_claims):
            self._spent[run.id] = run.epoch

    def l5_kept(self, run: RunRow, turn: Turn) -> Wrong:
        """A turn that says more than who claimed the run makes the count begin anew, and no other does."""
        before = self._claims.get(run.id, 0)
        is_progress = any(not isinstance(event, e.Claimed) for event in turn.events)
        if any(isinstance(event, e.Paused) and event.reason == "quarantined" for event in turn.events):
            yield from self._blame.quarantined(run.id, before, self._max_claims)
        if is_progress:
            self._blame.cleared(run.id)
        is_less = run.id in self._taken_back and 0 <= run.claims < before
        if run.claims != (0 if is_progress else before) and not (is_less and not is_progress):
            says = "progress" if is_progress else "no progress"
            yield f"claimed {before} times before row {turn.ordinal}, which is {says}: its row says {run.claims}"
        self._claims[run.id] = run.claims

    def learn_claims(self, run: RunRow) -> None:
        """Given back by somebody who lives: the store takes one off."""
        if run.claims < self._claims.get(run.id, 0):
            self._blame.cleared(run.id)
        self._claims[run.id] = run.claims

    def killed(self, run: str, instance: str, wrong: Callable[[str, str, str], None]) -> None:
        """A body of the run ends the process of that instance."""
        aboard = {name: self._claims.get(name, 0) for name, holder in self._held.items() if holder == instance}
        for problem in self._blame.killed(run, aboard):
            wrong("L5", run, problem)

    def l5_quarantined(self, run: str, epoch: int) -> Wrong:
        """Whoever was claimed too often is not begun under that claim."""
        if self._spent.get(run) == epoch:
            yield f"a body begins under epoch {epoch}, and its run was to be quarantined"


# -- what a refused call must leave alone ------------------------------------------------------------------------------


def is_to_be_refused(commit: Commit, row: RunRow | None) -> bool:
    """Whether the store has to refuse the turn, or knows it already."""
    if (
        row is None
        or row.ended_at is not None
        or (row.epoch, row.next_ordinal) != (commit.row.epoch, commit.row.ordinal)
    ):
        return True
    return commit.is_terminal and row.inbox_last > commit.inbox_seen


async def traces_of(store: Store, commit: Commit) -> Traces:
    """Everything that the turn would change: rows of runs, watches, what is shown, blobs."""
    run = commit.row.run
    topics = [*(topic for topic, _ in commit.watch), *(each.topic for each in commit.publications)]
    watchers = {topic: await store.watchers(topic) for topic in topics}
    hearers = [each.run for found in watchers.values() for each in found]
    others = [*(child.row.run for child in commit.children), *(message.run for message in commit.messages), *hearers]
    return {
        **{f"the row of {name}": await store.get(name) for name in dict.fromkeys([run, *others])},
        **{f"who watches {topic}": list(found) for topic, found in watchers.items()},
        "what the run shows": list(await store.exposures(run)),
        **{f"blob {name[:8]}": await store.blob_kind(name) for name in commit.blobs},
    }


def s3_no_trace(commit: Commit, before: Traces, after: Traces) -> Wrong:
    """A turn that was refused changes nothing, anywhere."""
    for what in [what for what in before if before[what] != after[what]]:
        yield f"row {commit.row.ordinal} of epoch {commit.row.epoch} was refused, and {what} has changed"


def s3_no_trace_among_others(commit: Commit, before: RunRow | None, after: RunRow | None) -> Wrong:
    """The same of a turn in a batch: the others may have sent the run a message."""
    if before is not None and after is not None:
        before = msgspec.structs.replace(before, inbox_last=after.inbox_last, available_at=after.available_at)
    if before != after:
        yield f"row {commit.row.ordinal} of epoch {commit.row.epoch} was refused, and its run's row has changed"


def s3_release(before: RunRow, after: RunRow, epoch: int, *, is_done: bool) -> Wrong:
    """Only the holder of an epoch gives the run back under it."""
    if is_done and before.epoch != epoch:
        yield f"it is given back under epoch {epoch}, and {before.epoch} had been given away"
    if not is_done and before != after:
        yield f"a release under epoch {epoch} was refused, and its row has changed"
