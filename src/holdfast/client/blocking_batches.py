"""Batches, schedules, queues and questions for plain `def` code: each call runs on an event loop while the caller
waits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from holdfast.authoring.batch.batch_plan import Counts
from holdfast.authoring.handle import RunView
from holdfast.client.questions import counted_runs, found_runs
from holdfast.client.selection import Order, Selection, Statuses
from holdfast.core.durations import Duration
from holdfast.core.status import Status

if TYPE_CHECKING:
    from holdfast.client import batches, schedules
    from holdfast.client.app_verbs import QueueVerbs
    from holdfast.client.items import Item
    from holdfast.client.questions import Questions
    from holdfast.client.queues import QueueView
    from holdfast.client.schedules import ScheduleView, Slot

R = TypeVar("R")
T = TypeVar("T")


class Portal(Protocol):
    """A way from plain code to an event loop."""

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it on that loop and waits for the result."""
        ...


class Batch(Generic[R]):
    """A handle on a batch, blocking."""

    def __init__(self, batch: batches.Batch[R], portal: Portal) -> None:
        self._batch = batch
        self._portal = portal
        self._call = portal.call
        self.id: str = batch.id
        self.workflow: str = batch.workflow

    def __repr__(self) -> str:
        return repr(self._batch)

    def status(self) -> Status:
        """The status of the whole batch."""
        return self._call(self._batch.status())

    def counts(self) -> Counts:
        """How many items are completed, failed, cancelled, running and pending."""
        return self._call(self._batch.counts())

    def wait(self, timeout: Duration | None = None) -> Status | None:
        """Waits for the end of the batch and returns how it ended; None if the time runs out first."""
        return self._call(self._batch.wait(timeout))

    def result(self, timeout: Duration | None = None) -> Counts:
        """Waits for the end and returns the counts, or raises the error it ended with."""
        return self._call(self._batch.result(timeout))

    def items(self, *, order: Literal["index", "completion"] = "index") -> Iterator[Item[R]]:
        """Every item once, as soon as it has ended, until all have: by index, or in the order in which they ended."""
        return iterate(self._batch.items(order=order), self._call)

    def item(self, index: int) -> Item[R]:
        """One item as it is now."""
        return self._call(self._batch.item(index))

    def cancel(self, reason: str = "") -> None:
        """Stops the rest: running items are cancelled, others never start."""
        self._call(self._batch.cancel(reason))

    def pause(self, reason: str = "") -> None:
        """Starts no further items until it is resumed."""
        self._call(self._batch.pause(reason))

    def resume(self) -> None:
        """Resumes a paused batch."""
        self._call(self._batch.resume())

    def retry(self, *, id: str | None = None, concurrency: int | None = None) -> Batch[R]:
        """Starts a new batch of the items that did not complete."""
        return Batch(self._call(self._batch.retry(id=id, concurrency=concurrency)), self._portal)


class ScheduleActs:
    """A handle on a schedule, blocking. Starting runs is left to the handle that knows blocking runs."""

    def __init__(self, schedule: schedules.ScheduleHandle[Any], portal: Portal) -> None:
        self._schedule = schedule
        self._portal = portal
        self._call = portal.call
        self.name: str = schedule.name

    def __repr__(self) -> str:
        return repr(self._schedule)

    def view(self) -> ScheduleView:
        """The schedule as it is now."""
        return self._call(self._schedule.view())

    def pause(self, reason: str = "") -> None:
        """Takes no slot until it is resumed. Open runs continue."""
        self._call(self._schedule.pause(reason))

    def resume(self) -> None:
        """Takes slots again, from now on. Slots of the pause are not started."""
        self._call(self._schedule.resume())

    def remove(self) -> None:
        """Removes the schedule; its runs stay."""
        self._call(self._schedule.remove())

    def backfill(self, since: datetime, until: datetime, *, most: int = 100) -> Iterator[Slot]:
        """Starts the slots of a range as if they were due now, and returns the outcome of each."""
        return iterate(self._schedule.backfill(since, until, most=most), self._call)


def iterate(items: AsyncIterator[T], call: Callable[[Coroutine[Any, Any, T]], T]) -> Iterator[T]:
    """Plain iteration: waits for each item here."""
    while True:
        try:
            yield call(_next(items))
        except StopAsyncIteration:
            return


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


class BlockingQuestions:
    """The questions about runs of a blocking app."""

    def _asked(self) -> tuple[Questions, Portal]:
        """The client to ask, and the portal to it."""
        raise NotImplementedError

    def runs(
        self,
        *,
        workflow: str | None = None,
        version: str | None = None,
        status: Statuses | None = None,
        queue: str | None = None,
        parent: str | None = None,
        root: str | None = None,
        key: str | None = None,
        attributes: Mapping[str, str] | None = None,
        since: Duration | datetime | None = None,
        until: Duration | datetime | None = None,
        error: str = "",
        order: Order = "-created",
        limit: int | None = None,
    ) -> Iterator[RunView]:
        """Runs, newest first; `order="created"`: oldest first.

        `status` is one or a list. `root` means a run and all its descendants. `since` and `until` are about when a run
        was made: an aware datetime, or a duration back from now, as in `since="7d"`. `error` means failed runs whose
        error contains that text, in any case. No index has errors, so it looks at all failed runs that the rest of the
        filter lets through, in pages.
        """
        app, portal = self._asked()
        which = Selection(
            workflow=workflow,
            version=version,
            status=status,
            queue=queue,
            parent=parent,
            root=root,
            key=key,
            attributes=attributes,
            since=since,
            until=until,
            order=order,
        )
        return iterate(found_runs(app, which, limit, error), portal.call)

    def count(
        self,
        *,
        by: Literal["status"] = "status",
        workflow: str | None = None,
        version: str | None = None,
        status: Statuses | None = None,
        queue: str | None = None,
        parent: str | None = None,
        root: str | None = None,
        attributes: Mapping[str, str] | None = None,
        since: Duration | datetime | None = None,
        until: Duration | datetime | None = None,
        at_most: int = 10_000,
    ) -> dict[Status, int]:
        """The number of runs of each status among those that `runs` would list. Each number stops at `at_most`: a store
        with millions of runs answers at once."""
        app, portal = self._asked()
        which = Selection(
            workflow=workflow,
            version=version,
            status=status,
            queue=queue,
            parent=parent,
            root=root,
            attributes=attributes,
            since=since,
            until=until,
        )
        return portal.call(counted_runs(app, which, by, at_most))


class BlockingQueues:
    """The verbs about queues of a blocking app."""

    def _asked_of_queues(self) -> tuple[QueueVerbs, Portal]:
        """The client to ask, and the portal to it."""
        raise NotImplementedError

    def queues(self) -> list[QueueView]:
        """Every queue that has rules, runs or workers, by name."""
        app, portal = self._asked_of_queues()
        return portal.call(app.queues())

    def pause_queue(self, name: str, reason: str = "") -> None:
        """Pauses the queue: none of its runs begins until it is resumed. Runs that have begun continue."""
        app, portal = self._asked_of_queues()
        portal.call(app.pause_queue(name, reason))

    def resume_queue(self, name: str) -> None:
        """Resumes the queue."""
        app, portal = self._asked_of_queues()
        portal.call(app.resume_queue(name))
