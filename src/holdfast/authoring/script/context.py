"""How a verb finds its run or step without a context parameter.

In an async workflow the running loop belongs to the program. In a sync workflow, and in the body of a step, a context
variable holds it. Nothing else is global.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol, TypeVar, cast

import msgspec

from holdfast.authoring.script._stdlib import get_running_loop
from holdfast.authoring.script.bridge import sync_program
from holdfast.authoring.script.loop import DurableLoop
from holdfast.authoring.script.script_program import ScriptProgram
from holdfast.core.ids import idempotency_key
from holdfast.errors import NotAllowedHere, NotInRun
from holdfast.ports.transactions import OpenTransaction

T = TypeVar("T")


class Surroundings(Protocol):
    """What a step's body may ask of its worker."""

    def resource(self, of: object) -> Any:
        """The opened resource of that definition."""
        ...

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs an awaitable on the worker's event loop, in this context, while the thread of a sync body waits."""
        ...

    async def transact(self, *, is_async: bool) -> OpenTransaction:
        """Begins a transaction in the database of the journal."""
        ...

    async def put_blob(self, data: bytes) -> str:
        """Stores bytes."""
        ...

    async def get_blob(self, name: str) -> bytes: ...

    async def results(self, runs: Sequence[str]) -> list[bytes]:
        """The results of runs that have completed."""
        ...

    def heartbeat(self, run: str, key: str, progress: bytes) -> None:
        """Notes that the step is alive and how far it is."""
        ...

    def take_progress(self, run: str, key: str) -> bytes | None:
        """Returns the last noted progress and forgets it."""
        ...

    def send_part(self, scope: StepScope, name: str, data: bytes) -> None:
        """Sends a part to a stream of the run. From any thread; never waits."""
        ...

    async def flush_parts(self, scope: StepScope) -> None:
        """Returns when everything that the step has sent is durable."""
        ...


class StepScope(msgspec.Struct):
    """The attempt that a body runs in. Keys of steps are unique within `identity`."""

    run: str
    workflow: str
    version: str
    key: str
    step: str
    attempt: int
    identity: str
    created_at: datetime
    surroundings: Surroundings
    progress: Any = None
    connection: Any = None  # of a step whose writes and outcome are one transaction
    advice: str = ""  # what to do instead of using a workflow's verb here
    is_cancelled: bool = False
    no: int = 0  # of the run in its store, and the epoch it is held under
    epoch: int = 0
    outlet: Any = None  # once it has sent to a stream
    attributes: Mapping[str, str] = {}

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this step of this run. Computed on request, since few bodies ask."""
        return idempotency_key(self.identity, self.key)


running_step: ContextVar[StepScope | None] = ContextVar("holdfast_step", default=None)


def find_program() -> ScriptProgram | None:
    """The program whose workflow body is running here, or None."""
    loop = get_running_loop()
    if type(loop) is DurableLoop:
        return loop._host  # type: ignore[return-value] # pyright: ignore[reportPrivateUsage, reportReturnType]
    return cast("ScriptProgram | None", sync_program.get()) if loop is None else None


def require_program(verb: str, *, in_step: str = "", outside: str = "") -> ScriptProgram:
    """The program, or an error that says what to do instead."""
    program = find_program()
    if program is not None:
        return program
    scope = running_step.get()
    if scope is not None:
        said = f"{verb} is for workflows, and this is the body of a step. {scope.advice or in_step}"
        raise NotAllowedHere(said.strip())
    raise NotInRun(f"{verb} works inside a run only. {outside or 'Call it from a @workflow function.'}")
