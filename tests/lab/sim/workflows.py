"""The workflows of a simulation: one script that plays any plan of the grammar, and one machine.

A plan is data, so a seed can make any. What its bodies did is written to the ledger of the stage: `BODY` is asked where
a step begins and ends. Which code a process runs, the old or the new, is asked likewise: a deployment changes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast import (
    Machine,
    More,
    OutcomeUnknown,
    Permanent,
    Retry,
    Signal,
    StepFailed,
    continue_as,
    current,
    saga,
    sleep,
    step,
    workflow,
)

Node: TypeAlias = list[Any]
"""`[verb, …]`, see `play_node`."""

news = Signal[int]("news")
FEW = Retry(6, first="100ms", factor=2, ceiling="1s")
BIG = 140_000
"""Characters of a payload that goes to a blob."""


class Stage:
    """What the bodies of one simulation reach: set by its world."""

    body: Callable[[], AbstractAsyncContextManager[int]]
    """Entered by every body; gives the number of the attempt."""
    inserts: Callable[[], int]
    """Where the code of this process has one step more; -1: nowhere."""
    poison: Callable[[], None]
    """May end this process."""


STAGE = Stage()


@step(retry=FEW)
async def work(label: str, milliseconds: int, fails: int) -> str:
    """Takes its time; its first attempts may fail."""
    async with STAGE.body() as attempt:
        await asyncio.sleep(milliseconds / 1000)
        if attempt <= fails:
            raise ValueError(f"attempt {attempt}")
        return label


@work.undo
async def undo(result: str, label: str, milliseconds: int, fails: int) -> None:
    """The way back."""
    async with STAGE.body():
        await asyncio.sleep(milliseconds / 2000)


@step(once=True, retry=Retry.none)
async def once(label: str, milliseconds: int) -> str:
    """At most once."""
    async with STAGE.body():
        await asyncio.sleep(milliseconds / 1000)
        return label


@step(retry=FEW)
async def big(label: str) -> str:
    """Its result is a blob."""
    async with STAGE.body():
        return label * (BIG // len(label))


@step(retry=Retry(6, first="100ms"))
async def poisonous(label: str) -> str:
    """Ends its worker, sometimes."""
    async with STAGE.body():
        await asyncio.sleep(0.001)
        STAGE.poison()
        await asyncio.sleep(0)
        return label


@step(retry=Retry.none)
async def refuse(label: str) -> str:
    """Never succeeds."""
    async with STAGE.body():
        raise Permanent(label)


@workflow
async def play(plan: list[Node], rounds: int = 0) -> list[Any]:
    """Plays a plan; `rounds` times it begins anew."""
    heard = [await play_node(node, index) for index, node in enumerate(plan)]
    if rounds:
        continue_as(play(plan, rounds - 1))
    return heard


async def play_node(node: Node, index: int = -2) -> Any:
    """One node; what it gives does not depend on who was faster, but where `model` says so."""
    if index == STAGE.inserts():
        await work(f"new {index}", 1, 0)
    verb, rest = node[0], node[1:]
    match verb:
        case "step":
            return await work(*rest)
        case "sequence":
            return [await play_node(each) for each in rest]
        case "parallel":
            return await asyncio.gather(*(play_node(each) for each in rest))
        case "sleep":
            await sleep(rest[0] / 1000)
            return None
        case "signal":
            return await news.wait()
        case "patient":
            return await news.wait(timeout=rest[0] / 1000, default=-1)
        case "child":
            return await play(rest)
        case "once":
            try:
                return await once(*rest)
            except OutcomeUnknown:
                return "unknown"
        case "race":
            try:
                async with asyncio.timeout(rest[0] / 1000):
                    return await work(*rest[1:])
            except TimeoutError:
                return "late"
        case "saga":
            return await play_saga(rest)
        case "big":
            return (await big(*rest))[: len(rest[0])]
        case "poison":
            return await poisonous(*rest)
        case _:
            raise AssertionError(verb)


async def play_saga(nodes: list[Node]) -> Any:
    """Everything, and then nothing of it."""
    try:
        async with saga():
            for node in nodes:
                await play_node(node)
            await refuse("no")
    except StepFailed:
        return "undone"
    return "kept"


# -- a machine ---------------------------------------------------------------------------------------------------------


@dataclass
class Filling:
    """The first state: `left` parcels to go."""

    left: int
    cents: int = 0


@dataclass
class Packing:
    """Packed one by one."""

    cents: int
    left: int


@dataclass
class Sent:
    """The final state."""

    cents: int


parcels = Machine[Filling, Sent]("parcels", retry=FEW)


@parcels.state
async def fill(state: Filling) -> Filling | Packing:
    """Comes back to itself until all are filled."""
    async with STAGE.body():
        await asyncio.sleep(0.01)
        if state.left > 1:
            return Filling(state.left - 1, state.cents + 10)
        return Packing(state.cents + 10, 2)


@parcels.stepped
async def pack(state: Packing, cursor: int | None) -> More[int] | Sent:
    """One parcel after another."""
    async with STAGE.body():
        done = (cursor or 0) + 1
        await asyncio.sleep(0.005)
        return More(done) if done < state.left else Sent(state.cents + done)


def key_of_body() -> tuple[str, str, int]:
    """Run, key and attempt of the body that asks."""
    here = current()
    return here.run_id, here.idempotency_key, here.attempt
