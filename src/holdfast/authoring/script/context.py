"""Where am I? How a verb finds its run, or its step, without a context parameter.

In an async workflow the running loop is the program's own. In a sync workflow, and in the body of a step, a context
variable says it. Nothing else is global.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextvars import ContextVar
from datetime import datetime
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from holdfast.authoring.script._stdlib import caller_frame, get_running_loop
from holdfast.authoring.script.loop import DurableLoop
from holdfast.core.ids import idempotency_key
from holdfast.errors import NotAllowedHere, NotInRun
from holdfast.ports.transactions import OpenTransaction

if TYPE_CHECKING:
    from holdfast.authoring.script.program import ScriptProgram


T = TypeVar("T")


class Surroundings(Protocol):
    """What a step's body may ask of the worker that runs it."""

    def resource(self, of: object) -> Any:
        """The opened resource of that definition."""
        ...

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """From the thread of a sync body: runs it on the worker's event loop, in this context, and waits here."""
        ...

    async def transact(self, *, is_async: bool) -> OpenTransaction:
        """Begins a transaction in the database of the journal."""
        ...

    async def put_blob(self, data: bytes) -> str:
        """Stores bytes."""
        ...

    async def get_blob(self, name: str) -> bytes: ...

    def heartbeat(self, run: str, key: str, progress: bytes) -> None:
        """Notes that the step is alive and how far it is."""
        ...

    def take_progress(self, run: str, key: str) -> bytes | None:
        """What was noted last, which is then forgotten."""
        ...


class StepScope(msgspec.Struct):
    """The attempt a body runs in. `identity` is what keys of steps are unique within."""

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

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this step of this run. Few bodies ask."""
        return idempotency_key(self.identity, self.key)


running_step: ContextVar[StepScope | None] = ContextVar("holdfast_step", default=None)
sync_program: ContextVar[ScriptProgram | None] = ContextVar("holdfast_sync_program", default=None)


def find_program() -> ScriptProgram | None:
    """The program whose workflow body is running here, if one is."""
    loop = get_running_loop()
    if type(loop) is DurableLoop:
        return loop._host  # type: ignore[return-value] # pyright: ignore[reportPrivateUsage, reportReturnType]
    return sync_program.get() if loop is None else None


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


class Place(msgspec.Struct, gc=False):
    """A place in the author's code, kept as cheaply as possible and turned into text on request."""

    code: CodeType
    offset: int

    def __str__(self) -> str:
        line = self.code.co_firstlineno
        for start, end, number in self.code.co_lines():
            if number is not None and start <= self.offset < end:
                line = number
        return f"{self.code.co_filename}:{line}"


def place(depth: int) -> Place:
    """The place `depth` calls above the caller."""
    frame = caller_frame(depth + 1)
    return Place(frame.f_code, frame.f_lasti)


def authors_place() -> Place | None:
    """The innermost place on the stack that is neither Holdfast's nor asyncio's, as far as the program's loop."""
    frame: FrameType | None = caller_frame(1)
    while frame is not None and frame.f_code is not _LOOP_RUNS:
        if not frame.f_globals.get("__name__", "").startswith(("holdfast.", "asyncio.", "contextlib")):
            return Place(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return None


_LOOP_RUNS: CodeType = vars(DurableLoop)["_run"].__code__
