"""A small world for end-to-end tests: one store, the apps and workers on it, and hands on its clock.

Real worlds wait on conditions, with a deadline, never for a time. Virtual worlds stand still until `advance` moves
them: it moves the store's clock, turns the wheels of the live workers and hints their claim loops, as passing time
would.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar
from unittest.mock import patch

from holdfast import App, Run, Status
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.postgres import open_postgres
from holdfast.authoring.handle import JournalEvent
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.recovery import encode_recovery
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store
from holdfast.turn.states import State
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.worker import Worker
from tests.support.postgres import clean_url
from tests.support.sqlite import open_copy

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
PATIENCE = 60.0
"""Seconds after which a condition that does not come true fails its test."""

LONG = "3000d"
"""The lease of workers on a virtual clock: it outlives every leap of time, unless a test asks for a short one."""

Kind = Literal["memory", "sqlite", "postgres"]
T = TypeVar("T")


class BeatingWhenTold(Heartbeat):
    """The heartbeat of workers on a virtual clock: `World.beat` alone makes it. A thread that beats in real time would
    now and then, on a busy machine, prolong just the lease that a test has run out."""

    def start(self) -> None:
        """Nothing by itself."""

    def stop(self) -> None:
        """Nothing to wait for."""
        self.end()


class World:
    """One store and what works on it."""

    def __init__(self, kind: Kind, store: Store, path: Path, clock: VirtualClock | None) -> None:
        self.kind = kind
        self.store = store
        self.path = path
        self._clock = clock
        self.workers: list[Worker] = []

    @property
    def clock(self) -> VirtualClock:
        """The virtual clock."""
        assert self._clock is not None, "this world runs on real time"
        return self._clock

    def app(self, *workflows: Any, **options: Any) -> App:
        """An app on this store: like another process of a deployment."""
        return App(workflows=workflows, store=self.store, **options)

    @asynccontextmanager
    async def worker(self, app: App, **options: Any) -> AsyncIterator[Worker]:
        """A worker of that app. Its own runs are claimed like those of others, so that a test sees one path."""
        options.setdefault("ttl", LONG if self._clock is not None else "15s")
        options.setdefault("poll", "100ms")
        options.setdefault("grace", "5s")
        async with app.worker(**options) as worker:
            self.workers.append(worker)
            try:
                yield worker
            finally:
                self.workers.remove(worker)
                await stop(worker)

    @asynccontextmanager
    async def serving(self, *workflows: Any, **options: Any) -> AsyncIterator[App]:
        """An app with one worker."""
        app = self.app(*workflows, **options)
        async with self.worker(app):
            yield app

    async def advance(self, by: Duration) -> None:
        """Lets virtual time pass and everything that came due happen."""
        self.clock.advance(parse_duration(by, what="advance"))
        await self.nudge()

    async def nudge(self) -> None:
        """What passing time would do by itself: turn the wheels, look for due runs."""
        for worker in self.workers:
            if not worker.is_stopped:
                worker.engine.wheel.turn()
                worker.work_hinted.set()
        await asyncio.sleep(0)

    async def until(self, condition: Callable[[], Any], what: str = "") -> None:
        """Waits until it is true; the condition may be async."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not await _truth(condition()):  # noqa: ASYNC110 the store tells nobody of a condition
                    await asyncio.sleep(0.002)
        except TimeoutError:
            raise AssertionError(f"never came true: {what or inspect.getsource(condition).strip()}") from None

    async def until_set(self, event: asyncio.Event) -> None:
        """Waits for the event, as long as for any condition."""
        try:
            await asyncio.wait_for(event.wait(), PATIENCE)
        except TimeoutError:
            raise AssertionError("the event that the test waits for was never set") from None

    async def row(self, run: Run[Any] | str) -> RunRow:
        """The run's row."""
        row = await self.store.get(run if isinstance(run, str) else run.id)
        assert row is not None
        return row

    async def until_status(self, run: Run[Any] | str, status: Status | str) -> RunRow:
        """Waits until the run has that status."""

        async def reached() -> bool:
            row = await self.store.get(run if isinstance(run, str) else run.id)
            return row is not None and row.status == status

        try:
            await self.until(reached)
        except AssertionError:
            raise AssertionError(f"{run} never became {status}: {await self.store.get(str(run))}") from None
        return await self.row(run)

    async def until_parked(self, run: Run[Any] | str) -> RunRow:
        """Waits until the run has begun and no worker holds it."""

        async def parked() -> bool:
            row = await self.store.get(run if isinstance(run, str) else run.id)
            return row is not None and row.status is Status.RUNNING and not row.instance

        await self.until(parked, f"{run} parked")
        return await self.row(run)

    async def until_waiting(self, run: Run[Any], text: str) -> str:
        """Waits until what the run says it is doing contains that text."""

        async def says() -> bool:
            return text in (await run.view()).waiting

        try:
            await self.until(says)
        except AssertionError:
            raise AssertionError(f"{run} never said {text!r}, but {(await run.view()).waiting!r}") from None
        return (await run.view()).waiting

    async def beat(self, worker: Worker) -> None:
        """One heartbeat of that worker, now: renews its lease, frees the runs of workers that are gone."""
        heart = self.store.heart(worker.options.instance, worker.options.ttl)
        try:
            recovery = encode_recovery(worker.recovery)
            await asyncio.to_thread(heart.beat, worker.surroundings.progress(), recovery=recovery)
        finally:
            heart.close()
        worker.work_hinted.set()


async def stop(worker: Worker) -> None:
    """Stops it gracefully. One that does not come to its end fails the test, which would wait for it forever."""
    try:
        async with asyncio.timeout(PATIENCE):
            await worker.stop()
    except TimeoutError:
        held = ", ".join(worker.engine.sessions) or "no run"
        raise AssertionError(f"worker {worker.options.id} never stopped; it holds {held}") from None


async def crash(worker: Worker) -> None:
    """Ends a worker as a power cut would: nothing more is committed, nothing is released."""
    worker.is_stopping = worker.is_stopped = True
    worker._unsubscribe()  # a test may look inside: nothing public ends a worker this way
    for task in worker._tasks:
        task.cancel()
    await asyncio.gather(*worker._tasks, return_exceptions=True)
    engine = worker.engine
    committing = [task for task in (engine.committer._task, *engine.committer._aside) if task is not None]
    for task in committing:
        task.cancel()
    await asyncio.gather(*committing, return_exceptions=True)
    for session in list(engine.sessions.values()):
        session.machine.state = State.GONE
    if worker._watchdog is not None:
        worker._watchdog.stop()
    if worker._heartbeat is not None:
        await asyncio.to_thread(worker._heartbeat.stop)
    await engine.bodies.close()
    for session in list(engine.sessions.values()):
        session.program.close()
    for kept in engine.warm.values():
        kept.program.close()
    engine.wheel.close()
    engine.suspects.close()
    for task in list(engine._tasks):
        task.cancel()
    engine.sessions.clear()
    engine.warm._kept.clear()


def forget_programs(worker: Worker) -> None:
    """Empties the park cache, so that the next resume replays the journal."""
    for kept in worker.engine.warm.values():
        kept.program.close()
    worker.engine.warm._kept.clear()


async def collected(stream: AsyncIterator[T], what: str) -> list[T]:
    """All that it yields until its end, which must come."""
    found: list[T] = []
    try:
        async with asyncio.timeout(PATIENCE):
            async for each in stream:
                found.append(each)  # noqa: PERF401 the error shows what came
    except TimeoutError:
        raise AssertionError(f"{what} never end; so far: {found}") from None
    return found


async def events(run: Run[Any]) -> list[JournalEvent]:
    """Every fact of the run's journal so far; for runs that have ended."""
    return await collected(run.follow(), f"the facts of {run}")


async def types(run: Run[Any]) -> list[str]:
    """The types of its facts, in order."""
    return [event.type for event in await events(run)]


@asynccontextmanager
async def open_world(kind: Kind, folder: Path, *, virtual: bool, start: datetime = START) -> AsyncIterator[World]:
    """A world in that folder, fresh unless a store is there; virtual time begins with `start`. The store is closed at
    the end."""
    clock = VirtualClock(start) if virtual else None
    path = folder / "store.db"
    store: Store
    match kind:
        case "memory":
            store = MemoryStore(clock)
        case "sqlite":
            store = await open_copy(path, clock)
        case "postgres":
            store = await open_postgres(clean_url(), clock=clock)
    try:
        with patch.object(Worker, "heartbeat", BeatingWhenTold if virtual else Heartbeat):
            yield World(kind, store, path, clock)
    finally:
        await store.close()


async def _truth(value: bool | Awaitable[bool]) -> bool:
    return bool(await value) if inspect.isawaitable(value) else bool(value)


def seconds(count: float) -> timedelta:
    """Shorter to read."""
    return timedelta(seconds=count)
