"""The workflows whose verbs are counted (`benchmarks.verbs`): each uses one verb, once or twenty times."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from holdfast import Call, RunVar, Signal, Stream, Update, batch, each, set_attributes, sleep, step, workflow

MANY: Final = 20

approved = Signal[bool]("approved")
asked = Update[int, int]("asked")
shown = RunVar[int]("shown")
parts = Stream[str]("parts")


@step
async def work(n: int) -> int:
    return n


@step
async def sends(n: int) -> int:
    for _ in range(n):
        parts.send("part")
    return n


@workflow(accepts=(approved, asked))
async def approve() -> bool:
    return await approved.wait()


@workflow
async def nothing() -> None: ...


@workflow
async def child(n: int) -> int:
    return n


@workflow
async def a_step() -> None:
    await work(1)


@workflow
async def steps_by_each() -> None:
    await each(work, range(MANY), limit=MANY)


@workflow
async def steps_by_gather() -> None:
    await asyncio.gather(*(work(n) for n in range(MANY)))


@workflow
async def steps_in_sequence() -> None:
    for n in range(MANY):
        await work(n)


@workflow
async def a_stream() -> None:
    await sends(MANY)


@workflow
async def a_value() -> None:
    shown.set(1)


@workflow
async def attributes() -> None:
    set_attributes(stage="one")


@workflow
async def a_sleep() -> None:
    await sleep("1ms")


@workflow
async def a_child() -> None:
    await child(1)


@workflow
async def a_batch() -> None:
    await batch(work, range(MANY), concurrency=MANY)


INSIDE: Final[dict[str, Callable[[], Call[Any]]]] = {
    "a step": a_step,
    f"{MANY} steps, one after the other": steps_in_sequence,
    f"`each(step, items, limit={MANY})`, {MANY} items": steps_by_each,
    f"`asyncio.gather` of {MANY} steps": steps_by_gather,
    f"a step that sends {MANY} parts to a stream": a_stream,
    "`RunVar.set(…)`": a_value,
    "`set_attributes(…)`": attributes,
    "`sleep(…)`": a_sleep,
    "a child": a_child,
    f"`batch(step, items, concurrency={MANY})`, {MANY} items": a_batch,
}

WORKFLOWS: Final[list[Any]] = [
    *(approve, nothing, child, a_step, steps_by_each, steps_by_gather, steps_in_sequence),
    *(a_stream, a_value, attributes, a_sleep, a_child, a_batch, work, sends),
]
