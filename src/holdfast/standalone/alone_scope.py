"""The surroundings of a body in a standalone machine: `current()`, its resources, and refusals with advice."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from holdfast.authoring.machine.state_bodies import ADVICE
from holdfast.authoring.script.open_resources import OpenResources
from holdfast.core.ids import idempotency_key
from holdfast.errors import NotAllowedHere
from holdfast.standalone.attempt import wall_clock
from holdfast.standalone.journey import Journey

T = TypeVar("T")


class AloneScope:
    """The attempt that a body runs in, read from the run on request."""

    advice = ADVICE
    attributes: Mapping[str, str] = MappingProxyType({})
    progress: Any = None
    connection: Any = None
    is_cancelled = False

    def __init__(self, run: Journey, surroundings: AloneSurroundings) -> None:
        self._run = run
        self.surroundings: AloneSurroundings = surroundings

    @property
    def run(self) -> str:
        return self._run.id

    @property
    def workflow(self) -> str:
        return self._run.model.name

    @property
    def version(self) -> str:
        return self._run.model.version

    @property
    def created_at(self) -> datetime:
        """A standalone run does not record its creation time."""
        return wall_clock()

    @property
    def attempt(self) -> int:
        return self._run.attempt or 1

    @property
    def step(self) -> str:
        return self._run.last_label

    @property
    def key(self) -> str:
        """The visit, named as under an app: `Quoting`, later `Quoting:2`."""
        run = self._run
        return f"{run.last_label}:{run.visit}" if run.visit > 1 else run.last_label

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt and every resume of one visit."""
        return idempotency_key(self._run.id, self.key)


class AloneSurroundings:
    """What a body may ask of its worker, for a machine that runs without one."""

    def __init__(self, resources: OpenResources) -> None:
        self._resources = resources
        self._loop = asyncio.get_running_loop()

    def resource(self, of: object) -> Any:
        return self._resources.get(of)

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs an awaitable for the thread of a sync body, which waits."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def put_blob(self, data: bytes) -> str:
        """Refused: there is no store for blobs."""
        self._refuse("put_blob()")

    async def get_blob(self, name: str) -> bytes:
        """Refused: there is no store for blobs."""
        self._refuse("get_blob()")

    def send_part(self, scope: object, name: str, data: bytes) -> None:
        """Refused: there is no store for streams."""
        self._refuse("Stream.send()")

    async def flush_parts(self, scope: object) -> None:
        """Refused: there is no store for streams."""
        self._refuse("Stream.flush()")

    def heartbeat(self, run: str, key: str, progress: bytes) -> None:
        """Does nothing: there is no worker."""

    def take_progress(self, run: str, key: str) -> bytes | None:
        """Nothing: no progress was noted."""
        return None

    def _refuse(self, verb: str) -> NoReturn:
        raise NotAllowedHere(f"{verb} needs the store of an app: start the machine with app.start(…)")
