"""Holdfast for plain `def` code: Flask, Django, scripts.

The same names as `holdfast`, blocking instead of awaited. Steps, workflows, policies and errors are the same objects.
Nothing is implemented twice: outside a run each call goes to one event loop in a background thread; inside a `def`
workflow each verb passes its awaitable to the run's own loop (`authoring.script.bridge`).
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import ModuleType
from typing import Any, Concatenate, Generic, Literal, Self, TypeVar, overload

from msgspec import UNSET, UnsetType

from holdfast.adapters.system.forked import leak
from holdfast.app import App as AsyncApp
from holdfast.authoring.batch.blocking_batch import batch
from holdfast.authoring.handle import JournalEvent, Part, RunView
from holdfast.authoring.handle import Run as AsyncRun
from holdfast.authoring.hook import Hook
from holdfast.authoring.limit import Limit
from holdfast.authoring.queue import Queue
from holdfast.authoring.schedule import Schedule
from holdfast.authoring.script.ask import Ask
from holdfast.authoring.script.blocking_verbs import each, gather, get_blob, put_blob, saga, sleep, wait
from holdfast.authoring.script.channels import Channel, RunVar
from holdfast.authoring.script.channels import SyncSignal as Signal
from holdfast.authoring.script.channels import SyncTopic as Topic
from holdfast.authoring.script.children import start
from holdfast.authoring.script.receipts import SyncReceipt as Receipt
from holdfast.authoring.script.resources import Resource, resource
from holdfast.authoring.script.steps import AnyStep, step
from holdfast.authoring.script.stream import Sent
from holdfast.authoring.script.stream import SyncStream as Stream
from holdfast.authoring.script.update import SyncUpdate as Update
from holdfast.authoring.script.verbs import (
    continue_as,
    current,
    heartbeat,
    log,
    now,
    patched,
    rng,
    set_attributes,
    transaction,
    uuid4,
)
from holdfast.authoring.script.workflows import AnyWorkflow, Call, checked_call, remote, workflow
from holdfast.client.blocking_batches import Batch, BlockingQuestions, BlockingQueues, Portal, ScheduleActs, iterate
from holdfast.client.blocking_connection import blocking_connection
from holdfast.client.blocking_talk import RunTalk
from holdfast.client.borrowed_transaction import borrow, settle
from holdfast.client.loop_thread import LoopThread
from holdfast.client.schedules import ScheduleView
from holdfast.client.start_options import IfExists
from holdfast.core.durations import Duration
from holdfast.core.manifest import Manifest
from holdfast.core.retry import Retry
from holdfast.core.status import Status
from holdfast.ports.transactions import holding

__all__ = [
    "App",
    "Ask",
    "Batch",
    "Hook",
    "Limit",
    "Receipt",
    "Retry",
    "Run",
    "RunVar",
    "Schedule",
    "ScheduleHandle",
    "Signal",
    "Stream",
    "Topic",
    "Update",
    "batch",
    "continue_as",
    "current",
    "each",
    "gather",
    "get_blob",
    "heartbeat",
    "log",
    "now",
    "patched",
    "put_blob",
    "remote",
    "resource",
    "rng",
    "saga",
    "set_attributes",
    "sleep",
    "start",
    "step",
    "transaction",
    "uuid4",
    "wait",
    "workflow",
]

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class Run(RunTalk[R_co]):
    """A handle on one run, blocking."""

    def __init__(self, run: AsyncRun[R_co], portal: Portal) -> None:
        self._run = run
        self._portal = portal
        self._call = portal.call
        self.id: str = run.id

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    def result(self, timeout: Duration | None = None) -> R_co:
        """Waits for the end and returns the result, or raises the error the run ended with."""
        return self._call(self._run.result(timeout))

    def wait(self, timeout: Duration | None = None) -> Status | None:
        """Waits for the end and returns how the run ended; None if the time runs out first."""
        return self._call(self._run.wait(timeout))

    def status(self) -> Status:
        """The run's status."""
        return self._call(self._run.status())

    def view(self) -> RunView:
        """The run's row: status, times, attributes, what it is doing."""
        return self._call(self._run.view())

    def cancel(self, reason: str = "") -> None:
        """Cancels the run: its code gets `CancelledError` and may clean up."""
        self._call(self._run.cancel(reason))

    def kill(self, reason: str = "") -> None:
        """Ends the run at once: none of its code runs, nothing is undone."""
        self._call(self._run.kill(reason))

    def delete(self) -> int:
        """Deletes the ended run with its whole tree. Returns how many runs were deleted."""
        return self._call(self._run.delete())

    def pause(self, reason: str = "") -> None:
        """Pauses the run until it is resumed."""
        self._call(self._run.pause(reason))

    def resume(self) -> None:
        """Resumes a paused run."""
        self._call(self._run.resume())

    def retry(self, *, id: str | None = None) -> Run[R_co]:
        """Starts a new run that takes over what this one has completed."""
        return Run(self._call(self._run.retry(id=id)), self._portal)

    def follow(self, *, after: int | JournalEvent = 0) -> Iterator[JournalEvent]:
        """The journal, live, until the run ends. `after` is the event last seen, or the `seq` of a whole turn."""
        return iterate(self._run.follow(after=after), self._call)

    def read(
        self, stream: Sent[T], *, after: int | Part[Any] | None = None, only: Literal["completed"] | None = None
    ) -> Iterator[Part[T]]:
        """The parts of a stream, live and in order, until the run ends; see `holdfast.Run.read`."""
        return iterate(self._run.read(stream, after=after, only=only), self._call)


class ScheduleHandle(ScheduleActs, Generic[R_co]):
    """A handle on a schedule, blocking."""

    def trigger(self, *, id: str | None = None) -> Run[R_co]:
        """Starts a run now, besides the timetable. The same `id` starts one run."""
        return Run(self._call(self._schedule.trigger(id=id)), self._portal)


class App(BlockingQuestions, BlockingQueues):
    """`holdfast.App`, blocking. Wraps an existing app, or creates one.

    A forked child has its own background thread, and opens the store again or says why it cannot."""

    def __init__(
        self,
        app: AsyncApp | str | None = None,
        *,
        workflows: Iterable[AnyWorkflow[..., Any] | AnyStep[..., Any] | ModuleType | str] = (),
        resources: Iterable[Resource[Any]] = (),
        hooks: Iterable[Hook] = (),
        schedules: Iterable[Schedule[Any]] = (),
        queues: Iterable[Queue] = (),
        step_retry: Retry | None = None,
        step_limit: int | None = 1000,
        cancel_grace: Duration = "5m",
        keep: Duration | UnsetType | None = UNSET,
        snapshot_every: int | UnsetType = UNSET,
        compact_after: int | UnsetType | None = UNSET,
        blobs: str | None = None,
    ) -> None:
        self.app: AsyncApp = app if isinstance(app, AsyncApp) else AsyncApp(
            app, workflows=workflows, resources=resources, hooks=hooks, schedules=schedules, queues=queues,
            step_retry=step_retry, step_limit=step_limit, cancel_grace=cancel_grace, keep=keep,
            snapshot_every=snapshot_every, compact_after=compact_after, blobs=blobs,
        )  # fmt: skip
        self._portal = LoopThread()

    def __repr__(self) -> str:
        return f"<sync {self.app!r}>"

    def _asked(self) -> tuple[AsyncApp, Portal]:
        return self.app, self._portal

    _asked_of_queues = _asked

    def __enter__(self) -> Self:
        self._portal.call(self.app.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._portal.call(self.app.__aexit__())
        if not self.app.is_open:  # a worker may still be at work
            self._portal.close()

    def close(self) -> None:
        """Closes the store and ends the background thread."""
        self._portal.call(self.app.close())
        self._portal.close()

    @contextmanager
    def worker(
        self,
        *,
        id: str | None = None,
        concurrency: int = 100,
        queues: tuple[str, ...] | list[str] | None = None,
        ttl: Duration | None = None,
        poll: Duration | None = None,
        grace: Duration = "30s",
    ) -> Generator[None]:
        """`with app.worker():` — a worker in this process, for as long as the block lasts."""
        inner = self.app.worker(id=id, concurrency=concurrency, queues=queues, ttl=ttl, poll=poll, grace=grace)
        pid = os.getpid()
        self._portal.call(_enter(inner))
        try:
            yield
        finally:
            if os.getpid() == pid:
                self._portal.call(_exit(inner))
            else:  # a forked child leaves the block: the worker is the parent's
                leak(inner)

    def run(self, call: Call[R], *, id: str | None = None, timeout: Duration | None = None) -> R:
        """Starts the call with its own worker and returns its result. Same id and input: same result."""
        if self.app.is_open:  # on the loop that has it open: what is open belongs to one loop
            return self._portal.call(self.app.run_here(call, id=id, timeout=timeout))
        return self.app.run(call, id=id, timeout=timeout)

    def start(
        self,
        call: Call[R],
        *,
        id: str | None = None,
        key: str | None = None,
        delay: Duration | None = None,
        deadline: Duration | datetime | None = None,
        queue: str = "default",
        priority: int = 0,
        attributes: Mapping[str, str] | None = None,
        connection: object | None = None,
        if_exists: IfExists | None = None,
        unique: str | None = None,
        share: str | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        signal: tuple[Channel[T], T] | tuple[Channel[T], T, str] | None = None,
    ) -> Run[R]:
        """Starts a run; it is durable when this returns. Everything is as for `holdfast.App.start`."""
        checked_call(call, "app.start")
        made = self.app.start(
            call, id=id, key=key, delay=delay, deadline=deadline, queue=queue, priority=priority,
            attributes=attributes, connection=blocking_connection(connection), if_exists=if_exists, unique=unique,
            share=share, debounce=debounce, max_wait=max_wait, signal=signal,
        )  # fmt: skip
        return Run(self._portal.call(made), self._portal)

    def wake(self) -> None:
        """Makes workers look at once for what was started with `connection=` and is committed by now."""
        self.app.wake()

    def start_batch(
        self,
        workflow: AnyWorkflow[Concatenate[T, ...], R] | AnyStep[Concatenate[T, ...], R],
        inputs: Iterable[T | Call[R]],
        *,
        concurrency: int = 10,
        order: Literal["depth", "breadth"] = "depth",
        id: str | None = None,
        key: str | None = None,
        delay: Duration | None = None,
        deadline: Duration | datetime | None = None,
        queue: str = "default",
        priority: int = 0,
        attributes: Mapping[str, str] | None = None,
        if_exists: IfExists | None = None,
        share: str | None = None,
    ) -> Batch[R]:
        """Starts one run of N items: the workflow once for each input, at most `concurrency` at a time."""
        made = self.app.start_batch(
            workflow, inputs, concurrency=concurrency, order=order, id=id, key=key, delay=delay, deadline=deadline,
            queue=queue, priority=priority, attributes=attributes, if_exists=if_exists, share=share,
        )  # fmt: skip
        return Batch(self._portal.call(made), self._portal)

    def collect(
        self, workflow: AnyWorkflow[..., R], item: object, *, into: str, within: Duration = "1s", most: int = 100,
        queue: str = "default", unique: str | None = None,
    ) -> Run[R]:  # fmt: skip
        """Gives the item to one run of the workflow together with those of other calls: see `holdfast.App.collect`."""
        given = self.app.collect(workflow, item, into=into, within=within, most=most, queue=queue, unique=unique)
        return Run(self._portal.call(given), self._portal)

    @overload
    def batch(self, id: str) -> Batch[Any]: ...
    @overload
    def batch(self, id: str, workflow: AnyWorkflow[..., R] | AnyStep[..., R]) -> Batch[R]: ...
    def batch(self, id: str, workflow: AnyWorkflow[..., Any] | AnyStep[..., Any] | None = None) -> Batch[Any]:
        """The batch with that id. Raises `RunNotFound` if there is none."""
        got = self.app.batch(id) if workflow is None else self.app.batch(id, workflow)
        return Batch(self._portal.call(got), self._portal)

    @contextmanager
    def connection(self) -> Generator[Any]:
        """`with app.connection() as connection:` — a transaction in the database of the journal, for your tables.

        As that of `holdfast.App`; on PostgreSQL it is a `psycopg.Connection`.
        """
        store = self._portal.call(self.app.client()).store
        transaction = self._portal.call(borrow(store, is_async=False))
        holding.set(transaction)
        try:
            yield transaction.connection
        except BaseException:
            self._portal.call(transaction.roll_back())
            raise
        self._portal.call(settle(transaction))

    @overload
    def get(self, id: str) -> Run[Any]: ...
    @overload
    def get(self, id: str, workflow: AnyWorkflow[..., R]) -> Run[R]: ...
    def get(self, id: str, workflow: AnyWorkflow[..., Any] | None = None) -> Run[Any]:
        """The run with that id. Raises `RunNotFound` if there is none."""
        got = self.app.get(id) if workflow is None else self.app.get(id, workflow)
        return Run(self._portal.call(got), self._portal)

    def schedule(self, schedule: Schedule[R]) -> ScheduleHandle[R]:
        """Creates a schedule, or changes the one of that name; durable when this returns."""
        return ScheduleHandle(self._portal.call(self.app.schedule(schedule)), self._portal)

    def schedules(self) -> Iterator[ScheduleView]:
        """Every schedule of the store, by name."""
        return iterate(self.app.schedules(), self._portal.call)

    @overload
    def get_schedule(self, name: str) -> ScheduleHandle[Any]: ...
    @overload
    def get_schedule(self, name: str, workflow: AnyWorkflow[..., R]) -> ScheduleHandle[R]: ...
    def get_schedule(self, name: str, workflow: AnyWorkflow[..., Any] | None = None) -> ScheduleHandle[Any]:
        """The schedule of that name. Raises `ScheduleNotFound` if there is none."""
        got = self.app.get_schedule(name) if workflow is None else self.app.get_schedule(name, workflow)
        return ScheduleHandle(self._portal.call(got), self._portal)

    def publish(self, topic: Channel[T], value: T, *, id: str | None = None) -> list[str]:
        """Sends to every run waiting on the topic now; returns the ids of those it woke. The same value with the same
        `id` counts once for each wait; another value under the id of a message that a run still waits with raises
        `Conflict`."""
        return self._portal.call(self.app.publish(topic, value, id=id))

    def waiting(self, topic: Channel[Any]) -> list[str]:
        """Ids of the runs waiting on the topic now."""
        return self._portal.call(self.app.waiting(topic))

    def manifest(self, *, observe: int = 20) -> Manifest:
        """What this app can run, as typed values."""
        return self._portal.call(self.app.manifest(observe=observe))


async def _enter(context: Any) -> Any:
    return await context.__aenter__()


async def _exit(context: Any) -> None:
    await context.__aexit__(None, None, None)
