"""Typed channels: `Signal` to one run, `Topic` to every run waiting on it now, `RunVar` from a run to the outside.

The type is read from `Signal[bool]("approved")` when first needed.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, overload

from holdfast.authoring.script.bridge import block_on
from holdfast.authoring.script.calls import NO_DEFAULT, WaitCall
from holdfast.authoring.script.context import require_program
from holdfast.authoring.script.place import Place, place
from holdfast.authoring.script.receipts import Receipt, SyncReceipt
from holdfast.core.commands import Expose, Send
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.ids import check_name
from holdfast.core.message_ids import check_message_id
from holdfast.core.payload import Shape
from holdfast.errors import DefinitionError

if TYPE_CHECKING:
    from holdfast.authoring.script.script_program import ScriptProgram

T = TypeVar("T")
Rc = TypeVar("Rc", bound=Receipt)
D = TypeVar("D")


class Typed(Generic[T]):
    """A name with a type."""

    def __init__(self, name: str) -> None:
        self.name: str = check_name(name, f"the name of a {type(self).__name__}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @functools.cached_property
    def shape(self) -> Shape[T]:
        """How values are encoded and decoded."""
        arguments = get_args(getattr(self, "__orig_class__", None))
        if not arguments or isinstance(arguments[0], TypeVar):
            kind = type(self).__name__
            raise DefinitionError(f'{kind}("{self.name}") has no type: write {kind}[bool]("{self.name}")')
        return Shape(arguments[0], what=f"{type(self).__name__} {self.name}")

    def encode(self, value: T) -> bytes:
        """The value, checked against the type."""
        return self.shape.round_trip(value, self.name)[0]


class Channel(Typed[T]):
    """Something a run can wait for."""

    kind = "signal"

    def _wait(self, timeout: Duration | None, default: Any, name: str | None, where: Place) -> WaitCall:
        verb = f"{type(self).__name__}.wait()"
        program = require_program(verb, in_step="A step gets what it needs as arguments.")
        return WaitCall(
            program,
            program.take_key(check_name(name, "name=") if name is not None else self.name),
            where,
            kind=self.kind,
            name=self.name,
            shape=self.shape,
            timeout=parse_duration(timeout, what=f"timeout= of {verb}") if timeout is not None else None,
            default=default,
        )


class AsyncChannel(Channel[T]):
    """The async `wait`."""

    if TYPE_CHECKING:

        @overload
        async def wait(self, *, timeout: Duration | None = None, name: str | None = None) -> T: ...
        @overload
        async def wait(self, *, timeout: Duration, default: D, name: str | None = None) -> T | D: ...
        async def wait(self, *, timeout: Any = None, default: Any = None, name: str | None = None) -> Any:
            """Waits for the next one. After `timeout` the `default`, or `TimeoutError` without one."""

    else:

        def wait(self, *, timeout=None, default=NO_DEFAULT, name=None):
            """Waits for the next one. After `timeout` the `default`, or `TimeoutError` without one."""
            return self._wait(timeout, default, name, place(1))


class Sending(Typed[T]):
    """A signal, sent from inside a run."""

    def _send(self, kind: type[Rc], run: str, value: T, id: str | None) -> Rc:
        program = require_program("Signal.send()", outside="From outside: await run.signal(…).")
        return send_signal(kind, program, run, self, value, id)


def send_signal(kind: type[Rc], program: ScriptProgram, run: str, signal: Typed[T], value: T, id: str | None) -> Rc:
    """Sends with this turn. Returns the receipt."""
    chosen = check_message_id(id) if id is not None else ""
    data = signal.encode(value)
    program.children.check_signal(run, signal.name, data)
    key = program.take_key(f"send {signal.name}")
    program.ask(Send(key=key, to=run, kind="signal", name=signal.name, value=data, id=chosen))
    return kind(program.receipts, key, run, signal.name, chosen)


class Publishing(Typed[T]):
    """A topic, published from inside a run."""

    def publish(self, value: T) -> None:
        """Publishes from inside a run, with this turn: exactly once."""
        program = require_program("Topic.publish()", outside="From outside: await app.publish(…).")
        key = program.take_key(f"publish {self.name}")
        program.ask(Send(key=key, to=self.name, kind="publish", name=self.name, value=self.encode(value)))


class Signal(Sending[T], AsyncChannel[T]):
    """A durable message to one run: buffered, exactly once, FIFO per sender. Its type is part of it:
    `approved = Signal[bool]("approved")`."""

    def send(self, run: str, value: T, *, id: str | None = None) -> Receipt:
        """Sends to another run, from inside a run, with this turn: exactly once. Await the returned receipt to know
        that the signal arrived; it raises `RunFinished` or `RunNotFound` if it did not. Without an await, a lost signal
        is only logged. The same signal with the same `id` counts once, however often and by whom it is sent; another
        signal or value under that id is lost, with `Conflict`."""
        return self._send(Receipt, run, value, id)


class Topic(Publishing[T], AsyncChannel[T]):
    """A broadcast to every run waiting on it now: `prices = Topic[int]("prices")`. It is not kept for later."""

    kind = "topic"


class SyncChannel(Channel[T]):
    """The blocking `wait`."""

    @overload
    def wait(self, *, timeout: Duration | None = None, name: str | None = None) -> T: ...
    @overload
    def wait(self, *, timeout: Duration, default: D, name: str | None = None) -> T | D: ...
    def wait(self, *, timeout: Any = None, default: Any = NO_DEFAULT, name: str | None = None) -> Any:
        """Waits for the next one. After `timeout` the `default`, or `TimeoutError` without one."""
        return block_on(self._wait(timeout, default, name, place(1)), "Signal.wait()")


class SyncSignal(Sending[T], SyncChannel[T]):
    """A signal, waited for in sync workflows."""

    def send(self, run: str, value: T, *, id: str | None = None) -> SyncReceipt:
        """Sends to another run, from inside a run, with this turn: exactly once. Call `.wait()` on the returned receipt
        to know that the signal arrived; it raises `RunFinished` or `RunNotFound` if it did not. Otherwise a lost signal
        is only logged. The same signal with the same `id` counts once, however often and by whom it is sent; another
        signal or value under that id is lost, with `Conflict`."""
        return self._send(SyncReceipt, run, value, id)


class SyncTopic(Publishing[T], SyncChannel[T]):
    """A topic, waited for in sync workflows."""

    kind = "topic"


class RunVar(Typed[T]):
    """A typed value that a run exposes: `stage = RunVar[str]("stage")`, read with `run.get(stage)`."""

    def set(self, value: T) -> None:
        """Sets the value, durable with this turn."""
        program = require_program("RunVar.set()", in_step="Return the value, and set it in the workflow.")
        encoded = self.encode(value)
        program.exposed[self.name] = encoded
        program.ask(Expose(name=self.name, value=encoded))

    @overload
    def get(self) -> T | None: ...
    @overload
    def get(self, default: D) -> T | D: ...
    def get(self, default: Any = None) -> Any:
        """The value that this run has set."""
        program = require_program("RunVar.get()", outside="From outside: await run.get(var).")
        encoded = program.exposed.get(self.name)
        return default if encoded is None else self.shape.decode(encoded)
