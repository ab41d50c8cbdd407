"""The script that conducts a batch: an ordinary durable run, so it survives what any run survives.

It reads one chunk of inputs, starts items in order, at most `concurrency` at a time, counts how each ends, and restarts
with the next chunk (`continue_as`), taking the open items along. Breadth-first it gives the items of a chunk one round
after the other (`core.rounds`), at most `concurrency` of them at a time, and restarts when all have ended. It must not
know what an item does or returns. Results stay with the items.

An item that waits for a child of its own holds its place, and its child needs none: a limit of one cannot block itself.
"""

from __future__ import annotations

import asyncio
from asyncio import ALL_COMPLETED, FIRST_COMPLETED
from collections import deque
from datetime import timedelta
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.authoring.batch.batch_plan import (
    CHUNKS,
    COUNTS,
    INDEX,
    NAME,
    PLANS,
    VERSION,
    Chunk,
    Counts,
    Plan,
    Standing,
    item_id,
)
from holdfast.authoring.batch.turns import Turns
from holdfast.authoring.script.calls import ChildCall
from holdfast.authoring.script.channels import Signal
from holdfast.authoring.script.context import require_program
from holdfast.authoring.script.place import place
from holdfast.authoring.script.script_program import ScriptProgram
from holdfast.authoring.script.steps import step
from holdfast.authoring.script.verbs import continue_as, in_step
from holdfast.authoring.script.workflows import CHILD_TIMEOUT, Workflow
from holdfast.core.commands import Expose, StartChild
from holdfast.core.payload import Arguments, Shape
from holdfast.core.retry import Retry
from holdfast.core.rounds import NO_MORE, ROUND
from holdfast.core.specs import WorkflowSpec
from holdfast.errors import ItemsFailed, ResultTimeout, RunCancelled

PLAN, ITEMS = "holdfast.plan", "holdfast.items"
"""The values that a batch exposes: its plan and its counts."""

rounds: Signal[str] = Signal[str](ROUND)
"""Signals of rounds. From an item, with its key: it asks for its next round. To an item: it may begin the round, or
there are no more."""

NO_MORE_ROUNDS: str = msgspec.json.decode(NO_MORE)


@step(name="inputs", retry=Retry(10))
async def read_chunk(index: str, number: int) -> Chunk:
    """Reads one chunk. It returns the stored bytes, so that a large chunk is not stored again as a result."""
    blobs = in_step("a batch").surroundings
    names = INDEX.decode(await blobs.get_blob(index))
    return CHUNKS.decode(await blobs.get_blob(names[number]))


async def conduct(plan: Plan, standing: Standing) -> Counts:
    """One pass of a batch."""
    return await _Life(require_program("a batch"), plan, standing).run()


class _Life:
    """The items of one chunk, and those left open by the chunks before."""

    def __init__(self, program: ScriptProgram, plan: Plan, standing: Standing) -> None:
        self._program = program
        self._plan = plan
        self._spec = _item_spec(plan)
        self._chunk = standing.chunk
        self._completed, self._failed, self._cancelled = standing.completed, standing.failed, standing.cancelled
        self._first_failure = standing.first_failure
        self._open = {index: self._call(index) for index in standing.open}
        self._waiting: deque[tuple[int, str]] = deque()
        self._turns = Turns(plan.concurrency)
        self._all_ended = asyncio.Event()
        self._lanes: list[asyncio.Task[None]] = []
        self._is_to_show = False

    async def run(self) -> Counts:
        """Runs to the end of the chunk, and of the batch if the chunk is the last."""
        if self._chunk == 0:
            self._program.ask(Expose(name=PLAN, value=PLANS.encode(self._plan)))
            self._changed()
        for call in self._open.values():  # at once: a cancel must find them
            self._program.children.ask(call)
        try:
            await self._work()
        except asyncio.CancelledError:
            await self._stop()
            self._show()
            raise
        self._show()
        if self._chunk + 1 < self._plan.chunks:
            continue_as(CONDUCT(self._plan, self._standing()))
        if self._failed:
            raise ItemsFailed(self._verdict(), failed=self._failed, total=self._plan.total)
        return self._counts()

    async def _work(self) -> None:
        """Lanes take items in order. The last chunk ends when all lanes do, any other as soon as a lane finds no more
        items, since the next chunk has some."""
        plan = self._plan
        if self._chunk < plan.chunks:
            chunk = await read_chunk(plan.index, self._chunk)
            self._waiting.extend(zip(chunk.indexes, chunk.args, strict=True))
        if plan.order == "breadth":
            await self._in_rounds()
            return
        is_last = self._chunk + 1 >= plan.chunks
        free = plan.concurrency - len(self._open)
        firsts = [*self._open.items(), *[None] * (min(free, len(self._waiting)) if is_last else free)]
        self._lanes = [asyncio.create_task(self._lane(first)) for first in firsts]
        if self._lanes:
            await asyncio.wait(self._lanes, return_when=ALL_COMPLETED if is_last else FIRST_COMPLETED)

    async def _lane(self, first: tuple[int, ChildCall] | None) -> None:
        if first is not None:
            await self._end_of(*first)
        while self._waiting:
            index, args = self._waiting.popleft()
            self._open[index] = call = self._call(index, args.encode())
            self._changed()
            await self._end_of(index, call)

    async def _in_rounds(self) -> None:
        """Runs breadth-first until every item of the chunk has ended."""
        while self._waiting:
            self._turns.add(*self._waiting.popleft())
        self._give_turns()
        listening = asyncio.create_task(self._listen())
        try:
            if not self._turns.is_over:
                await self._all_ended.wait()
        finally:
            listening.cancel()
        await asyncio.wait([listening])

    def _give_turns(self) -> None:
        while (given := self._turns.give()) is not None:
            index, args = given
            if args is None:
                _ = rounds.send(item_id(self._program.beginning.run, index), str(index))
            else:
                self._open[index] = call = self._call(index, args.encode())
                self._lanes.append(asyncio.create_task(self._all_of(index, call)))
                self._changed()

    async def _all_of(self, index: int, call: ChildCall) -> None:
        await self._end_of(index, call)
        self._turns.end(index)
        self._give_turns()
        if self._turns.is_over:
            self._all_ended.set()

    async def _listen(self) -> None:
        while True:
            self._turns.ask(int(await rounds.wait()))
            self._give_turns()

    async def _end_of(self, index: int, call: ChildCall) -> None:
        try:
            await call
        except (RunCancelled, ResultTimeout):
            self._cancelled += 1
        except Exception as error:  # noqa: BLE001 whatever an item ends with concerns that item alone
            self._failed += 1
            self._first_failure = self._first_failure or f"item {index}: {error}"[:500]
        else:
            self._completed += 1
        del self._open[index]
        self._program.children.forget_value(call)
        self._changed()

    def _call(self, index: int, args: bytes = b"{}") -> ChildCall:
        """The call of an item. Its key is the index in every pass, so the end of an item that was started earlier is
        matched to it. If the item's run exists, the arguments are not used."""
        plan, run = self._plan, self._program.beginning.run
        command = StartChild(
            key=str(index),
            run=item_id(run, index),
            workflow=plan.workflow,
            version=plan.version,
            args=args,
            on_cancel="cancel",
            deadline=timedelta(seconds=plan.deadline) if plan.deadline is not None else None,
            code=plan.code,
            style=plan.style,
            in_rounds=plan.order == "breadth",
        )
        return ChildCall(self._program, place(0), self._spec, command, CHILD_TIMEOUT)

    async def _stop(self) -> None:
        """Cancelled: starts nothing more, and waits for the items that were asked to stop."""
        self._waiting.clear()
        self._turns.stop()
        if self._plan.order == "breadth":
            for index in self._open:  # one that is not cancelled too, as when a deadline passed, continues by itself
                _ = rounds.send(item_id(self._program.beginning.run, index), NO_MORE_ROUNDS)
        left = self._lanes or [asyncio.create_task(self._end_of(*each)) for each in list(self._open.items())]
        if left:
            await asyncio.wait(left)

    def _standing(self) -> Standing:
        return Standing(
            self._chunk + 1, self._completed, self._failed, self._cancelled, list(self._open), self._first_failure
        )

    def _counts(self) -> Counts:
        return Counts(self._plan.total, self._completed, self._failed, self._cancelled, len(self._open))

    def _changed(self) -> None:
        """Exposes the counts once for all changes that happen together: when nothing else is ready."""
        if not self._is_to_show:
            self._is_to_show = True
            asyncio.get_running_loop().call_soon(self._show)

    def _show(self) -> None:
        if not self._is_to_show:
            return
        self._is_to_show = False
        self._program.ask(Expose(name=ITEMS, value=COUNTS.encode(self._counts())))

    def _verdict(self) -> str:
        return (
            f"{self._failed} of {self._plan.total} items failed; the first was {self._first_failure}. "
            "batch.items() has every result, and batch.retry() runs those again that did not complete."
        )


CONDUCT: Workflow[[Plan, Standing], Counts] = Workflow(conduct, name=NAME, version=VERSION, raises=ItemsFailed)


@cache
def batch_spec() -> WorkflowSpec:
    """The workflow of every batch, as the engine knows it."""
    return replace(CONDUCT.spec, is_internal=True, is_unlimited=True, is_begun_when_cancelled=True)


def _item_spec(plan: Plan) -> WorkflowSpec:
    """The part of the item's definition that starting it needs: a batch may run where the items' code is not."""

    def item(**arguments: Any) -> Any: ...

    what = f"items of {plan.workflow}"
    return WorkflowSpec(
        name=plan.workflow,
        version=plan.version,
        function=item,
        is_async=True,
        arguments=Arguments(item, what=what),
        result=Shape(Any, what=what),
        retry=Retry.none,
    )
