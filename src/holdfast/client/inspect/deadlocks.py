"""Runs that wait for each other through a queue: a parent has a place there, and waits for a child that needs one."""

from __future__ import annotations

import msgspec

from holdfast.core.doing import decode_doing
from holdfast.core.status import Status
from holdfast.ports.runs import Filter, RunRow
from holdfast.ports.store import Store

DEPTH = 20
"""Maximum number of ancestors of a run to check."""

LOOKED_AT = 100
"""Maximum number of waiting runs of a queue, and of children of a run, to check."""

LISTED = 3


class Blocked(msgspec.Struct, frozen=True):
    """A run that waits at the gate of its queue for a place, and the topmost of the runs above it that began in that
    queue and that wait for it."""

    run: str
    holder: str


async def blocked_by(store: Store, run: RunRow) -> Blocked | None:
    """Whether the run waits for a place that a run above it has, which waits for it in turn."""
    if run.started_at is not None or run.status is not Status.PENDING or not run.parent:
        return None
    if not await _is_full(store, run.queue):
        return None
    below, holder = run, ""
    for _ in range(DEPTH):
        above = await store.get(below.parent) if below.parent else None
        if above is None or not _waits_for(above, below.id):
            break
        if above.queue == run.queue and above.started_at is not None:
            holder = above.id
        below = above
    return Blocked(run.id, holder) if holder else None


async def queue_waits_of(store: Store, run: RunRow) -> list[str]:
    """The wait of the run, or of a child it waits for, that cannot end, in words."""
    if run.status.is_terminal:
        return []
    children = await store.list(Filter(parent=run.id, statuses=(Status.PENDING,)), limit=LOOKED_AT)
    found = [(each, await blocked_by(store, each)) for each in [run, *children.runs]]
    said = [_said(each.queue, blocked) for each, blocked in found if blocked is not None]
    return said[:LISTED]


async def blocked_in(store: Store, queue: str) -> list[Blocked]:
    """The runs of a queue that wait so, as far as the oldest of its waiting runs show."""
    waiting = Filter(queue=queue, statuses=(Status.PENDING,), is_oldest_first=True)
    rows = (await store.list(waiting, limit=LOOKED_AT)).runs
    found = [await blocked_by(store, row) for row in rows]
    return [each for each in found if each is not None]


def deadlock_words(queue: str, found: list[Blocked], at_once: int) -> str:
    """What is wrong with the queue, and what to do."""
    held = len({each.holder for each in found})
    pairs = ", ".join(f"{each.holder} for {each.run}" for each in found[:LISTED])
    more = " and more" if len(found) > LISTED else ""
    until = "they wait forever" if held >= at_once else "they wait until other runs give places back"
    return (
        f"{queue}: of its places, {held} of {at_once} belong to runs that wait for their own children there: "
        f"{pairs}{more}; {until}. {_what_next(queue)}"
    )


def _said(queue: str, blocked: Blocked) -> str:
    return (
        f"run {blocked.run} needs a place in queue {queue}, where all are taken, one of them by run {blocked.holder} "
        f"above it, which waits for it. {_what_next(queue)}"
    )


def _what_next(queue: str) -> str:
    return (
        f"Cancel one, or raise at_once (holdfast queues set {queue} --at-once …); and start such children without "
        "queue=, so that they share the place of their parent, or in a queue of their own"
    )


async def _is_full(store: Store, queue: str) -> bool:
    """Whether the queue limits its runs, and all of its places are taken."""
    stored = await store.queue(queue)
    if stored is None or stored.gate.at_once is None or stored.gate.frees_parked:
        return False
    return (await store.queue_load(queue)).begun >= stored.gate.at_once


def _waits_for(above: RunRow, child: str) -> bool:
    """Whether its row says that the run waits for that child. One that does very much at once may."""
    if above.status.is_terminal:
        return False
    doing = decode_doing(above.doing)
    return bool(doing.more) or any(one.kind == "child" and one.detail == child for one in doing.now)
