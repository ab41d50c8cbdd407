"""What step bodies may ask of their worker: resources, blobs, and a place for their progress."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.authoring.script.context import StepScope
from holdfast.authoring.script.open_resources import OpenResources
from holdfast.authoring.script.resources import Health, Resource
from holdfast.engine.outlets import Outlet, Outlets
from holdfast.errors import RunNotFound
from holdfast.ports.store import Store
from holdfast.ports.telemetry import Telemetry
from holdfast.ports.transactions import OpenTransaction
from holdfast.turn.source import read_ends

T = TypeVar("T")


class WorkerSurroundings:
    """The surroundings of all bodies of one worker."""

    def __init__(self, store: Store, telemetry: Telemetry, replaced: dict[int, Any] | None = None) -> None:
        self._store = store
        self.outlets: Outlets = Outlets(store, telemetry)
        self._resources = OpenResources(replaced)
        self.notes: dict[tuple[str, str], bytes] = {}  # the noted progress of steps, by run and key
        self._loop: asyncio.AbstractEventLoop | None = None
        self._making = threading.Lock()

    async def open(self, resources: Iterable[Resource[Any]]) -> None:
        """Opens resources in order; replaced ones stay replaced."""
        self._loop = asyncio.get_running_loop()
        self.outlets.begin()
        await self._resources.open(resources)

    def replace(self, resource: Resource[T], value: T) -> None:
        """Gives bodies this value from now on. What was opened stays open until the end."""
        self._resources.replace(resource, value)

    async def close(self) -> None:
        """Closes the resources in reverse, each regardless of the others. Raises the first error at the end."""
        errors = await self._resources.close()
        if errors:
            raise errors[0]

    def resource(self, of: object) -> Any:
        return self._resources.get(of)

    async def health(self) -> dict[str, Health]:
        """The health of the open resources."""
        return await self._resources.health()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs an awaitable on the worker's event loop, in this context, while the thread of a sync body waits."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def transact(self, *, is_async: bool) -> OpenTransaction:
        """Begins a transaction in the database of the journal."""
        return await self._store.transact(is_async=is_async)

    async def put_blob(self, data: bytes) -> str:
        return await self._store.put_blob(data, kind="user")

    async def get_blob(self, name: str) -> bytes:
        return await self._store.get_blob(name)

    async def results(self, runs: Sequence[str]) -> list[bytes]:
        """The results of runs that have completed."""
        rows = await asyncio.gather(*(self._store.get(run) for run in runs))
        ends = await read_ends(self._store, [row for row in rows if row is not None])
        for run in runs:
            if run not in ends or ends[run].status != "completed":
                raise RunNotFound(f"run {run} has no result: it has not completed, or it was deleted")
        return [bytes(ends[run].value) for run in runs]

    def heartbeat(self, run: str, key: str, progress: bytes) -> None:
        """Notes the progress of a step, sent with the worker's next heartbeat."""
        self.notes[run, key] = progress

    def noted(self, run: str, key: str) -> bytes | None:
        """The noted progress of a step."""
        return self.notes.get((run, key))

    def take_progress(self, run: str, key: str) -> bytes | None:
        """The progress of a step when its attempt ended."""
        return self.notes.pop((run, key), None)

    def send_part(self, scope: StepScope, name: str, data: bytes) -> None:
        """Buffers a part. The outlet of an attempt is made with its first part."""
        self.outlets.send(self._outlet(scope), name, data)

    async def flush_parts(self, scope: StepScope) -> None:
        """Waits until what it sent is durable."""
        await self.outlets.flush(self._outlet(scope))

    def _outlet(self, scope: StepScope) -> Outlet:
        if scope.outlet is None:
            with self._making:
                if scope.outlet is None:
                    scope.outlet = Outlet(scope.no, scope.run, scope.epoch, scope.key, scope.attempt)
        outlet: Outlet = scope.outlet
        return outlet

    def progress(self) -> str:
        """All noted progress, in the form of a worker's row."""
        if not self.notes:
            return ""
        noted = [[run, key, msgspec.Raw(value)] for (run, key), value in list(self.notes.items())]
        return msgspec.json.encode(noted).decode()


def progress_by_run(texts: Iterable[str]) -> dict[str, dict[str, bytes]]:
    """The progress in the rows of workers, by run and key."""
    found: dict[str, dict[str, bytes]] = {}
    for text in texts:
        for run, key, value in msgspec.json.decode(text, type=list[tuple[str, str, msgspec.Raw]]) if text else ():
            found.setdefault(run, {})[key] = bytes(value)
    return found
