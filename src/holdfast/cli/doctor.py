"""`holdfast doctor`: what is wrong with configuration, store, workers and runs, in one look.

Each check gives findings: ok, a warning, or a problem, which makes the exit code 1. One that cannot be made (no store,
no app) does not stop the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

import click
import msgspec

from holdfast.app import App, schema_of
from holdfast.cli.asking import asking
from holdfast.cli.loading import app_to_serve, refuse_missing, refuse_private, store_app
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.client.client import Client
from holdfast.config import Loaded, load
from holdfast.config.addresses import without_secrets
from holdfast.core.durations import format_duration
from holdfast.core.recovery import Recovery, decode_recovery
from holdfast.core.status import Status
from holdfast.errors import HoldfastError
from holdfast.ports.condition import Backlog, Diagnosable, FindsDamage
from holdfast.ports.leases import WorkerRow
from holdfast.ports.runs import Filter

LONG_WAIT = timedelta(minutes=1)
LARGE_SKEW = timedelta(seconds=1)
LISTED = 5

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


class Finding(msgspec.Struct, frozen=True):
    """What one look gave."""

    check: str
    state: Literal["ok", "warning", "problem"]
    text: str


@click.command("doctor", cls=HoldfastCommand)
@asking()
def command(target: str | None, url: str | None, is_json: bool) -> int:
    """Look for what is wrong: configuration and app, store, schema, clocks, workers, runs nobody serves, paused runs.

    Exit code 1 if there is a problem; warnings are no problems. Nothing is changed, and nothing is migrated.
    """
    return run_async(_examine(target, url, Output(is_json=is_json)))


async def _examine(target: str | None, url: str | None, out: Output) -> int:
    findings = [finding async for finding in examine(target, url)]
    problems = sum(finding.state == "problem" for finding in findings)
    if out.is_json:
        out.record({"ok": not problems, "findings": msgspec.to_builtins(findings)})
    else:
        widest = max(len(finding.check) for finding in findings)
        for finding in findings:
            out.entry(f"{finding.check:{widest}}  ", (f"{finding.state:7}", _STYLES[finding.state]), finding.text)
    return 1 if problems else 0


async def examine(target: str | None, url: str | None) -> AsyncIterator[Finding]:
    """Every finding, the cheap ones first."""
    try:
        loaded = load()
    except HoldfastError as error:
        yield Finding("config", "problem", str(error))
        return
    yield Finding("config", "ok", str(loaded.file) if loaded.file else "no file; defaults and environment")
    if target or loaded.settings.app or loaded.settings.discover:
        yield _app(target, loaded)
    try:
        app, is_default = store_app(target, url)
        refuse_private(app.url)
        await refuse_missing(app.url, is_default=is_default)
        schema = await _schema(app)
        yield schema
        if schema.state == "problem":  # to open it would be to migrate it
            return
        async with app:
            client = await app.client()
            async for finding in store_findings(client):
                yield finding
    except (HoldfastError, click.ClickException) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        yield Finding("store", "problem", text)


def _app(target: str | None, loaded: Loaded) -> Finding:
    try:
        app = app_to_serve(target, loaded)
    except (HoldfastError, click.ClickException) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        return Finding("app", "problem", text)
    served = ", ".join(sorted(spec.label for spec in app.registry))
    return Finding("app", "ok", f"serves {served}") if served else Finding("app", "warning", "serves no workflow")


async def _schema(app: App) -> Finding:
    schema = await schema_of(app.url)
    if schema is None:
        return Finding("schema", "ok", "none needed")
    if schema.pending:
        text = f"version {schema.version}, and {schema.latest} is needed. Run: holdfast migrate"
        return Finding("schema", "problem", text)
    return Finding("schema", "ok", f"version {schema.version}, up to date")


async def store_findings(client: Client) -> AsyncIterator[Finding]:
    """What is found in an open store."""
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
    yield _clock(store.clock.now(), datetime.now(UTC), newest[0].created_at if newest else None)
    counts = await store.count()
    workers = await store.workers()
    for finding in _workers(workers, has_work=any(counts[s] for s in (Status.PENDING, Status.RUNNING))):
        yield finding
    shown = ", ".join(f"{count} {status.value}" for status, count in counts.items() if count)
    yield Finding("runs", "ok", shown or "none yet")
    if isinstance(store, Diagnosable):
        for finding in _waiting(await store.backlog(), workers, store.clock.now()):
            yield finding
    async for finding in _suspects(client):
        yield finding
    async for finding in _paused(client):
        yield finding


async def _damaged(store: FindsDamage) -> AsyncIterator[Finding]:
    """Rows that cannot be read; first of all, since they explain what else is found."""
    found = await store.damaged(limit=LISTED + 1)
    for row in found[:LISTED]:
        yield Finding("damaged", "problem", f"run {row.id}: {'; '.join(row.damage)}")
    if len(found) > LISTED:
        yield Finding("damaged", "problem", "more rows are damaged: holdfast verify")


def _clock(store: datetime, here: datetime, newest: datetime | None) -> Finding:
    """The store's clock beside ours, and the newest run beside both: a clock that went back shows there."""
    skew = abs(store - here)
    if skew > LARGE_SKEW:
        return Finding("clock", "problem", f"this clock and the store's differ by {format_duration(skew)}")
    if newest is not None and newest - store > LARGE_SKEW:
        ahead = format_duration(newest - store)
        return Finding("clock", "problem", f"the newest run was made {ahead} in the future: a clock is wrong")
    return Finding("clock", "ok", "with the store's")


def _workers(workers: Sequence[WorkerRow], *, has_work: bool) -> Iterator[Finding]:
    live = [worker for worker in workers if worker.is_live]
    if live:
        names = [f"{worker.worker} ({','.join(worker.queues)}; {worker.active} runs)" for worker in live[:LISTED]]
        more = f" and {len(live) - LISTED} more" if len(live) > LISTED else ""
        yield Finding("workers", "ok", f"{len(live)} live: {', '.join(names)}{more}")
    else:
        yield Finding("workers", "problem" if has_work else "warning", "none is live. Start one: holdfast worker")
    for worker in workers:
        if worker.damage:
            yield Finding("workers", "problem", f"the row of {worker.worker} is damaged: {'; '.join(worker.damage)}")
        if not worker.is_live and worker.active:
            text = f"{worker.worker} has gone and holds {worker.active} runs; a live worker frees them soon"
            yield Finding("workers", "warning", text)
    yield from _namesakes(live)
    for worker in live:
        recovery = decode_recovery(worker.recovery)
        if recovery.recent:
            counted = ", ".join(f"{count} {kind}" for kind, count in recovery.counts.items())
            state, named = _met(recovery)
            yield Finding("recovery", state, f"{worker.worker} met {counted}; {named}")
        if recovery.left:
            yield Finding("threads", "warning", f"{worker.worker} {_left(recovery.left)}")


def _met(recovery: Recovery) -> tuple[Literal["ok", "warning"], str]:
    """Runs that somebody has to look after, the latest first; if there are none, the last that somebody else had."""
    troubled = [met for met in reversed(recovery.recent) if met.kind != "contended"]
    if not troubled:
        last = recovery.recent[-1]
        return "ok", f"the last: run {last.run}, {last.detail}"
    named = [f"run {met.run}: {met.detail}" for met in troubled[:LISTED]]
    more = [f"and {len(troubled) - LISTED} more"] if len(troubled) > LISTED else []
    return "warning", "; ".join([*named, *more])


def _left(left: Sequence[tuple[str, str]]) -> str:
    """Threads that nobody can end but their own code."""
    named = ", ".join(f"{key} of run {run}" for run, key in left[:LISTED])
    more = f" and {len(left) - LISTED} more" if len(left) > LISTED else ""
    threads = "1 thread" if len(left) == 1 else f"{len(left)} threads"
    return (
        f"has {threads} busy with steps that nobody waits for: {named}{more}. Until they return, other steps have as "
        "many threads less. Give such steps a timeout of their own calls, or let them look at current().is_cancelled"
    )


def _namesakes(live: Sequence[WorkerRow]) -> Iterator[Finding]:
    """Ids that several live workers use. One that was not heard of since the latest began may be its earlier instance,
    whose lease has not run out yet."""
    for name in dict.fromkeys(worker.worker for worker in live):
        latest, *earlier = sorted((x for x in live if x.worker == name), key=lambda x: x.started_at, reverse=True)
        alive = [latest, *(x for x in earlier if x.seen_at is not None and x.seen_at > latest.started_at)]
        if len(alive) > 1:
            processes = " and ".join(f"{worker.pid} on {worker.host}" for worker in reversed(alive))
            text = f"{name} is the id of {len(alive)} live workers, processes {processes}: each takes the other's runs"
            yield Finding("workers", "warning", f"{text} when it starts. Give each an id of its own")


def _waiting(backlog: Sequence[Backlog], workers: Sequence[WorkerRow], now: datetime) -> Iterator[Finding]:
    """Definitions that nobody serves, and the run that waits longest."""
    live = [worker for worker in workers if worker.is_live]
    for one in backlog:
        wanted = (one.workflow, one.version)
        if not any(one.queue in worker.queues and wanted in worker.definitions for worker in live):
            label = f"{one.workflow} {one.version}".rstrip()
            text = f"{one.count} waiting on queue {one.queue}, and no live worker serves {label} there"
            yield Finding("waiting", "problem", f"{label}: {text}")
    if not backlog:
        yield Finding("waiting", "ok", "no run waits for a worker")
        return
    oldest = min(backlog, key=lambda one: one.since)
    age = max(now - oldest.since, timedelta(0))
    text = f"the oldest, {oldest.oldest}, has waited for a worker for {_age(age)}"
    yield Finding("waiting", "warning" if age > LONG_WAIT else "ok", text)


def _age(age: timedelta) -> str:
    return format_duration(timedelta(seconds=age.seconds, days=age.days))


async def _suspects(client: Client) -> AsyncIterator[Finding]:
    """Runs whose workers died, and that are tried one at a time until it is known which of them did it."""
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
