"""What must hold, one function a promise, named as in the table of promises (S1 … S21).

Each is given what happened and what was known before, and yields what is wrong. Nothing here changes anything, and
nothing but the journal, the row of a run and the ledger of its bodies is believed.

=====================  =================================================================================================
promise                where a simulation checks it
=====================  =================================================================================================
S1 S4 S6 S7 S10        here, after every row (`OF_ROWS`); S1 and S6 once more in the end, from the store (`clients`)
S2                     in the end: every run that was acknowledged is there; none goes before its end (`watch`)
S3                     after every row; after every turn and release that was refused: nothing has changed (`holding`)
S5                     after every row: lease, availability, children, blobs, and whoever a message went to is awake
S7 S8 S9 S17           at the begin of every body (`OF_BODIES`)
S11                    at every start, and in the end
S12                    after every row: once, and watches are open waits; in the end: all that was acknowledged
S13                    after every row: timers, deadlines, times that never go back; after every park and release: awake
                       by the first of them
S14                    in the end, of every fifth seed: the journal replays
S15                    after every row
S16                    after every row; at every claim: whoever had the run gave it back or lost it (`holding`), and no
                       queue has let in more than its rules say (`places`)
S17                    after every row: children that are to end with the run, and clean-ups
C7                     at every move of a schedule: each slot that is passed has one fate, no run twice, early or beside
                       another; in the end: no slot is left (`slots`)
S18                    after every row that names a blob, and every collection; arguments in pieces, put together, are
                       what the workflow passed: after the row of the call, and in the end (`conversations`)
S21                    every fortieth seed, on SQLite too (`campaign`)
L1 L2 L3 L8 L12        once the faults have stopped, every quarter of a second (`liveness`)
L4                     as L1 in the seeds without hints, or with lossy ones
L5                     at every claim and row: claims without progress are counted; at the begin of every body: not
                       under a claim that was one too many (`holding`); once the faults have stopped: resumed, it ends
S19 S20, S22 to S27    not states of a store: they have tests of their own
=====================  =================================================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from holdfast.authoring.batch.batch_plan import NAME as BATCH
from holdfast.core import events as e
from holdfast.core.doing import decode_doing
from holdfast.core.projection import Projection, project
from holdfast.core.run import Run
from holdfast.core.status import Status
from holdfast.core.turn import Row, Turn, instant
from holdfast.ports.journal import Commit
from holdfast.ports.runs import RunRow

Attempt: TypeAlias = tuple[str, str, int]
"""Identity of the run's pass, key of the step, number of the attempt."""


@dataclass
class Known:
    """One run as its accepted rows say, kept apart from the store and from every worker."""

    fold: Run
    rows: list[Row] = field(default_factory=list[Row])
    attempts: dict[Attempt, int] = field(default_factory=dict[Attempt, int])
    """The epoch of the row that allowed it."""
    allowed: Counter[Attempt] = field(default_factory=Counter[Attempt])
    """How often: a step given up by one pass of the workflow may be asked for anew by the next."""
    completions: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    executions: Counter[Attempt] = field(default_factory=Counter[Attempt])
    timers: dict[str, datetime] = field(default_factory=dict[str, datetime])
    fired: set[tuple[str, str, datetime]] = field(default_factory=set[tuple[str, str, datetime]])
    messages: list[str] = field(default_factory=list[str])
    heard: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """Publications: the message, the identity of the run's pass, and the wait it reached."""
    holders: dict[int, int] = field(default_factory=dict[int, int])
    """Which actor each epoch was given to."""
    owed: set[str] = field(default_factory=set[str])
    """Children that are to be cancelled with the run."""
    readings: set[str] = field(default_factory=set[str])
    """Steps that read the results of a batch."""
    guards: int = 0
    """Bodies under a guard that were asked for, less the clean-ups."""
    cleanups: set[str] = field(default_factory=set[str])
    """Clean-ups that were asked for after a cancel or the deadline, and have not completed."""
    has_blobs: bool = False
    ended_in: int = 0
    """The epoch of the run's end."""


@dataclass(frozen=True)
class Written:
    """A row that the store has accepted: what was sent, what is stored, and the run's row afterwards."""

    known: Known
    identity: str
    """The run's before the row: `continue_as` changes it."""
    turn: Turn
    stored: list[Row]
    row: RunRow
    actor: int
    commit: Commit | None
    holds: Callable[[int], Any]
    """The definitions an actor holds."""
    latest: datetime
    """The latest time the store's clock has shown."""


@dataclass(frozen=True)
class Begun:
    """A body that begins."""

    known: Known
    attempt: Attempt
    actor: int
    is_once: bool


Wrong: TypeAlias = Iterator[str]

FIRST_OF_AN_EPOCH = (e.Claimed, e.Cancelled, e.Paused, e.Resumed)
"""Who took the run; the others are an operator's."""


# -- of a row that was accepted ----------------------------------------------------------------------------------------


def s1_dense(w: Written) -> Wrong:
    """Ordinals have no gap and no duplicate, and what is stored is what was sent."""
    if len(w.stored) != 1 or w.stored[0].ordinal != w.turn.ordinal:
        yield f"rows {[row.ordinal for row in w.stored]} are stored, {w.turn.ordinal} was to be the only new one"
    elif w.stored[0].checksum != w.turn.checksum:
        yield f"row {w.turn.ordinal} is not the one that was sent"
    if w.known.rows and w.stored and w.stored[0].seq <= w.known.rows[-1].seq:
        yield f"row {w.turn.ordinal} has seq {w.stored[0].seq} after {w.known.rows[-1].seq}"


def s3_fenced(w: Written) -> Wrong:
    """No turn of an epoch is accepted once a later one was given to somebody."""
    current = max(w.known.holders, default=0)
    if w.turn.epoch < current:
        yield f"row {w.turn.ordinal} of epoch {w.turn.epoch} is accepted, and epoch {current} had been given away"


def s4_epochs(w: Written) -> Wrong:
    """Epochs never fall, and the first row of a new one says who took the run (or is an operator's)."""
    before = w.known.rows[-1].epoch if w.known.rows else 0
    if w.turn.epoch < before:
        yield f"row {w.turn.ordinal} of epoch {w.turn.epoch} follows one of epoch {before}"
    first = w.turn.events[0] if w.turn.events else None
    if w.turn.epoch > before and w.turn.ordinal > 1 and not isinstance(first, FIRST_OF_AN_EPOCH):
        yield f"row {w.turn.ordinal} begins epoch {w.turn.epoch} with {first!r}"


def s6_projection(w: Written) -> Wrong:
    """The run's row is the fold of its journal."""
    fold = w.known.fold
    meant = project(fold)
    for name in Projection.__struct_fields__:
        said, due = getattr(w.row, name), getattr(meant, name)
        if said != due and (name != "doing" or decode_doing(said) != decode_doing(due)):
            yield f"its row says {name} = {said!r}, its journal {due!r}"
    if w.row.next_ordinal != fold.ordinal + 1:
        yield f"its row says that {w.row.next_ordinal} is next, its journal ends at {fold.ordinal}"


def s6_attributes(w: Written) -> Wrong:
    """What a run is found by is what its journal says."""
    if w.row.attributes != w.known.fold.attributes:
        yield f"its row says attributes = {w.row.attributes}, its journal {w.known.fold.attributes}"


def s7_one_completion(w: Written) -> Wrong:
    """A step completes once."""
    for event in w.turn.events:
        if isinstance(event, e.StepCompleted) and (w.identity, event.key) in w.known.completions:
            yield f"step {event.key} completes a second time in row {w.turn.ordinal}"


def s8_outcome_of_a_body(w: Written) -> Wrong:
    """An outcome comes from a body that ran. (What a batch reads, and who reads its
    results, is no body of ours.)"""
    if w.row.workflow == BATCH:
        return
    for event in w.turn.events:
        if (
            isinstance(event, e.StepCompleted)
            and event.key not in w.known.readings
            and not any(key == event.key and identity == w.identity for identity, key, _ in w.known.executions)
        ):
            yield f"step {event.key} completes, and no body of it ever ran"


def s10_one_end(w: Written) -> Wrong:
    """The end is the last event of the last row."""
    ends = [event for event in w.turn.events if isinstance(event, e.TERMINAL)]
    if len(ends) > 1 or (ends and w.turn.events[-1] is not ends[0]):
        yield f"row {w.turn.ordinal} holds something after the run's end"
    if w.known.ended_in:
        yield f"row {w.turn.ordinal} follows the run's end"


def s12_signals_once(w: Written) -> Wrong:
    """A signal is journaled once, a publication once for each wait."""
    for event in w.turn.events:
        if isinstance(event, e.SignalReceived) and w.known.messages.count(event.message) > 1:
            yield f"signal {event.message} is journaled twice"
        elif isinstance(event, e.TopicReceived) and w.known.heard.count((event.message, w.identity, event.key)) > 1:
            yield f"publication {event.message} reaches {event.key} twice"


def s13_timers(w: Written) -> Wrong:
    """No timer fires before its time by the store's clock, and each fires once."""
    for event in w.turn.events:
        if not isinstance(event, e.TimerFired):
            continue
        due = w.known.timers.get(event.key)
        if due is None:
            continue
        if w.turn.at < due or w.latest < due:
            yield f"timer {event.key} fired at {w.turn.at}, the clock at {w.latest} at the latest, due at {due}"
        if (w.identity, event.key, due) in w.known.fired:
            yield f"timer {event.key} fired twice"


def s13_time_is_monotone(w: Written) -> Wrong:
    """The times of a journal never go back."""
    if w.known.rows and w.turn.at < instant(w.known.rows[-1].at):
        yield f"row {w.turn.ordinal} is of {w.turn.at}, the one before it of {instant(w.known.rows[-1].at)}"


def s13_deadlines(w: Written) -> Wrong:
    """No deadline passes before its time."""
    due = w.known.fold.deadline
    for event in w.turn.events:
        if isinstance(event, e.DeadlineReached) and (due is None or w.turn.at < due or w.latest < due):
            yield f"its deadline, {due}, passes at {w.turn.at}, the clock at {w.latest} at the latest"


def s15_versions(w: Written) -> Wrong:
    """Only a worker that holds the definition advances the run."""
    held = w.holds(w.actor)
    if held is not None and (w.row.workflow, w.row.version) not in held:
        yield f"advanced by actor {w.actor}, which does not hold {w.row.workflow} {w.row.version}"


def s16_one_holder(w: Written) -> Wrong:
    """Whoever commits under an epoch is the one it was given to."""
    holder = w.known.holders.get(w.turn.epoch, w.actor)
    if holder != w.actor:
        yield f"row {w.turn.ordinal} of epoch {w.turn.epoch}, given to actor {holder}, comes from actor {w.actor}"


def s17_with_its_children(w: Written) -> Wrong:
    """A run that ends cancelled has asked the children that are to end with it to stop."""
    end = w.turn.events[-1] if w.turn.events else None
    if isinstance(end, e.Cancelled) and not end.imposed and w.known.owed:
        yield f"it ends cancelled, and nobody told {sorted(w.known.owed)}"


def s17_cleaned_up(w: Written) -> Wrong:
    """A run that ends by itself has asked for the clean-up of every guard it was in; after a cancel or the deadline
    nothing interrupts it."""
    end = w.turn.events[-1] if w.turn.events else None
    if not isinstance(end, e.TERMINAL) or (isinstance(end, e.Failed | e.Cancelled) and end.imposed):
        return
    if w.known.guards > 0:
        yield f"it ends, and {w.known.guards} of its guards did not clean up"
    if w.known.cleanups:
        yield f"it ends, and its clean-up {sorted(w.known.cleanups)} did not"


def s5_all_of_it(w: Written) -> Wrong:
    """Lease and availability change with the row, or not at all."""
    commit = w.commit
    if commit is None:
        return
    if (commit.is_terminal or commit.park is not None) and w.row.instance:
        yield f"row {w.turn.ordinal} gives the run back, and {w.row.instance} still has it"
    if commit.is_terminal and w.row.available_at is not None:
        yield "it has ended and is still to be claimed"
    has_unread = commit.park is not None and not commit.is_terminal and w.row.inbox_last > commit.inbox_seen
    if has_unread and (w.row.available_at is None or w.row.available_at > w.latest):
        yield f"parked until {w.row.available_at} with unread messages: a lost wake-up"


def s13_awake_in_time(w: Written) -> Wrong:
    """A run that is given back with a row wakes in time."""
    if w.commit is not None and w.commit.park is not None:
        yield from s13_wakes(w.known.fold, w.row, w.latest)


OF_ROWS: tuple[Callable[[Written], Wrong], ...] = (
    s1_dense,
    s3_fenced,
    s4_epochs,
    s5_all_of_it,
    s6_projection,
    s6_attributes,
    s7_one_completion,
    s8_outcome_of_a_body,
    s10_one_end,
    s12_signals_once,
    s13_timers,
    s13_time_is_monotone,
    s13_deadlines,
    s13_awake_in_time,
    s15_versions,
    s16_one_holder,
    s17_with_its_children,
    s17_cleaned_up,
)


# -- of a run that is given back, and of its watches -------------------------------------------------------------------


def s13_wakes(fold: Run, row: RunRow, latest: datetime) -> Wrong:
    """Whoever is given back is available by the first of its timers, retries, its deadline and the end of its grace."""
    if fold.end is not None or fold.status is Status.PAUSED:
        return
    due = min(_times(fold), default=None)
    if due is not None and (row.available_at is None or row.available_at > max(due, latest)):
        yield f"it is given back until {row.available_at}, and has to be awake at {due}"


def _times(fold: Run) -> Iterator[datetime]:
    begins_at = fold.retry.at if fold.retry is not None else fold.available_at if fold.started_at is None else None
    if begins_at is not None:
        yield begins_at
        return
    yield from (wait.until for wait in fold.waits.values() if wait.until is not None and wait.awaited)
    yield from (step.retry_at for step in fold.steps.values() if step.retry_at is not None and not step.is_abandoned)
    is_stopping = fold.cancel is not None or fold.past_deadline is not None
    limit = fold.grace_until if is_stopping else fold.deadline
    if limit is not None:
        yield limit


def s12_watches(fold: Run, watched: set[str]) -> Wrong:
    """The store knows the waits on a topic that are open, and no others."""
    waiting = {wait.key for wait in fold.waits.values() if wait.kind == "topic"} if fold.end is None else set[str]()
    if watched != waiting:
        yield f"the store has it watch a topic for {sorted(watched)}, and it waits in {sorted(waiting)}"


# -- of a body that begins ---------------------------------------------------------------------------------------------


def s7_not_after_its_completion(b: Begun) -> Wrong:
    """Nobody whose attempt was written at or after a step's completion runs its body."""
    completed = b.known.completions.get(b.attempt[:2])
    if completed is not None and b.known.attempts.get(b.attempt, 0) >= completed:
        yield f"step {b.attempt[1]} runs again after it completed"


def s8_recorded_before(b: Begun) -> Wrong:
    """Every execution has an attempt of its own, durable before it begins."""
    if b.attempt not in b.known.attempts:
        yield f"step {b.attempt[1]}, attempt {b.attempt[2]}, runs and is nowhere in the journal"
    if b.known.executions[b.attempt] >= max(1, b.known.allowed[b.attempt]):
        yield f"step {b.attempt[1]}, attempt {b.attempt[2]}, runs once more than it was allowed to"


def s9_at_most_once(b: Begun) -> Wrong:
    """A step declared so runs at most once."""
    if b.is_once and any(each[:2] == b.attempt[:2] for each in b.known.executions):
        yield f"step {b.attempt[1]} is to run at most once, and runs again"


def s17_not_after_the_end(b: Begun) -> Wrong:
    """After a run's end no body of it begins, but of somebody who was cut off before."""
    if b.known.ended_in and b.known.attempts.get(b.attempt, 0) >= b.known.ended_in:
        yield f"step {b.attempt[1]} begins after the run's end"


OF_BODIES: tuple[Callable[[Begun], Wrong], ...] = (
    s7_not_after_its_completion,
    s8_recorded_before,
    s9_at_most_once,
    s17_not_after_the_end,
)


# -- of a message that went out with a turn ----------------------------------------------------------------------------


def s5_awake(target: RunRow, latest: datetime) -> Wrong:
    """Whoever has an unread message is held, or due at once, or waits for an operator."""
    if target.inbox_last <= target.inbox_read or target.instance or target.status.is_terminal:
        return
    if target.status is not Status.PAUSED and (target.available_at is None or target.available_at > latest):
        yield f"it has unread messages and sleeps until {target.available_at}: a lost wake-up"
