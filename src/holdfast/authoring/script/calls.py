"""Durable calls: awaitables that take their key when they are called.

A call is a coroutine to asyncio (`gather`, `TaskGroup`, `wait_for` take it) and asks its program for something when it
is first awaited. It hashes by the order of creation, so a set of calls iterates the same way on every replay. A call
that is never awaited is an error at the end of the run, naming the line.
"""

from __future__ import annotations

from asyncio import CancelledError, Future
from collections.abc import Coroutine, Generator
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from holdfast.authoring.script.loop import DurableLoop
from holdfast.authoring.script.place import Place
from holdfast.core.commands import RunStep, StartChild
from holdfast.core.payload import Shape
from holdfast.core.retry import Retry
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.authoring.script.scope import Scope
    from holdfast.core.specs import Settings, StepSpec, WorkflowSpec

R = TypeVar("R")


class Steps(Protocol):
    """Where a step is asked for."""

    def ask(self, call: StepCall[Any]) -> Any:
        """Returns the outcome if it is already known, else `WAITING`."""
        ...

    def abandon(self, key: str) -> None:
        """The author's code cancelled it."""
        ...


class Waits(Protocol):
    """Where a sleep, or a wait for a signal or a topic, is asked for."""

    def sleep(self, call: SleepCall) -> Future[Any] | None:
        """What a sleep awaits; None if an earlier pass finished it."""
        ...

    def begin(self, call: WaitCall) -> Any:
        """Returns a message if one is there, else `WAITING`."""
        ...

    def future(self, key: str) -> Future[Any]:
        """What the call awaits."""
        ...

    def give_up(self, key: str) -> None:
        """The author's code cancelled it."""
        ...


class Children(Protocol):
    """Where a child is asked for."""

    def ask(self, call: ChildCall) -> None:
        """Starts the child, unless an earlier pass did."""
        ...

    def result(self, call: ChildCall) -> Generator[Any, Any, Any]:
        """The child's value, or the error that its parent sees."""
        ...


class Asker(Protocol):
    """The program, as its calls see it."""

    settings: Settings
    loop: DurableLoop
    announced: dict[int, DurableCall[Any]]

    @property
    def steps(self) -> Steps: ...

    @property
    def waits(self) -> Waits: ...

    @property
    def children(self) -> Children: ...

    def announce(self, call: DurableCall[Any], /) -> int:
        """Remembers a call until it is awaited."""
        ...


class DurableCall(Coroutine[Any, Any, R], Generic[R]):
    """Something that a program asks for, as a value."""

    __slots__ = ("_driver", "key", "number", "place", "program")

    def __init__(self, program: Asker, key: str, place: Place) -> None:
        self.program: Asker = program
        self.key: str = key
        self.place: Place = place
        self._driver: Generator[Any, Any, R] | None = None
        self.number: int = program.announce(self)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r}>"

    def __await__(self) -> Generator[Any, Any, R]:
        if self._driver is not None:
            raise UsageError(f"{self.key}: this call was awaited before ({self.place}); call it again for another one")
        self.program.announced.pop(self.number, None)
        self._driver = driver = self._drive()
        return driver

    def _drive(self) -> Generator[Any, Any, R]:
        raise NotImplementedError

    # -- the coroutine protocol ----------------------------------------------------------------------------------------

    def send(self, value: Any) -> Any:
        return (self._driver or self.__await__()).send(value)

    def throw(self, typ: Any, val: Any = None, tb: TracebackType | None = None) -> Any:
        """As a coroutine's `throw`. A call that has not begun ends without asking for anything."""
        driver = self._driver
        if driver is None:
            self.program.announced.pop(self.number, None)
            self._driver = _ended()
            raise typ if val is None else val
        return driver.throw(typ if val is None else val)

    def close(self) -> None:
        if self._driver is not None:
            self._driver.close()
        else:
            self.program.announced.pop(self.number, None)
            self._driver = _ended()


class StepCall(DurableCall[R]):
    """A step asked for."""

    __slots__ = ("args", "asked", "future", "is_counted", "retry", "scope", "spec", "timeout", "undo", "undoes")

    asked: RunStep  # once it is asked for

    def __init__(
        self,
        program: Asker,
        key: str,
        place: Place,
        spec: StepSpec,
        args: bytes,
        retry: Retry | None = None,
        timeout: timedelta | None = None,
        *,
        scope: Scope | None = None,
        undo: Any = None,
        undoes: str = "",
    ) -> None:
        self.program = program
        self.key = key
        self.place = place
        self._driver = None
        self.spec: StepSpec = spec
        self.args: bytes = args
        self.retry: Retry | None = retry
        self.timeout: timedelta | None = timeout
        self.scope: Scope | None = scope if undo is not None else None
        self.undo: Any | None = undo
        self.undoes: str = undoes
        self.is_counted: bool = True
        self.future: Future[Any] | None = None  # what it awaits until its outcome is delivered
        self.number: int = program.announce(self)

    def command(self) -> RunStep:
        """What the program asks for."""
        spec = self.spec
        return RunStep(
            key=self.key,
            spec=spec,
            args=self.args,
            retry=self.retry or spec.retry or self.program.settings.step_retry,
            timeout=self.timeout if self.timeout is not None else spec.timeout,
            undo=self.scope is not None,
            undoes=self.undoes,
            uncounted=not self.is_counted,
        )

    def _drive(self) -> Generator[Any, Any, Any]:
        steps = self.program.steps
        outcome = steps.ask(self)
        if outcome is WAITING:
            try:
                self.future = self.program.loop.outcome_future()
                outcome = yield from self.future
            except CancelledError:
                steps.abandon(self.key)
                raise
        return outcome


class SleepCall(DurableCall[None]):
    """A durable sleep."""

    __slots__ = ("until",)

    def __init__(self, program: Asker, key: str, place: Place, until: datetime) -> None:
        super().__init__(program, key, place)
        self.until: datetime = until

    def _drive(self) -> Generator[Any, Any, None]:
        waits = self.program.waits
        future = waits.sleep(self)
        if future is None:
            return
        try:
            yield from future
        except CancelledError:
            waits.give_up(self.key)
            raise


class WaitCall(DurableCall[Any]):
    """A wait for a signal or a topic."""

    __slots__ = ("default", "has_sender", "kind", "name", "shape", "timeout")

    def __init__(
        self,
        program: Asker,
        key: str,
        place: Place,
        *,
        kind: str,
        name: str,
        shape: Shape[Any],
        timeout: timedelta | None,
        default: Any,
        has_sender: bool = False,
    ) -> None:
        super().__init__(program, key, place)
        self.has_sender: bool = has_sender
        self.kind: str = kind
        self.name: str = name
        self.shape: Shape[Any] = shape
        self.timeout: timedelta | None = timeout
        self.default: Any = default

    def _drive(self) -> Generator[Any, Any, Any]:
        waits = self.program.waits
        outcome = waits.begin(self)
        if outcome is WAITING:
            try:
                outcome = yield from waits.future(self.key)
            except CancelledError:
                waits.give_up(self.key)
                raise
        if outcome is not TIMED_OUT:
            return outcome
        if self.default is NO_DEFAULT:
            raise TimeoutError(f"no {self.kind} {self.name} came within {self.timeout}")
        return self.default


class ChildCall(DurableCall[Any]):
    """A child run, started when first awaited (or by `start`), and its result."""

    __slots__ = ("command", "spec", "timeout")

    def __init__(
        self, program: Asker, place: Place, spec: WorkflowSpec, command: StartChild, timeout: timedelta
    ) -> None:
        super().__init__(program, command.key, place)
        self.spec: WorkflowSpec = spec
        self.command: StartChild = command
        self.timeout: timedelta = timeout

    @property
    def has_begun(self) -> bool:
        """Whether it was awaited."""
        return self._driver is not None

    def _drive(self) -> Generator[Any, Any, Any]:
        children = self.program.children
        children.ask(self)
        return (yield from children.result(self))


class _Marker:
    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


TIMED_OUT: Any = _Marker("TIMED_OUT")
NO_DEFAULT: Any = _Marker("NO_DEFAULT")
WAITING: Any = _Marker("WAITING")  # no outcome yet
UNREADABLE: Any = _Marker("UNREADABLE")  # stored data that does not fit; the program stops


def _ended() -> Generator[Any, Any, Any]:
    return
    yield
