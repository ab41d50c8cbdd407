"""Updates: a question to a run, and its answer. The workflow takes one (`take`), or serves them all (`serve`)."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, TypeVar, cast, get_args, overload

from holdfast.authoring.script.ask import Ask
from holdfast.authoring.script.bridge import block_on
from holdfast.authoring.script.calls import NO_DEFAULT, WaitCall
from holdfast.authoring.script.context import require_program
from holdfast.authoring.script.place import Place, place
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.ids import check_name
from holdfast.core.payload import Shape
from holdfast.core.specs import Check, UpdateSpec
from holdfast.errors import DefinitionError

Q = TypeVar("Q")
A = TypeVar("A")
D = TypeVar("D")
G = TypeVar("G")

_IN_STEP = "A step gets what it needs as arguments, and the workflow answers with what it returns."


class Take(Generic[G]):
    """What `take` returns: a block with one question, which is settled when the block ends."""

    __slots__ = ("_ask", "_call", "_default", "_update")

    def __init__(self, update: AnyUpdate[Any, Any], call: WaitCall, default: Any) -> None:
        self._update = update
        self._call = call
        self._default = default
        self._ask: Ask[Any, Any] | None = None

    def _begin(self, taken: Any) -> G:
        if taken is _LATE:
            late: G = self._default
            return late
        program = require_program("Update.take()", in_step=_IN_STEP)
        ask: Any = Ask[Any, Any](program, self._update.spec, *taken)
        self._ask = ask
        begun: G = ask
        return begun

    def _end(self, error: BaseException | None) -> None:
        if self._ask is not None and not self._ask.is_settled:
            self._ask.leave(error)


class AsyncTake(Take[G]):
    """`async with update.take() as ask:`"""

    __slots__ = ()

    async def __aenter__(self) -> G:
        return self._begin(await self._call)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)


class SyncTake(Take[G]):
    """`with update.take() as ask:`"""

    __slots__ = ()

    def __enter__(self) -> G:
        return self._begin(block_on(self._call, "Update.take()"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)


class AnyUpdate(Generic[Q, A]):
    """What updates of async and sync workflows share."""

    kind = "update"

    def __init__(self, name: str, *, check: Callable[[Q], str | None] | None = None) -> None:
        self.name: str = check_name(name, f"the name of an {type(self).__name__}")
        self.check: Check | None = checked_check(check, f'{type(self).__name__}("{name}")')

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @functools.cached_property
    def _types(self) -> tuple[Any, Any]:
        types = get_args(getattr(self, "__orig_class__", None))
        if len(types) != 2 or any(isinstance(one, TypeVar) for one in types):
            raise DefinitionError(f'Update("{self.name}") has no types: write Update[int, str]("{self.name}")')
        return types[0], types[1]

    @functools.cached_property
    def shape(self) -> Shape[Q]:
        """How questions are encoded and decoded."""
        return Shape(self._types[0], what=f"Update {self.name}")

    @functools.cached_property
    def answer_shape(self) -> Shape[A]:
        return Shape(self._types[1], what=f"answer to {self.name}")

    @property
    def spec(self) -> UpdateSpec:
        """What other modules need to know about the update."""
        return UpdateSpec(self.name, self.shape, self.answer_shape, self.check)

    def encode(self, value: Q) -> bytes:
        """The question, checked against the type."""
        return self.shape.round_trip(value, self.name)[0]

    def _wait(self, timeout: Duration | None, default: Any, name: str | None, where: Place) -> WaitCall:
        program = require_program("Update.take()", in_step=_IN_STEP, outside=_OUTSIDE)
        program.served.check_free(self.name)
        return WaitCall(
            program,
            program.take_key(check_name(name, "name=") if name is not None else self.name),
            where,
            kind="update",
            name=self.name,
            shape=self.shape,
            timeout=parse_duration(timeout, what="timeout= of Update.take()") if timeout is not None else None,
            default=NO_DEFAULT if default is NO_DEFAULT else _LATE,
        )


class Update(AnyUpdate[Q, A]):
    """A question to a run with an answer, asked exactly once: `reassign = Update[Reassign, str]("reassign")`.

    `check` returns why a question is refused, or None. It runs on the worker before the workflow sees the question. It
    may read but must not change anything, and a refusal costs no turn.
    """

    @overload
    def take(self, *, timeout: Duration | None = None, name: str | None = None) -> AsyncTake[Ask[Q, A]]: ...
    @overload
    def take(self, *, timeout: Duration, default: D, name: str | None = None) -> AsyncTake[Ask[Q, A] | D]: ...
    def take(
        self, *, timeout: Duration | None = None, default: Any = NO_DEFAULT, name: str | None = None
    ) -> AsyncTake[Any]:
        """`async with update.take() as ask:` — waits for the next question. After `timeout` the `default`, or
        `TimeoutError` without one. The sender gets `UpdateUnanswered` if the block ends without an answer."""
        return AsyncTake(self, self._wait(timeout, default, name, place(1)), default)

    def serve(
        self, handler: Callable[[Q], A | Awaitable[A]], *, check: Callable[[Q], str | None] | None = None
    ) -> None:
        """From now on `handler` answers every question, as soon as it comes, beside what the workflow does: it may run
        steps. What it returns is the answer; `raise UpdateRefused("why")` refuses. The sender is told of any other
        error, and the run continues."""
        program = require_program("Update.serve()", in_step=_IN_STEP, outside=_OUTSIDE)
        program.served.begin(self.spec, handler, checked_check(check, "Update.serve()"))


class SyncUpdate(AnyUpdate[Q, A]):
    """An update, taken or served in sync workflows."""

    @overload
    def take(self, *, timeout: Duration | None = None, name: str | None = None) -> SyncTake[Ask[Q, A]]: ...
    @overload
    def take(self, *, timeout: Duration, default: D, name: str | None = None) -> SyncTake[Ask[Q, A] | D]: ...
    def take(
        self, *, timeout: Duration | None = None, default: Any = NO_DEFAULT, name: str | None = None
    ) -> SyncTake[Any]:
        """`with update.take() as ask:` — waits for the next question, like that of `holdfast.Update`."""
        return SyncTake(self, self._wait(timeout, default, name, place(1)), default)

    def serve(self, handler: Callable[[Q], A], *, check: Callable[[Q], str | None] | None = None) -> None:
        """From now on `handler`, a `def`, answers every question, like that of `holdfast.Update`."""
        program = require_program("Update.serve()", in_step=_IN_STEP, outside=_OUTSIDE)
        kept = checked_check(check, "Update.serve()")

        async def begin() -> None:
            program.served.begin(self.spec, handler, kept)

        block_on(begin(), "Update.serve()")


_OUTSIDE = "From outside: await run.update(…)."


class _Late:
    def __repr__(self) -> str:
        return "late"


_LATE: Any = _Late()


def checked_check(check: Any, what: str) -> Check | None:
    if check is not None and not callable(check):
        raise DefinitionError(f"{what}: check= takes a function that returns why a question is refused, not {check!r}")
    return cast("Check | None", check)
