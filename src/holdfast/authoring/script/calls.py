"""Durable calls: awaitables whose key is taken when they are called.

A call is a coroutine to asyncio (`gather`, `TaskGroup`, `wait_for` take it) and asks its program for something when it
is first awaited. It hashes by the order of creation, so a set of calls iterates the same way on every replay. A call
that is never awaited is an error at the end of the run, naming the line.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Coroutine, Generator
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from holdfast.authoring.script.context import Place
from holdfast.core.commands import RunStep, StartChild, StartTimer
from holdfast.core.payload import Shape
from holdfast.core.retry import Retry
from holdfast.errors import ResultTimeout, UsageError

if TYPE_CHECKING:
    from holdfast.authoring.script.program import ScriptProgram
    from holdfast.authoring.script.sagas import Scope
    from holdfast.core.specs import StepSpec, WorkflowSpec

R = TypeVar("R")


class DurableCall(Coroutine[Any, Any, R], Generic[R]):
    """Something a program was asked for, as a value."""

    __slots__ = ("_driver", "_number", "key", "place", "program")

    def __init__(self, program: ScriptProgram, key: str, place: Place) -> None:
        self.program = program
        self.key = key
        self.place = place
        self._driver: Generator[Any, Any, R] | None = None
        self._number = program.announce(self)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r}>"

    def _begin(self) -> Generator[Any, Any, R]:
        if self._driver is not None:
            raise UsageError(f"{self.key}: this call was awaited before ({self.place}); call it again for another one")
        self.program.awaited(self)
        self._driver = driver = self._drive()
        return driver

    def _drive(self) -> Generator[Any, Any, R]:
        raise NotImplementedError

    # -- the coroutine protocol ----------------------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, Any, R]:
        return self._begin()

    def send(self, value: Any) -> Any:
        """As a coroutine's."""
        return (self._driver or self._begin()).send(value)

    def throw(self, typ: Any, val: Any = None, tb: TracebackType | None = None) -> Any:
        """As a coroutine's; a call that has not begun ends without asking for anything."""
        driver = self._driver
        if driver is None:
            self.program.awaited(self)
            self._driver = _ended()
            raise typ if val is None else val
        return driver.throw(typ if val is None else val)

    def close(self) -> None:
        """As a coroutine's."""
        if self._driver is not None:
            self._driver.close()
        else:
            self.program.awaited(self)
            self._driver = _ended()


class StepCall(DurableCall[R]):
    """A step asked for."""

    __slots__ = ("args", "decoded", "retry", "scope", "spec", "timeout", "undo", "undoes")

    def __init__(
        self,
        program: ScriptProgram,
        key: str,
        place: Place,
        spec: StepSpec,
        args: bytes,
        *,
        retry: Retry | None,
        timeout: timedelta | None,
        scope: Scope | None = None,
        undo: Any = None,
        undoes: str = "",
    ) -> None:
        super().__init__(program, key, place)
        self.spec = spec
        self.args = args
        self.retry = retry
        self.timeout = timeout
        self.scope = scope
        self.undo = undo
        self.undoes = undoes

    def command(self) -> RunStep:
        """What the program asks for."""
        return RunStep(
            key=self.key,
            spec=self.spec,
            args=self.args,
            retry=self.retry or self.spec.retry or self.program.settings.step_retry,
            timeout=self.timeout or self.spec.timeout,
            undo=self.scope is not None and self.undo is not None,
            undoes=self.undoes,
        )

    def _drive(self) -> Generator[Any, Any, R]:
        program = self.program
        is_known, value = program.ask_step(self)
        if is_known:
            return cast("R", value)
        try:
            return cast("R", (yield from program.future_of(self.key)))
        except CancelledError:
            program.abandon_step(self.key)
            raise


class SleepCall(DurableCall[None]):
    """A durable sleep."""

    __slots__ = ("until",)

    def __init__(self, program: ScriptProgram, key: str, place: Place, until: datetime) -> None:
        super().__init__(program, key, place)
        self.until = until

    def _drive(self) -> Generator[Any, Any, None]:
        program = self.program
        memo = program.memo(self.key)
        if memo is not None and memo.settled is not None:
            return
        until = program.ask_sleep(StartTimer(key=self.key, until=self.until))
        try:
            yield from program.timer_future(self.key, until)
        except CancelledError:
            program.end_wait(self.key)
            raise


class WaitCall(DurableCall[Any]):
    """A wait for a signal or a topic."""

    __slots__ = ("default", "kind", "name", "shape", "timeout")

    def __init__(
        self,
        program: ScriptProgram,
        key: str,
        place: Place,
        *,
        kind: str,
        name: str,
        shape: Shape[Any],
        timeout: timedelta | None,
        default: Any,
    ) -> None:
        super().__init__(program, key, place)
        self.kind = kind
        self.name = name
        self.shape = shape
        self.timeout = timeout
        self.default = default

    def _drive(self) -> Generator[Any, Any, Any]:
        program = self.program
        outcome = program.ask_wait(self)
        if outcome is None:
            try:
                outcome = yield from program.future_of(self.key)
            except CancelledError:
                program.end_wait(self.key)
                raise
        if outcome is TIMED_OUT:
            if self.default is NO_DEFAULT:
                raise TimeoutError(f"no {self.kind} {self.name} came within {self.timeout}")
            return self.default
        return self.shape.decode(outcome)


class ChildCall(DurableCall[Any]):
    """A child run, started when first awaited (or by `start`), and its result."""

    __slots__ = ("command", "spec", "timeout")

    def __init__(
        self, program: ScriptProgram, place: Place, spec: WorkflowSpec, command: StartChild, timeout: timedelta
    ) -> None:
        super().__init__(program, command.key, place)
        self.spec = spec
        self.command = command
        self.timeout = timeout

    def _drive(self) -> Generator[Any, Any, Any]:
        program = self.program
        program.ask_child(self)
        return (yield from wait_for_child(program, self.key, self.spec))


def wait_for_child(program: ScriptProgram, key: str, spec: WorkflowSpec) -> Generator[Any, Any, Any]:
    """The result of a child that was started under that key."""
    outcome = program.child_outcome(key)
    if outcome is None:
        try:
            outcome = yield from program.future_of(key)
        except CancelledError:
            program.end_wait(key)
            raise
    if outcome is TIMED_OUT:
        raise ResultTimeout(f"child {spec.label} (key {key}) did not end in time; it goes on without its parent")
    return program.child_result(outcome, spec)


class _Marker:
    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


TIMED_OUT: Any = _Marker("TIMED_OUT")
NO_DEFAULT: Any = _Marker("NO_DEFAULT")


def _ended() -> Generator[Any, Any, Any]:
    return
    yield
