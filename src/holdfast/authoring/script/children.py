"""`start`: children that need not be awaited, and the handle on them inside a workflow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal, NoReturn, TypeVar

import msgspec

from holdfast.authoring.handle import JournalEvent, Part, RedactionResult, Run, RunView, StoredMessage
from holdfast.authoring.script.calls import ChildCall
from holdfast.authoring.script.channels import Channel, RunVar, send_signal
from holdfast.authoring.script.context import require_program
from holdfast.authoring.script.receipts import Receipt
from holdfast.authoring.script.script_program import ScriptProgram
from holdfast.authoring.script.stream import Sent
from holdfast.authoring.script.update import AnyUpdate
from holdfast.authoring.script.workflows import Call
from holdfast.core.commands import Send
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.ids import check_id, check_name, child_id
from holdfast.core.status import Status
from holdfast.errors import NotAllowedHere, UsageError

R = TypeVar("R")
T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")


def start(
    call: Call[R],
    *,
    id: str | None = None,
    name: str | None = None,
    timeout: Duration | None = None,
    queue: str | None = None,
    on_cancel: Literal["leave", "cancel"] = "leave",
    inherit_attributes: bool = False,
) -> Run[R]:
    """Starts a child run and continues. `await run.result()` waits for it, if you need to.

    - `id`: names the run. Default: derived from the parent's id and the key
    - `timeout`: limits the wait for its result, never the child; by default a year
    - `queue`: where it waits for a worker. Default: the parent's queue
    - `inherit_attributes=True`: it starts with this run's current attributes; by default with none
    - `on_cancel="cancel"`: it is cancelled when its parent is cancelled or killed, fails or passes its deadline; by
      default it continues
    - `name`: the key. Default: the workflow's name
    """
    program = require_program("start()", in_step="Start it from the workflow.", outside="Use: await app.start(call).")
    child = call.child
    if child is None:
        raise NotAllowedHere("start() takes a call made in this run: start(ship(order))")
    if child.has_begun or program.children.has(child):
        raise UsageError(f"start(): {child.key} ({child.place}) was started before; make another call for another run")
    key = program.take_key(check_name(name, "name=")) if name is not None else child.key
    run = check_id(id, "id=") if id is not None else child_id(program.beginning.identity, key)
    child.key = key
    child.command = msgspec.structs.replace(
        child.command,
        key=key,
        run=run,
        queue=check_name(queue, "queue=") if queue is not None else "",
        awaited=timeout is not None,
        on_cancel="cancel" if on_cancel == "cancel" else "",
        attributes=dict(program.attributes) if inherit_attributes else {},
    )
    if timeout is not None:
        child.timeout = parse_duration(timeout, what="timeout= of start()")
    program.children.ask(child)
    return ChildRun(child.command.run, child, program)


class _Result:
    """Awaits a child's end."""

    def __init__(self, child: ChildCall) -> None:
        self._child = child

    def __await__(self) -> Any:
        return self._child.program.children.result(self._child)


class ChildRun(Run[R]):
    """A child as its parent sees it: what a workflow may do is durable; the rest belongs in a client."""

    def __init__(self, id: str, child: ChildCall, program: ScriptProgram) -> None:
        super().__init__(id)
        self._child = child
        self._program = program

    async def result(self, timeout: Duration | None = None) -> R:
        """Waits for the child's end, durably."""
        if timeout is not None:
            raise NotAllowedHere("inside a workflow the time limit of a child goes to start(call, timeout=…)")
        value: R = await _Result(self._child)
        return value

    async def signal(
        self, channel: Channel[T], value: T, *, id: str | None = None, connection: object | None = None
    ) -> None:
        """Sends a signal with this turn. One that does not arrive is only logged; `channel.send(run.id, …)` can be
        awaited."""
        if connection is not None:
            raise NotAllowedHere(
                "run.signal(connection=…) in a workflow: it is sent with the turn; leave connection= out"
            )
        _ = send_signal(Receipt, self._program, self.id, channel, value, id)

    async def cancel(self, reason: str = "") -> None:
        """Asks the child to stop, with this turn."""
        program = self._program
        program.ask(Send(key=program.take_key(f"cancel {self.id}"), to=self.id, kind="cancel", name=reason))

    async def wait(self, timeout: Duration | None = None) -> Status | None:
        self._refuse("wait")

    async def status(self) -> Status:
        self._refuse("status")

    async def view(self) -> RunView:
        self._refuse("view")

    async def update(
        self, update: AnyUpdate[Q, A], value: Q, *, id: str | None = None, timeout: Duration | None = None
    ) -> A:
        self._refuse("update")

    async def get(self, var: RunVar[T]) -> T | None:
        self._refuse("get")

    def watch(self, var: RunVar[T]) -> AsyncIterator[T]:
        self._refuse("watch")

    async def kill(self, reason: str = "") -> None:
        self._refuse("kill")

    async def delete(self) -> int:
        self._refuse("delete")

    async def redact(self, *paths: str, reason: str = "", dry_run: bool = False) -> RedactionResult:
        self._refuse("redact")

    async def pause(self, reason: str = "") -> None:
        self._refuse("pause")

    async def resume(self) -> None:
        self._refuse("resume")

    async def messages(self) -> list[StoredMessage]:
        self._refuse("messages")

    async def drop_message(self, message: int | str, reason: str = "") -> bool:
        self._refuse("drop_message")

    async def replace_message(self, message: int | str, value: object, reason: str = "") -> None:
        self._refuse("replace_message")

    async def retry(self, *, id: str | None = None) -> Run[R]:
        self._refuse("retry")

    def follow(self, *, after: int | JournalEvent = 0) -> AsyncIterator[JournalEvent]:
        self._refuse("follow")

    def read(
        self, stream: Sent[T], *, after: int | Part[Any] | None = None, only: Literal["completed"] | None = None
    ) -> AsyncIterator[Part[T]]:
        self._refuse("read")

    def _refuse(self, verb: str) -> NoReturn:
        raise NotAllowedHere(
            f"run.{verb}() reads or changes the outside world; in a workflow use result(), signal() or cancel(), or do "
            "it in a step with app.get(…)"
        )
