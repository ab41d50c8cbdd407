"""What step bodies may ask of their worker: resources, blobs, and a place to leave their progress."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable
from typing import Any, TypeVar, cast

import msgspec

from holdfast.authoring.script.resources import Resource
from holdfast.errors import HoldfastError, NotAllowedHere
from holdfast.ports.blobs import Blobs

T = TypeVar("T")


class WorkerSurroundings:
    """The surroundings of all bodies of one worker."""

    def __init__(self, blobs: Blobs, replaced: dict[int, Any] | None = None) -> None:
        self._blobs = blobs
        self._opened: dict[int, Any] = dict(replaced or {})
        self._generators: list[Any] = []
        self._progress: dict[tuple[str, str], bytes] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self, resources: Iterable[Resource[Any]]) -> None:
        """Opens resources, in order; what was replaced stays replaced."""
        self._loop = asyncio.get_running_loop()
        for one in resources:
            if id(one) in self._opened:
                continue
            generator: Any = one.function()
            try:
                if inspect.isasyncgen(generator):
                    value = await cast("AsyncGenerator[Any, None]", generator).__anext__()
                else:
                    value = next(cast("Generator[Any, None, None]", generator))
            except (StopIteration, StopAsyncIteration):
                raise HoldfastError(f"resource {one.name} did not yield anything") from None
            self._generators.append(generator)
            self._opened[id(one)] = value

    def replace(self, resource: Resource[T], value: T) -> None:
        """Bodies get this value from now on. What was opened stays open until the end."""
        self._opened[id(resource)] = value

    async def close(self) -> None:
        """Closes them in reverse, each whatever the others do; raises the first error at the end."""
        errors: list[BaseException] = []
        while self._generators:
            generator = self._generators.pop()
            try:
                if inspect.isasyncgen(generator):
                    await generator.__anext__()
                else:
                    next(generator)
            except (StopIteration, StopAsyncIteration):
                continue
            except Exception as error:  # noqa: BLE001 the others still have to be closed
                errors.append(error)
        if errors:
            raise errors[0]

    def resource(self, of: object) -> Any:
        """The opened resource."""
        try:
            return self._opened[id(of)]
        except KeyError:
            raise NotAllowedHere(
                f"{of!r} is not open: the worker opens the resources that its workflows' steps name. Give it to the "
                "app: App(resources=[…])"
            ) from None

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """From the thread of a sync body: runs it on the worker's event loop, in this context, and waits here."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def put_blob(self, data: bytes) -> str:
        """Stores bytes."""
        return await self._blobs.put_blob(data)

    async def get_blob(self, name: str) -> bytes:
        """Reads them back."""
        return await self._blobs.get_blob(name)

    def heartbeat(self, run: str, key: str, progress: bytes) -> None:
        """Notes how far a step is; goes out with the worker's next heartbeat."""
        self._progress[run, key] = progress

    def take_progress(self, run: str, key: str) -> bytes | None:
        """How far a step was when its attempt ended."""
        return self._progress.pop((run, key), None)

    def progress(self) -> str:
        """Everything noted, as a worker's row holds it."""
        if not self._progress:
            return ""
        noted = [[run, key, msgspec.Raw(value)] for (run, key), value in list(self._progress.items())]
        return msgspec.json.encode(noted).decode()


def progress_of(text: str, run: str) -> dict[str, bytes]:
    """What a worker's row says of the steps of one run."""
    if not text:
        return {}
    noted = msgspec.json.decode(text, type=list[tuple[str, str, msgspec.Raw]])
    return {key: bytes(value) for noted_run, key, value in noted if noted_run == run}
