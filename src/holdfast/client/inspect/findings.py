"""Problems of a store, its workers and its runs. Each check returns findings: ok, a warning, or a problem."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from holdfast.client.client import Client
from holdfast.client.inspect.finding import LISTED, Finding
from holdfast.client.inspect.limits import limit_findings
from holdfast.client.inspect.queues import queue_findings
from holdfast.client.inspect.schedules import schedule_findings
from holdfast.config.addresses import without_secrets
from holdfast.core.durations import format_duration
from holdfast.core.plurals import counted
from holdfast.core.recovery import Kind, Recovery, decode_recovery
from holdfast.core.status import Status
from holdfast.ports.condition import Backlog, Diagnosable, FindsDamage
from holdfast.ports.leases import WorkerRow
from holdfast.ports.runs import Filter

LONG_WAIT = timedelta(minutes=1)
LARGE_SKEW = timedelta(seconds=1)


_MET: Mapping[Kind, Callable[[int], str]] = {
    "own": lambda count: f"took back {counted(count, 'run')} of its earlier process",
    "taken over": lambda count: f"took over {counted(count, 'run')} of workers that were gone",
    "contended": lambda count: f"left {counted(count, 'run')} to workers that had them first",
    "missing definition": lambda count: f"put off {counted(count, 'run')} whose code it does not have",
    "undecodable": lambda count: f"paused {counted(count, 'run')} that cannot be read",
    "failed": lambda count: f"could not resume {counted(count, 'run')}",
}
"""What a worker's recovery found, in words."""


async def store_findings(client: Client) -> AsyncIterator[Finding]:
    store = client.store
    yield Finding("store", "ok", without_secrets(store.url))
    if isinstance(store, Diagnosable):
        condition = await store.condition()
        yield Finding("engine", "ok", f"{condition.engine}; durability {condition.durability}")
        for fault in condition.faults:
            yield Finding("engine", "problem", fault)
        for warning in condition.warnings:
            yield Finding("engine", "warning", warning)
    if isinstance(store, FindsDamage):
        async for finding in _damaged(store):
            yield finding
    newest = (await store.list(Filter(), limit=1)).runs
    yield clock_finding(store.clock.now(), datetime.now(UTC), newest[0].created_at if newest else None)
    counts = await store.count()
    workers = await store.workers()
    for finding in worker_findings(workers, has_work=any(counts[s] for s in (Status.PENDING, Status.RUNNING))):
        yield finding
    shown = ", ".join(f"{count} {status.value}" for status, count in counts.items() if count)
    yield Finding("runs", "ok", shown or "none yet")
    if isinstance(store, Diagnosable):
        for finding in _waiting(await store.backlog(), workers, store.clock.now()):
            yield finding
    async for finding in queue_findings(client):
        yield finding
    async for finding in schedule_findings(client, workers):
        yield finding
    async for finding in limit_findings(client):
        yield finding
    async for finding in _suspects(client):
        yield finding
    async for finding in _paused(client):
        yield finding


async def _damaged(store: FindsDamage) -> AsyncIterator[Finding]:
    """Rows that cannot be read. They come first, since they explain other findings."""
    found = await store.damaged(limit=LISTED + 1)
    for row in found[:LISTED]:
        yield Finding("damaged", "problem", f"run {row.id}: {'; '.join(row.damage)}")
    if len(found) > LISTED:
        yield Finding("damaged", "problem", "more rows are damaged: holdfast verify")


def clock_finding(store: datetime, here: datetime, newest: datetime | None) -> Finding:
    """The store's clock compared with ours, and the newest run with both, which reveals a clock that was set back."""
    skew = abs(store - here)
    if skew > LARGE_SKEW:
        return Finding("clock", "problem", f"this clock and the store's differ by {format_duration(skew)}")
    if newest is not None and newest - store > LARGE_SKEW:
        ahead = format_duration(newest - store)
        return Finding("clock", "problem", f"the newest run was created {ahead} in the future: a clock is wrong")
    return Finding("clock", "ok", "in step with the store's clock")


def worker_findings(workers: Sequence[WorkerRow], *, has_work: bool) -> Iterator[Finding]:
    live = [worker for worker in workers if worker.is_live]
    if live:
        names = [
            f"{worker.worker} ({','.join(worker.queues)}; {counted(worker.active, 'run')})" for worker in live[:LISTED]
        ]
        more = f" and {len(live) - LISTED} more" if len(live) > LISTED else ""
        yield Finding("workers", "ok", f"{len(live)} live: {', '.join(names)}{more}")
    else:
        yield Finding("workers", "problem" if has_work else "warning", "none is live. Start one: holdfast worker")
    for worker in workers:
        if worker.damage:
            yield Finding("workers", "problem", f"the row of {worker.worker} is damaged: {'; '.join(worker.damage)}")
        if not worker.is_live and worker.active:
            next_ = "a live worker takes them over soon" if live else "start a worker that takes them over"
            text = f"{worker.worker} has gone and holds {counted(worker.active, 'run')}; {next_}"
            yield Finding("workers", "warning", text)
    yield from _namesakes(live)
    for worker in live:
        recovery = decode_recovery(worker.recovery)
        if recovery.recent:
            kinds = ", ".join(_MET[kind](count) for kind, count in recovery.counts.items())
            state, named = _met(recovery)
            yield Finding("recovery", state, f"{worker.worker}: {kinds}; {named}")
        if recovery.left:
            yield Finding("threads", "warning", f"{worker.worker} {_left(recovery.left)}")


def _met(recovery: Recovery) -> tuple[Literal["ok", "warning"], str]:
    """Runs that need attention, the latest first; if there are none, the last one held by another worker."""
    troubled = [met for met in reversed(recovery.recent) if met.kind != "contended"]
    if not troubled:
        last = recovery.recent[-1]
        return "ok", f"the last: run {last.run}, {last.detail}"
    named = [f"run {met.run}: {met.detail}" for met in troubled[:LISTED]]
    more = [f"and {len(troubled) - LISTED} more"] if len(troubled) > LISTED else []
    return "warning", "; ".join([*named, *more])


def _left(left: Sequence[tuple[str, str]]) -> str:
    """Threads that only their own code can end."""
    named = ", ".join(f"{key} of run {run}" for run, key in left[:LISTED])
    more = f" and {len(left) - LISTED} more" if len(left) > LISTED else ""
    threads = "1 thread" if len(left) == 1 else f"{len(left)} threads"
    return (
        f"has {threads} busy with steps whose result is no longer needed: {named}{more}. Until they return, other "
        "steps have fewer threads. Give their calls a timeout, or let the steps check current().is_cancelled"
    )


def _namesakes(live: Sequence[WorkerRow]) -> Iterator[Finding]:
    """Ids that several live workers use. One that was not heard since the latest began may be its earlier instance,
    whose lease has not expired yet."""
    for name in dict.fromkeys(worker.worker for worker in live):
        latest, *earlier = sorted((x for x in live if x.worker == name), key=lambda x: x.started_at, reverse=True)
        alive = [latest, *(x for x in earlier if x.seen_at is not None and x.seen_at > latest.started_at)]
        if len(alive) > 1:
            processes = " and ".join(f"{worker.pid} on {worker.host}" for worker in reversed(alive))
            text = f"{name} is the id of {len(alive)} live workers, processes {processes}: each takes the other's runs"
            yield Finding("workers", "warning", f"{text} when it starts. Give each an id of its own")


def _waiting(backlog: Sequence[Backlog], workers: Sequence[WorkerRow], now: datetime) -> Iterator[Finding]:
    """Definitions that no worker serves, and of the others the run that has waited longest."""
    live = [worker for worker in workers if worker.is_live]
    unserved: set[Backlog] = set()
    for one in backlog:
        wanted = (one.workflow, one.version)
        if not any(one.queue in worker.queues and wanted in worker.definitions for worker in live):
            label = f"{one.workflow} {one.version}".rstrip()
            text = f"{one.count} waiting on queue {one.queue}, and no live worker serves {label} there"
            waited = _age(max(now - one.since, timedelta(0)))
            yield Finding("waiting", "problem", f"{label}: {text}. {one.oldest} has waited for {waited}")
            unserved.add(one)
    gone = [worker for worker in workers if worker.active and not worker.is_live]
    if gone:
        runs = counted(sum(worker.active for worker in gone), "run")
        waits = "waits" if runs == "1 run" else "wait"
        text = f"{runs} of {_named(gone)} {waits} for another worker"
        yield Finding("waiting", "warning" if live else "problem", text)
    if not backlog:
        if not gone:
            yield Finding("waiting", "ok", "no run waits for a worker")
        return
    served = [one for one in backlog if one not in unserved]
    if not served:
        return
    oldest = min(served, key=lambda one: one.since)
    age = max(now - oldest.since, timedelta(0))
    text = f"the oldest, {oldest.oldest}, has waited for a worker for {_age(age)}"
    yield Finding("waiting", "warning" if age > LONG_WAIT else "ok", text)


def _named(gone: Sequence[WorkerRow]) -> str:
    names = ", ".join(worker.worker for worker in gone[:LISTED])
    more = f" and {len(gone) - LISTED} more" if len(gone) > LISTED else ""
    return f"{names}{more}, which {'has' if len(gone) == 1 else 'have'} gone,"


def _age(age: timedelta) -> str:
    return format_duration(timedelta(seconds=age.seconds, days=age.days))


async def _suspects(client: Client) -> AsyncIterator[Finding]:
    """Runs whose workers died, and which are tried one at a time until the cause is known."""
    views, after = await client.page(Filter(is_suspect=True), limit=LISTED)
    for view in views:
        yield Finding("suspects", "warning", f"run {view.id}: {view.note}")
    if after:
        yield Finding("suspects", "warning", "and more; each worker tries one of them at a time")


async def _paused(client: Client) -> AsyncIterator[Finding]:
    views, after = await client.page(Filter(statuses=(Status.PAUSED,)), limit=LISTED)
    for view in views:
        is_meant = any(one.kind == "paused" and one.name == "operator" for one in view.doing.now)
        yield Finding("paused", "warning" if is_meant else "problem", f"run {view.id}: {view.waiting}")
    if after:
        yield Finding("paused", "warning", "more runs are paused: holdfast runs --status paused")
