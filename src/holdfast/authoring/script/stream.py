"""`Stream`: parts that a run sends to the outside as they come, in order, at offsets.

In a step a part is buffered and written soon, with others of this worker; in a workflow it is written with the turn.
The journal holds no parts. It records the stream and number of a workflow's parts, and the offsets of a step's.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from holdfast.authoring.script._stdlib import get_running_loop
from holdfast.authoring.script.channels import Typed
from holdfast.authoring.script.context import StepScope, find_program, running_step
from holdfast.authoring.script.script_program import ScriptProgram
from holdfast.core.commands import Emit
from holdfast.core.payload import MAX_INLINE
from holdfast.core.references import references_in
from holdfast.errors import InvalidInput, NotAllowedHere, NotInRun, PayloadTooLarge, StreamFull

T = TypeVar("T")

MOST_PARTS = 10_000
MOST_BYTES = 1_000_000
"""Maximum parts of one stream of a run that wait to be written, or that one turn of a workflow sends."""


class Sent(Typed[T]):
    """What both kinds of stream share."""

    def send(self, value: T) -> None:
        """Sends a part, from a step or a workflow, and never waits. In a step it is durable soon, before the step's
        outcome is; in a workflow with the turn. Raises `StreamFull` if more than 10,000 parts or 1 MB wait to be
        written, and `asyncio.CancelledError` in a step whose result is no longer needed."""
        program = find_program()
        scope = running_step.get() if program is None else None
        if program is None and scope is None:
            raise NotInRun(f"{self!r}.send() works in a step or workflow of a run. To read from outside: run.read(…).")
        data = self.encode(value)
        if len(data) > MAX_INLINE:
            raise PayloadTooLarge(
                f"a part for {self!r} has {len(data):,} bytes; at most {MAX_INLINE:,} are allowed. "
                "Send it in smaller parts.",
                size=len(data),
                limit=MAX_INLINE,
            )
        if references_in(data):
            raise InvalidInput(
                f"a part for {self!r} holds a BlobRef, and a stream keeps no blobs. Return the BlobRef from the step."
            )
        if program is not None:
            self._send_with_turn(program, data)
        elif scope is not None:
            in_plain_step(scope, f"{self!r}.send()")
            scope.surroundings.send_part(scope, self.name, data)

    def _send_with_turn(self, program: ScriptProgram, data: bytes) -> None:
        parts, size = program.sent.get(self.name, (0, 0))
        if parts + 1 > MOST_PARTS or size + len(data) > MOST_BYTES:
            raise StreamFull(
                f"{self!r} got {parts:,} parts of {size:,} bytes in one turn of the workflow, at most {MOST_PARTS:,} "
                f"and {MOST_BYTES:,}. Send them from a step, or wait for something between them.",
                stream=self.name,
                parts=parts,
            )
        program.sent[self.name] = (parts + 1, size + len(data))
        program.ask(Emit(name=self.name, value=data))


class Stream(Sent[T]):
    """Parts that a run sends to the outside as they come: `tokens = Stream[str]("tokens")`, sent with `tokens.send(…)`,
    read with `run.read(tokens)`. Ordered and durable; it ends with the run and is removed with it."""

    def flush(self) -> Awaitable[None]:
        """Awaited in a step: returns when everything that the step has sent is durable."""
        scope = _flushing(self)
        if get_running_loop() is None:
            raise NotAllowedHere(f"{self!r}.flush() is awaited. In a `def` step use the Stream of holdfast.sync.")
        return scope.surroundings.flush_parts(scope)


class SyncStream(Sent[T]):
    """As `holdfast.Stream`; `flush()` blocks, for `def` steps."""

    def flush(self) -> None:
        """In a step: waits until everything that the step has sent is durable."""
        scope = _flushing(self)
        if get_running_loop() is not None:
            raise NotAllowedHere(f"{self!r}.flush() of holdfast.sync blocks. In an async step use holdfast.Stream.")
        scope.surroundings.wait_for(scope.surroundings.flush_parts(scope))


def _flushing(stream: Sent[T]) -> StepScope:
    verb = f"{stream!r}.flush()"
    if find_program() is not None:
        raise NotAllowedHere(f"{verb} is for steps. A workflow's parts are written with its turn: leave it out.")
    scope = running_step.get()
    if scope is None:
        raise NotInRun(f"{verb} works only in a step of a run")
    in_plain_step(scope, verb)
    return scope


def in_plain_step(scope: StepScope, verb: str) -> None:
    """Refuses what a step cannot do while its transaction is open."""
    if scope.connection is not None:
        raise NotAllowedHere(
            f"{verb} in step {scope.step}, which has tx=True: it may write only through its transaction. Send from "
            "another step, or from the workflow."
        )
