"""Questions about the runs of a store, as an app asks them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from holdfast.authoring.handle import RunView
from holdfast.client.selection import Order, Selection, Statuses
from holdfast.core.durations import Duration
from holdfast.core.status import Status

if TYPE_CHECKING:
    from holdfast.client.client import Client


class Questions:
    """The questions about runs that an app answers. Every answer uses an index of the store."""

    async def client(self) -> Client:
        """The client that asks."""
        raise NotImplementedError

    async def runs(
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
    ) -> AsyncIterator[RunView]:
        """Runs, newest first; `order="created"`: oldest first.

        `status` is one or a list. `root` means a run and all its descendants. `since` and `until` are about when a run
        was made: an aware datetime, or a duration back from now, as in `since="7d"`. `error` means failed runs whose
        error contains that text, in any case. No index has errors, so it looks at all failed runs that the rest of the
        filter lets through, in pages.
        """
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
        async for view in found_runs(self, which, limit, error):
            yield view

    async def count(
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
        return await counted_runs(self, which, by, at_most)


async def found_runs(app: Questions, which: Selection, limit: int | None, error: str) -> AsyncIterator[RunView]:
    """See `Questions.runs`."""
    client = await app.client()
    async for view in client.runs(which.filter(client.store.clock.now()), limit=limit, error=error):
        yield view


async def counted_runs(app: Questions, which: Selection, by: str, at_most: int) -> dict[Status, int]:
    """See `Questions.count`."""
    client = await app.client()
    return await client.count(which.filter(client.store.clock.now()), by=by, at_most=at_most)
