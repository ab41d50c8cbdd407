"""The verbs of an app about batches, schedules and queues. What they need is imported when used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, Literal, TypeVar, overload

from holdfast.authoring.handle import Run
from holdfast.authoring.schedule import Schedule
from holdfast.authoring.script.steps import AnyStep
from holdfast.authoring.script.workflows import AnyWorkflow, Call
from holdfast.client.start_options import IfExists, StartOptions
from holdfast.core.durations import Duration

if TYPE_CHECKING:
    from holdfast.client.batches import Batch
    from holdfast.client.client import Client
    from holdfast.client.queues import QueueView
    from holdfast.client.schedules import ScheduleHandle, ScheduleView

R = TypeVar("R")
T = TypeVar("T")


class BatchVerbs(ABC):
    """The part of an app that is about batches."""

    @abstractmethod
    async def client(self) -> Client:
        """The client of its store."""

    async def start_batch(
        self,
        workflow: AnyWorkflow[Concatenate[T, ...], R] | AnyStep[Concatenate[T, ...], R],
        inputs: Iterable[T | Call[R]] | AsyncIterable[T | Call[R]],
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
        """Starts one run of N items: the workflow or step once for each input, at most `concurrency` at a time.

        Inputs are read one by one, checked, and stored in chunks, so there may be very many. If one is invalid,
        `InvalidItem` is raised and nothing starts. If an item takes several arguments, pass calls of the workflow.
        Items are finished one after the other; with `order="breadth"` every item runs its first step before any runs
        its second, in groups of 500. The same id returns the existing batch; different inputs raise `Conflict`.
        `deadline` applies to the whole batch; the rest is as for `start`.
        """
        from holdfast.client.batches import start_batch

        how = StartOptions(
            id=id,
            key=key,
            delay=delay,
            deadline=deadline,
            queue=queue,
            priority=priority,
            attributes=attributes,
            if_exists=if_exists,
            share=share,
        )
        return await start_batch(await self.client(), workflow, inputs, concurrency=concurrency, order=order, how=how)

    @overload
    async def batch(self, id: str) -> Batch[Any]: ...
    @overload
    async def batch(self, id: str, workflow: AnyWorkflow[..., R] | AnyStep[..., R]) -> Batch[R]: ...
    async def batch(self, id: str, workflow: AnyWorkflow[..., Any] | AnyStep[..., Any] | None = None) -> Batch[Any]:
        """The batch with that id. Raises `RunNotFound` if there is none."""
        from holdfast.client.batches import get_batch

        return await get_batch(await self.client(), id, workflow)


class CollectVerbs(ABC):
    """The part of an app that makes one run of many calls."""

    @abstractmethod
    async def client(self) -> Client:
        """The client of its store."""

    async def collect(
        self,
        workflow: AnyWorkflow[..., R],
        item: object,
        *,
        into: str,
        within: Duration = "1s",
        most: int = 100,
        queue: str = "default",
        unique: str | None = None,
    ) -> Run[R]:
        """Gives the item to one run of the workflow together with those of other calls: its argument `into` is a list
        of them, in the order of the calls; its other arguments have their defaults. Durable when this returns.

        The run begins `within` this time after its first item, or as soon as it has `most` (at most 10,000); the next
        call makes another. Calls with a different queue or `unique` value become different runs. An item is at
        most 128 KB as JSON. All callers whose items one run takes get that run.
        """
        client = await self.client()
        return await client.collect(workflow, item, into=into, within=within, most=most, queue=queue, unique=unique)


class ScheduleVerbs(ABC):
    """The part of an app that is about schedules."""

    @abstractmethod
    async def client(self) -> Client:
        """The client of its store."""

    async def schedule(self, schedule: Schedule[R]) -> ScheduleHandle[R]:
        """Creates a schedule, or changes the one of that name; durable when this returns. It applies until a worker
        declares a newer definition of that name. With the same timetable, missed slots are still started; a new
        timetable begins now.
        """
        from holdfast.client.schedules import make

        return await make(await self.client(), schedule)

    async def schedules(self) -> AsyncIterator[ScheduleView]:
        """Every schedule of the store, by name."""
        from holdfast.client.schedules import views

        async for view in views(await self.client()):
            yield view

    @overload
    async def get_schedule(self, name: str) -> ScheduleHandle[Any]: ...
    @overload
    async def get_schedule(self, name: str, workflow: AnyWorkflow[..., R]) -> ScheduleHandle[R]: ...
    async def get_schedule(self, name: str, workflow: AnyWorkflow[..., Any] | None = None) -> ScheduleHandle[Any]:
        """The schedule of that name. Raises `ScheduleNotFound` if there is none, `Conflict` if it belongs to another
        workflow."""
        from holdfast.client.schedules import get

        return await get(await self.client(), name, workflow)


class QueueVerbs(ABC):
    """The part of an app that is about queues."""

    @abstractmethod
    async def client(self) -> Client:
        """The client of its store."""

    async def queues(self) -> list[QueueView]:
        """Every queue that has rules, runs or workers, by name."""
        from holdfast.client.queues import queue_views

        return await queue_views(await self.client())

    async def pause_queue(self, name: str, reason: str = "") -> None:
        """Pauses the queue: none of its runs begins until it is resumed. Runs that have begun continue."""
        from holdfast.client.queues import pause_queue

        await pause_queue(await self.client(), name, reason)

    async def resume_queue(self, name: str) -> None:
        """Resumes the queue."""
        from holdfast.client.queues import resume_queue

        await resume_queue(await self.client(), name)
