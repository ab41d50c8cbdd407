"""Queues, as people see and change them: one place for the command line, HTTP and code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.client.access import Access
from holdfast.core.durations import format_duration
from holdfast.core.ids import check_name, check_text
from holdfast.core.queue import QueueRules, QueueState, is_declared_queue, make_rules
from holdfast.errors import CorruptJournal, InvalidQueue
from holdfast.ports.condition import Backlog, Diagnosable
from holdfast.ports.leases import WorkerRow
from holdfast.ports.queues import QueueLoad, ShareLoad, StoredQueue
from holdfast.queues.rulebook import change_rules, queue_state

FIELDS = tuple(QueueRules.__struct_fields__)
"""The rules that `set` may change."""


class Unserved(msgspec.Struct, frozen=True):
    """Waiting runs of a queue that no live worker of the queue can run."""

    workflow: str
    version: str
    count: int


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue now. `waiting` runs wait to begin or to be claimed again, the `oldest` since `since`. Of the runs
    that have begun, `begun` have a place, and `parked` of these only wait. For queues without rules only `waiting`
    is known."""

    name: str
    waiting: int
    oldest: str
    since: datetime | None
    begun: int
    parked: int
    at_once: int | None
    per_worker: int | None
    rate: str
    shares: dict[str, float]
    share_at_once: int | None
    frees_parked: bool
    is_paused: bool
    reason: str
    is_declared: bool
    overrides: tuple[str, ...]
    """The rules that were set by hand."""
    next_at: datetime | None
    """When its rate admits the next run; None: at once."""
    held_back: str
    """What keeps runs from beginning, as a sentence; empty if nothing does."""
    loads: tuple[ShareLoad, ...]
    """The shares with most runs waiting."""
    share_count: int
    workers: tuple[str, ...]
    unserved: tuple[Unserved, ...]
    problem: str = ""
    """Why its rules cannot be read."""


async def queue_views(client: Access) -> list[QueueView]:
    """Every queue that has rules, runs or workers, by name."""
    store = client.store
    stored = {one.name: one for one in await store.queues()}
    backlog = await store.backlog() if isinstance(store, Diagnosable) else ()
    live = [worker for worker in await store.workers() if worker.is_live]
    served = (queue for worker in live for queue in worker.queues)
    names = {"default", *stored, *(one.queue for one in backlog), *served}
    return [await _view(client, name, stored.get(name), backlog, live) for name in sorted(names)]


async def queue_view(client: Access, name: str) -> QueueView:
    """One queue, even if it is unknown."""
    store = client.store
    backlog = await store.backlog() if isinstance(store, Diagnosable) else ()
    live = [worker for worker in await store.workers() if worker.is_live]
    return await _view(client, _name(name), await store.queue(name), backlog, live)


async def pause_queue(client: Access, name: str, reason: str = "") -> None:
    """Pauses the queue: none of its runs begins from now on."""
    check_text(reason, "reason", most=1000)
    actor = client.actor

    def paused(state: QueueState) -> QueueState:
        return msgspec.structs.replace(state, is_paused=True, reason=reason, actor=actor)

    await change_rules(client.store, _name(name), paused)


async def resume_queue(client: Access, name: str) -> None:
    def resumed(state: QueueState) -> QueueState:
        return msgspec.structs.replace(state, is_paused=False, reason="", actor="")

    await change_rules(client.store, _name(name), resumed)


async def set_rules(client: Access, name: str, **given: Any) -> None:
    """Sets rules that override those of workers until they are reset. None: no limit."""
    _name(name)
    unknown = sorted(set(given) - set(FIELDS))
    if unknown or not given:
        what = f"no rule {', '.join(unknown)}" if unknown else "nothing to set"
        raise InvalidQueue(f"queue {name}: {what}. Rules: {', '.join(FIELDS)}.")
    usual: dict[str, Any] = {"parked": "holds", "shares": {}}
    rules = make_rules(f"queue {name}", **{what: usual.get(what) if x is None else x for what, x in given.items()})
    chosen = msgspec.to_builtins(rules, builtin_types=())
    overrides = {what: chosen.get(what, _default(what)) for what in given}

    def changed(state: QueueState) -> QueueState:
        return msgspec.structs.replace(state, overrides={**state.overrides, **overrides})

    await change_rules(client.store, name, changed)


async def reset_rules(client: Access, name: str) -> None:
    """Returns to the rules that workers declare."""
    await change_rules(
        client.store, _name(name), lambda state: msgspec.structs.replace(state, overrides={}), replaces=True
    )


def _name(name: str) -> str:
    return check_name(name, "queue")


def _default(what: str) -> Any:
    return msgspec.to_builtins(getattr(QueueRules(), what))


async def _view(
    client: Access, name: str, stored: StoredQueue | None, backlog: Sequence[Backlog], live: Sequence[WorkerRow]
) -> QueueView:
    state, problem = QueueState(), ""
    try:
        state = queue_state(stored)
    except CorruptJournal as error:
        problem = str(error)
    waiting = [one for one in backlog if one.queue == name]
    serving = [worker for worker in live if name in worker.queues]
    load = QueueLoad() if stored is None else await client.store.queue_load(name)
    oldest = min(waiting, key=lambda one: one.since, default=None)
    rules = state.effective
    return QueueView(
        name=name,
        waiting=sum(one.count for one in waiting),
        oldest=oldest.oldest if oldest is not None else "",
        since=oldest.since if oldest is not None else None,
        begun=load.begun,
        parked=load.parked,
        at_once=rules.at_once,
        per_worker=rules.per_worker,
        rate="" if rules.rate is None else str(rules.rate),
        shares=rules.shares,
        share_at_once=rules.share_at_once,
        frees_parked=rules.parked == "frees",
        is_paused=state.is_paused,
        reason=state.reason,
        is_declared=is_declared_queue(state, {worker.instance for worker in live}),
        overrides=tuple(sorted(state.overrides)),
        next_at=load.next_at,
        held_back=_held_back(state, load, serving, client.store.clock.now()),
        loads=load.shares,
        share_count=load.share_count,
        workers=tuple(worker.worker for worker in serving),
        unserved=tuple(
            Unserved(one.workflow, one.version, one.count)
            for one in waiting
            if not any((one.workflow, one.version) in worker.definitions for worker in serving)
        ),
        problem=problem,
    )


def _held_back(state: QueueState, load: QueueLoad, serving: Sequence[WorkerRow], now: datetime) -> str:
    """What keeps waiting runs from beginning."""
    rules = state.effective
    counted = load.begun - load.parked if rules.parked == "frees" else load.begun
    if state.is_paused:
        by = f" by {state.actor}" if state.actor else ""
        return f"paused{by}: {state.reason}" if state.reason else f"paused{by}"
    if not load.waiting:
        return ""
    if not serving:
        return "no worker serves it"
    if rules.at_once is not None and counted >= rules.at_once:
        parked = f", {load.parked} of them parked" if load.parked and rules.parked == "holds" else ""
        return f"at_once: {counted} of {rules.at_once} places are taken{parked}"
    if load.next_at is not None:
        return f"rate {rules.rate}: the next run begins in {format_duration(max(load.next_at - now, now - now))}"
    if rules.share_at_once is not None:
        full = [one.share for one in load.shares if one.begun >= rules.share_at_once]
        if full:
            named = ", ".join(full[:3]) + (" and more" if len(full) > 3 else "")
            return f"share_at_once: all {rules.share_at_once} places are taken of {named}"
    return ""


def view_object(view: QueueView) -> Mapping[str, Any]:
    """A queue for programs."""
    shown: dict[str, Any] = msgspec.to_builtins(view)
    return {**shown, "rate": view.rate or None}
