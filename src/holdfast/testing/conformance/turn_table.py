"""The truth table of `Journal.commit`: the effect of every kind of turn on its run's row, and how to play it.

The table is written by hand and does not use `ports.row`, which has the same as a rule: each checks the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.core import events as e
from holdfast.core.fold import fold
from holdfast.core.projection import project
from holdfast.core.status import Status
from holdfast.core.turn import decode_row, decode_rows, instant
from holdfast.ports.journal import Commit, Committed, Park, Unread, Verdict
from holdfast.ports.leases import Taken
from holdfast.ports.runs import Made, NewRun, RunRow
from holdfast.testing.conformance.world import (
    BOOM,
    DONE,
    STOPPED,
    TTL,
    Holder,
    World,
    chained,
    new_run,
    seconds,
    signal,
)

Due: TypeAlias = Literal["as before", "now", "never", "later", "earlier", "refused"]
Inbox: TypeAlias = Literal["empty", "consumed", "unread", "half consumed"]
Before: TypeAlias = Literal["pending", "running", "paused", "suspect", "freed"]
Send: TypeAlias = Callable[[World, Sequence[Commit]], Awaitable[Sequence[Verdict]]]

LATER, EARLIER = seconds(600), -seconds(5)
INBOXES: tuple[Inbox, ...] = ("empty", "consumed", "unread", "half consumed")
BEFORE: tuple[Before, ...] = ("pending", "running", "paused", "suspect", "freed")
_PAUSED = e.Paused(reason="operator")
_MOVED = e.Continued(workflow="parcel", version="7")
_OPEN = (Status.PENDING, Status.RUNNING)


@dataclass(frozen=True)
class Kind:
    """A kind of turn, and its effect on the row: whether the claims and the evidence against the run are cleared,
    whether the lease stays, and when the run is due, with every message seen and with one unseen."""

    name: str
    events: tuple[e.AnyEvent, ...]
    parks: Due | None
    is_progress: bool
    clears: bool
    keeps_lease: bool
    read: Due
    unread: Due


def _kind(what: str, clears: int, lease: str, read: Due, unread: Due, *events: e.AnyEvent) -> Kind:
    rest = what.partition(" | ")[2]
    parks: Due | None = next((due for due in _PARKS if f"until {due}" in rest), None)
    is_progress = "no progress" not in rest
    return Kind(what, events, parks, is_progress, bool(clears), lease == "kept", read, unread)


_PARKS: tuple[Due, ...] = ("never", "later", "earlier")

TABLE: tuple[Kind, ...] = (
    #     turn                                        clears lease    read         unread
    _kind("continues",                                       1, "kept", "as before", "as before"),
    _kind("continues | no progress",                         0, "kept", "as before", "as before"),
    _kind("moves",                                         1, "kept", "as before", "as before", _MOVED),
    _kind("moves | no progress",                           0, "kept", "as before", "as before", _MOVED),
    _kind("moves | until later",                           1, "back", "later",     "now", _MOVED),
    _kind("pauses",                                        1, "kept", "as before", "as before", _PAUSED),
    _kind("pauses | no progress",                          0, "kept", "as before", "as before", _PAUSED),
    _kind("pauses | until never",                          1, "back", "never",     "now", _PAUSED),
    _kind("pauses | until later",                          1, "back", "later",     "now", _PAUSED),
    _kind("pauses | until earlier, no progress",           1, "back", "earlier",   "now", _PAUSED),
    _kind("parks | until never",                           1, "back", "never",     "now"),
    _kind("parks | until later",                           1, "back", "later",     "now"),
    _kind("parks | until earlier",                         1, "back", "earlier",   "now"),
    _kind("parks | until never, no progress",              1, "back", "never",     "now"),
    _kind("parks | until later, no progress",              1, "back", "later",     "now"),
    _kind("completes",                                     1, "back", "never",     "refused", DONE),
    _kind("fails",                                         1, "back", "never",     "refused", BOOM),
    _kind("is cancelled",                                  1, "back", "never",     "refused", STOPPED),
    _kind("completes | until later",                       1, "back", "never",     "refused", DONE),
    _kind("completes | no progress",                       1, "back", "never",     "refused", DONE),
    _kind("fails | until never, no progress",              1, "back", "never",     "refused", BOOM),
)  # fmt: skip


@dataclass(frozen=True)
class Played:
    """One line of the table on one run: the turn, and the row before it."""

    kind: Kind
    inbox: Inbox
    holder: Holder
    turn: Commit
    before: RunRow
    child: str


@dataclass
class Table:
    """Plays the table on a store."""

    world: World

    async def prepared(self, kind: Kind, *, with_child: bool, befores: Sequence[Before] = BEFORE) -> list[Played]:
        """A run for each state and each inbox before the turn, and its turn."""
        world = self.world
        places: dict[str, tuple[Before, Inbox]] = {
            f"{before}-{inbox}-{with_child}".replace(" ", "-"): (before, inbox)
            for before in befores
            for inbox in INBOXES
        }
        await self._workers()
        holders = await self._held({run: before for run, (before, _) in places.items()})
        await self._advance([holder for holder in holders if places[holder.id][0] != "pending"])
        await self._advance([holder for holder in holders if places[holder.id][0] == "paused"], _PAUSED)
        for run, (_, inbox) in places.items():
            for number in range({"empty": 0, "half consumed": 2}.get(inbox, 1)):
                await world.store.send(signal(run, f"m{number}"))
        await self._kill_doomed()
        held = [await self._taken(x) if places[x.id][0] == "suspect" else x for x in holders]
        rows = await asyncio.gather(*(world.get(holder.id) for holder in held))
        return [
            self._played(kind, places[holder.id], holder, row, with_child=with_child)
            for holder, row in zip(held, rows, strict=True)
        ]

    async def _workers(self) -> None:
        if "i1" not in self.world.workers:
            await self.world.worker("i1")
        await self.world.worker("doomed", "doomed", queues=("doomed",))

    async def _held(self, befores: dict[str, Before]) -> list[Holder]:
        """The runs, each claimed once, some by the doomed worker."""
        world = self.world
        news = [
            world.new(run, queue="doomed" if before in ("suspect", "freed") else "default")
            for run, before in befores.items()
        ]
        await asyncio.gather(*(world.create(new) for new in news))
        taken = [await world.claim(world.workers[instance], limit=1000) for instance in ("i1", "doomed")]
        rows = {row.id: row for claims in taken for row in claims.runs}
        return [Holder(world, rows[new.row.run], decode_rows([new.row])) for new in news]

    async def _advance(self, holders: Sequence[Holder], *events: e.AnyEvent) -> None:
        """A turn of each that leaves its claim counted."""
        turns = [holder.turn(*events, is_progress=False) for holder in holders]
        verdicts = await self.world.store.commit(turns)
        for holder, turn, verdict in zip(holders, turns, verdicts, strict=True):
            assert isinstance(verdict, Committed), verdict
            holder.accept(turn)

    async def _kill_doomed(self) -> None:
        """Lets the doomed worker's lease expire, so that its runs are free; the other's stays."""
        for _ in range(2):
            self.world.clock.advance(TTL * 0.6)
            heart = self.world.store.heart("i1", TTL)
            heart.beat(frees=1000)
            heart.close()
        assert await self.world.store.held("doomed") == {}

    async def _taken(self, holder: Holder) -> Holder:
        taken = await self.world.store.take(holder.id, instance="i1")
        assert isinstance(taken, Taken)
        assert taken.run.suspicion.is_suspect
        return Holder(self.world, taken.run, holder.turns)

    def _played(
        self, kind: Kind, place: tuple[Before, Inbox], holder: Holder, before: RunRow, *, with_child: bool
    ) -> Played:
        state, inbox = place
        seen = {"consumed": before.inbox_last, "half consumed": 1}.get(inbox, 0)
        child = f"{holder.id}-child" if with_child else ""
        turn = holder.turn(
            *((e.Resumed(),) if state == "paused" else ()),
            *kind.events,
            park=park_of(kind, self.world.clock.now()),
            is_progress=kind.is_progress,
            inbox_seen=seen,
            is_consuming=inbox in ("consumed", "half consumed"),
            children=(holder.child(child, "c"),) if child else (),
        )
        return Played(kind, inbox, holder, turn, before, child)

    # -- looking -------------------------------------------------------------------------------------------------------

    async def check(self, played: Played, verdict: Verdict) -> None:
        """Checks the verdict and the row against the table."""
        row, before = await self.world.get(played.holder.id), played.before
        where = f"{played.kind.name}, {before.status.value}, inbox {played.inbox}: run {row.id}"
        is_unread = before.inbox_last > played.turn.inbox_seen
        due = played.kind.unread if is_unread else played.kind.read
        if due == "refused":
            assert verdict == Unread(before.inbox_last), where
            await self.check_untouched(played)
            return
        last = (await self.world.store.history(row.id))[-1]
        assert verdict == Committed(last.seq, before.inbox_last), where
        assert (last.checksum, last.body) == (played.turn.row.checksum, played.turn.row.body), where
        assert row == expected(played, due, self.world.clock.now()), where
        if played.child:
            child = await self.world.get(played.child)
            assert (child.status, child.parent, child.epoch) == (Status.PENDING, row.id, 0), where

    async def check_untouched(self, played: Played) -> None:
        """Checks that nothing of the turn was written."""
        assert await self.world.get(played.holder.id) == played.before
        assert (await self.world.store.history(played.holder.id))[-1].ordinal == played.before.next_ordinal - 1
        if played.child:
            assert await self.world.store.get(played.child) is None

    async def check_claims(self) -> None:
        """Checks that a claim takes exactly the open, due runs without a holder, now and later."""
        held = (("order", ""), ("parcel", ""), ("parcel", "7"))
        worker = await self.world.worker("i9", queues=("default", "doomed"), definitions=held)
        for passes in (timedelta(), LATER):
            self.world.clock.advance(passes)
            runs = await self.world.runs()
            wanted = {run.id for run in runs if is_claimable(run, self.world.clock.now())}
            taken = (await self.world.claim(worker, limit=1000)).runs
            assert {run.id for run in taken if not run.suspicion.is_suspect} == wanted


def is_claimable(run: RunRow, now: datetime) -> bool:
    """Whether a claim takes the run. (It takes at most one suspect, the first.)"""
    is_due = run.available_at is not None and run.available_at <= now
    return not run.instance and run.status in _OPEN and is_due and not run.suspicion.is_suspect


def park_of(kind: Kind, now: datetime) -> Park | None:
    """How the turn releases the lease, if it does."""
    return None if kind.parks is None else Park(time_of(kind.parks, None, now))


def time_of(due: Due, before: datetime | None, now: datetime) -> datetime | None:
    """`available_at`, in the words of the table."""
    times = {"as before": before, "now": now, "later": now + LATER, "earlier": now + EARLIER}
    return times.get(due)


def expected(played: Played, due: Due, now: datetime) -> RunRow:
    """The row after the turn."""
    kind, before, facts = played.kind, played.before, played.turn.projection
    at = instant(played.turn.row.at)
    row = msgspec.structs.replace(
        before,
        workflow=facts.workflow,
        version=facts.version,
        status=facts.status,
        doing=facts.doing,
        started_at=facts.started_at,
        updated_at=at,
        ended_at=at if played.turn.is_terminal else None,
        next_ordinal=before.next_ordinal + 1,
        inbox_read=played.turn.inbox_seen if played.turn.is_consuming else 0,
        instance=before.instance if kind.keeps_lease else "",
        available_at=time_of(due, before.available_at, now),
    )
    return msgspec.structs.replace(row, claims=0, deaths=0, solo=0, alone=0) if kind.clears else row


async def born(world: World, kind: Kind, run: str, *, with_child: bool, is_shared: bool) -> tuple[Played, Verdict]:
    """A run created with this turn as its first, and the answer. `is_shared`: others know of it too, by a key and an
    attribute."""
    facts: dict[str, Any] = {"key": run, "attributes": {"a": run}} if is_shared else {}
    new = world.new(run, **facts)
    child = f"{run}-child" if with_child else ""
    turn = first_turn(world, new, kind, child)
    made = await world.create(new, instance="i1", worker="w1", first=turn)
    assert isinstance(made, Made)
    assert made.first is not None
    before = msgspec.structs.replace(
        made.run,
        status=Status.PENDING,
        doing=new.doing,
        instance="i1",
        worker="w1",
        epoch=1,
        claims=1,
        next_ordinal=2,
        workflow=new.started.workflow,
        version=new.started.version,
        started_at=None,
        updated_at=made.run.created_at,
        ended_at=None,
        available_at=world.clock.now(),
    )
    return Played(kind, "empty", Holder(world, before, decode_rows([new.row])), turn, before, child), made.first


def first_turn(world: World, new: NewRun, kind: Kind, child: str) -> Commit:
    """The turn of a run that is not made yet."""
    now, run = world.clock.now(), new.row.run
    row = chained(new.row.checksum, run, 2, 1, now, (e.Claimed(worker="w1"), *kind.events))
    made = new_run(child, now, "parcel", watcher=(run, "c"), parent=run, parent_key="c", root=run) if child else None
    return Commit(
        no=0,
        row=row,
        after=new.row.checksum,
        projection=project(fold(run, [*decode_rows([new.row]), decode_row(row)])),
        is_terminal=any(isinstance(event, e.TERMINAL) for event in kind.events),
        is_progress=kind.is_progress,
        park=park_of(kind, now),
        children=(made,) if made else (),
    )
