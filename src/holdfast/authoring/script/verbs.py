"""The verbs of a script: everything an author may do in a run that is not a step."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, MutableMapping
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec

from holdfast.authoring.script.calls import SleepCall, StepCall
from holdfast.authoring.script.context import StepScope, find_program, require_program, running_step
from holdfast.authoring.script.exits import ContinueRun
from holdfast.authoring.script.place import Place, place
from holdfast.authoring.script.workflows import Call
from holdfast.core.attributes import changed_attributes, check_mapping
from holdfast.core.commands import ContinueAs, SetAttributes
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.ids import check_name
from holdfast.core.instants import instant_after, kept_instant
from holdfast.core.mailbox import apply_attributes
from holdfast.core.payload import Shape
from holdfast.core.references import BlobRef, ReferringBytes, references_in
from holdfast.errors import InvalidDuration, InvalidInput, NotAllowedHere, NotInRun
from holdfast.ports.transactions import holding

T = TypeVar("T")
R = TypeVar("R")

_any: Shape[Any] = Shape(Any, what="progress")


def durable_sleep(duration: Duration | None, until: datetime | None, name: str | None, where: Place) -> SleepCall:
    program = require_program("sleep()", in_step="Here use asyncio.sleep.")
    if (duration is None) == (until is None):
        raise InvalidDuration("sleep() takes a duration or until=, one of the two")
    if until is None:
        assert duration is not None
        until = instant_after(program.at, parse_duration(duration, what="sleep()"), "sleep()")
    elif until.tzinfo is None:
        raise InvalidDuration("sleep(until=…) takes an aware datetime: add tzinfo, for example datetime.now(UTC)")
    else:
        until = kept_instant(until, "sleep(until=…)")
    key = program.take_key(check_name(name, "name=") if name is not None else "sleep")
    return SleepCall(program, key, where, until)


if TYPE_CHECKING:

    async def sleep(
        duration: Duration | None = None, *, until: datetime | None = None, name: str | None = None
    ) -> None:
        """Sleeps durably: parks the run, without a thread or memory. The end is fixed when the sleep first runs."""

else:

    def sleep(duration=None, *, until=None, name=None):
        """Sleeps durably: parks the run, without a thread or memory. The end is fixed when the sleep first runs."""
        return durable_sleep(duration, until, name, place(1))


async def each(function: Callable[[T], Coroutine[Any, Any, R]], items: Iterable[T], *, limit: int = 50) -> list[R]:
    """Calls a step or workflow for every item, at most `limit` at a time; results in the order of the items.

    The first failure cancels the rest and is raised unchanged. However many items: against the step limit they count
    as one.
    """
    require_program("each()")
    if limit < 1:
        raise InvalidInput(f"each(limit={limit}): give at least 1")
    kept = list(items)
    queue = iter(enumerate(kept))
    results: dict[int, R] = {}

    async def branch() -> None:
        for index, item in queue:
            call = function(item)
            if index:  # a loop around `each` is stopped by the step limit all the same
                _uncount(call)
            results[index] = await call

    tasks = [asyncio.create_task(branch()) for _ in range(min(limit, len(kept)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        left = [task for task in tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
    return [results[index] for index in range(len(kept))]


def _uncount(call: object) -> None:
    """Takes a call that has not been asked for out of the count of the step limit."""
    if isinstance(call, StepCall):
        call.is_counted = False
    elif isinstance(call, Call) and call.child is not None:
        call.child.command = msgspec.structs.replace(call.child.command, uncounted=True)


def now() -> datetime:
    """The time of this turn: the same on every replay."""
    return require_program("now()", in_step="Here use datetime.now(UTC).").at


def rng() -> Random:
    """Random numbers that follow from the run: the same on every replay. Not for secrets."""
    return require_program("rng()", in_step="Here use the random module.").rng


def uuid4() -> uuid.UUID:
    """A UUID that follows from the run: the same on every replay."""
    return uuid.UUID(int=rng().getrandbits(128), version=4)


def patched(name: str) -> bool:
    """Gates a change of a workflow that has open runs: True for runs that reach it live, False for older ones."""
    return require_program("patched()").patched(check_name(name, "the name of a patch"))


def continue_as(call: Call[Any]) -> NoReturn:
    """Ends this pass and restarts the run with different arguments: same id, an empty journal to replay."""
    program = require_program("continue_as()")
    if program.spec.is_async and not program.is_body_running:
        raise NotAllowedHere("continue_as() in a task: it ends the whole body, so call it in the body, not in a task")
    if call.child is not None:
        program.announced.pop(call.child.number, None)
    program.continuing = ContinueAs(workflow=call.spec.name, version=call.spec.version, args=call.args)
    raise ContinueRun


class Current(msgspec.Struct, frozen=True):
    """Where the code is running. In a workflow `key` is empty and `attempt` counts passes. In a step, `is_cancelled`
    says whether the body should stop: its time is up, or the run has ended or continues without it. `attributes` are
    those of the run; in a step, as they were when its attempt began."""

    run_id: str
    workflow: str
    version: str
    created_at: datetime
    attempt: int
    key: str = ""
    step: str = ""
    idempotency_key: str = ""
    progress: Any = None
    is_cancelled: bool = False
    attributes: Mapping[str, str] = {}


def current() -> Current:
    """The run and, in a step, the attempt that this code runs in."""
    program = find_program()
    scope = running_step.get() if program is None else None
    if scope is not None:
        return current_of(scope)
    if program is None:
        raise NotInRun("current() works in a workflow or in a step of a run; here there is none")
    begin, spec = program.beginning, program.spec
    attributes = dict(program.attributes)
    return Current(begin.run, spec.name, spec.version, begin.created_at, begin.number, attributes=attributes)


def current_of(scope: StepScope) -> Current:
    """The attempt of a step, as its body sees it."""
    return Current(
        scope.run,
        scope.workflow,
        scope.version,
        scope.created_at,
        scope.attempt,
        scope.key,
        scope.step,
        scope.idempotency_key,
        scope.progress,
        scope.is_cancelled,
        scope.attributes,
    )


def set_attributes(attributes: Mapping[str, str | None] | None = None, /, **named: str | None) -> None:
    """Changes the run's attributes, durable with this turn: `set_attributes(approver="bob")`. None removes one; a
    mapping takes names such as `"tenant-id"`. `app.runs(attributes=…)` finds it."""
    program = require_program(
        "set_attributes()",
        in_step="Return the value, and set it in the workflow.",
        outside="Use: app.start(…, attributes=…).",
    )
    changed = changed_attributes({**(check_mapping(attributes) if attributes is not None else {}), **named})
    if changed:
        apply_attributes(program.attributes, changed)
        program.ask(SetAttributes(attributes=changed))


async def put_blob(value: Any) -> BlobRef:
    """Stores a step's own large data (bytes, or plain JSON values) and returns a small reference to it.

    The data stays as long as the `BlobRef` is in a result, an argument, a message or an exposed value. Its name alone
    does not keep it.
    """
    scope = in_step("put_blob()")
    is_raw = isinstance(value, bytes | bytearray)
    data, kind = (bytes(value), "bytes") if is_raw else (_any.encode(value, "value"), "json")
    refs = references_in(data)
    return BlobRef(await scope.surroundings.put_blob(ReferringBytes(data, refs) if refs else data), len(data), kind)


async def get_blob(ref: BlobRef) -> Any:
    """Reads back what `put_blob` stored, its hash verified."""
    data = await in_step("get_blob()").surroundings.get_blob(ref.name)
    return data if ref.kind == "bytes" else _any.decode(data)


def transaction(kind: type[T]) -> T:
    """In a step with `tx=True`: the connection of the transaction in which its outcome will be journaled.

    `transaction(psycopg.AsyncConnection)` in an `async def` step and `transaction(psycopg.Connection)` in a `def` step
    on PostgreSQL, or SQLAlchemy's `AsyncSession` and `Session` there; `transaction(apsw.Connection)` on SQLite. What it
    writes takes effect exactly once, together with the completion of the step; an attempt that fails leaves nothing. It
    commits by itself: `commit()` is refused.
    """
    scope = in_step("transaction()")
    if scope.connection is None:
        raise NotAllowedHere(f"transaction() in step {scope.step}: declare it with @step(tx=True)")
    if not isinstance(scope.connection, kind):
        held = holding.get()
        session: T | None = held.session(kind) if held is not None else None
        if session is not None:
            return session
        theirs = next(x for x in type(scope.connection).__mro__ if not x.__module__.startswith("holdfast."))
        raise NotAllowedHere(
            f"transaction({kind.__module__}.{kind.__qualname__}) in step {scope.step}: this store gives a "
            f"{theirs.__module__}.{theirs.__qualname__}"
        )
    return scope.connection


def heartbeat(progress: Any = None) -> None:
    """In a long step: reports progress. After a retry or a crash `current().progress` holds the last value.

    Raises `asyncio.CancelledError` once the result is no longer needed: this is how a `def` step finds out.
    """
    scope = in_step("heartbeat()")
    noted = _any.encode(progress, "progress")
    if not scope.is_cancelled:
        scope.progress = progress
        scope.surroundings.heartbeat(scope.run, scope.key, noted)
        if not scope.is_cancelled:
            return
        scope.surroundings.take_progress(scope.run, scope.key)  # cancelled meanwhile: nothing else removes the note
    raise asyncio.CancelledError(f"run {scope.run}: step {scope.key} is no longer needed; let its body end")


def in_step(verb: str) -> StepScope:
    """The attempt that this body runs in. Raises an error that says where the verb belongs."""
    if find_program() is None and (scope := running_step.get()) is not None:
        return scope
    if find_program() is not None:
        raise NotAllowedHere(f"{verb} is for the body of a step; in a workflow it would not replay")
    raise NotInRun(f"{verb} works in the body of a step of a run; here there is none")


class RunLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that knows its run, and is silent while a replay repeats what was logged before."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 logging's name
        """As logging's, and never during a replay."""
        program = find_program()
        return (program is None or not program.is_quiet) and self.logger.isEnabledFor(level)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        fields: dict[str, Any] = {}
        program = find_program()
        scope = running_step.get() if program is None else None
        if scope is not None:
            fields = {"run": scope.run, "workflow": scope.workflow, "step": scope.key, "attempt": scope.attempt}
        elif program is not None:
            fields = {"run": program.beginning.run, "workflow": program.spec.name}
        kwargs["extra"] = {**fields, **kwargs.get("extra", {})}
        return msg, kwargs


log: RunLogger = RunLogger(logging.getLogger("holdfast.run"), {})
"""The author's logger: `log.info(…)` in workflows and steps, silent on replay."""
