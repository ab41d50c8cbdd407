"""Streams used wrongly: each is refused where it happens, with what to do instead; what was sent before stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import (
    App,
    BlobRef,
    Run,
    RunFailed,
    StepFailed,
    Stream,
    StreamFull,
    put_blob,
    sleep,
    start,
    step,
    sync,
    workflow,
)
from holdfast.errors import HoldfastError, InvalidInput, NotEncodable, NotInRun, PayloadTooLarge
from holdfast.testing import Sim
from tests.support.world import World

tokens = Stream[str]("tokens")
numbers = sync.Stream[int]("numbers")


@workflow
async def chat(prompt: str) -> str:
    tokens.send(prompt)
    return prompt


async def all_of(run: Run[Any], stream: Stream[Any] = tokens, **how: Any) -> list[Any]:
    async with asyncio.timeout(20):
        return [part async for part in run.read(stream, **how)]


def test_outside_a_run() -> None:
    with pytest.raises(NotInRun, match=r"Stream\('tokens'\).send\(\) works in a step or workflow"):
        tokens.send("x")
    with pytest.raises(NotInRun, match=r"flush\(\) works only in a step"):
        _ = tokens.flush()


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (7, NotEncodable, "tokens"),
        ("x" * 140_000, PayloadTooLarge, "at most 131,072 are allowed. Send it in smaller parts"),
    ],
)
def test_a_part_that_cannot_be_sent(sim: Sim, value: Any, error: type[Exception], words: str) -> None:
    """Promise: refused where it is sent, in steps and workflows; what was sent before stays."""
    seen: list[BaseException] = []

    def send() -> None:
        tokens.send("fine")
        try:
            tokens.send(value)
        except HoldfastError as raised:
            seen.append(raised)

    @step
    async def sends() -> None:
        send()

    @workflow
    async def both() -> None:
        send()
        await sends()

    run = sim.start(both())
    run.result()
    assert [type(raised) for raised in seen] == [error] * 2
    assert words in str(seen[0])
    assert [part.value for part in run.read(tokens)] == ["fine"] * 2


def test_wrong_places(sim: Sim) -> None:
    """Promise: each is refused with what to do instead."""
    refs = Stream[BlobRef]("refs")

    @step
    async def sends_reference() -> None:
        refs.send(await put_blob(b"x" * 10))

    @step
    def waits_wrongly() -> None:
        _ = tokens.flush()

    @step
    async def blocks() -> None:
        numbers.flush()

    @workflow
    async def wrong(which: int) -> None:
        if which == 0:
            await sends_reference()
        elif which == 1:
            await asyncio.to_thread(waits_wrongly)
        elif which == 2:
            await blocks()
        elif which == 3:
            await tokens.flush()

    said = ["keeps no blobs", "use the Stream of holdfast.sync", "use holdfast.Stream", "leave it out"]
    for which, words in enumerate(said):
        with pytest.raises((RunFailed, StepFailed), match=words):
            sim.start(wrong(which)).result()


def test_too_much_in_one_turn(sim: Sim) -> None:
    """Promise: at most 10,000 parts or 1 MB in a turn of a workflow; the next turn may send again."""

    @workflow
    async def floods(parts: int, size: int) -> str:
        try:
            for _ in range(parts):
                tokens.send("x" * size)
        except StreamFull as error:
            await sleep("1s")
            tokens.send("after")
            return f"{error.stream} {error.parts}"
        return "all"

    runs = [sim.start(floods(10_001, 0)), sim.start(floods(200, 10_000)), sim.start(floods(10_000, 0))]
    sim.advance("2s")
    assert [run.result() for run in runs] == ["tokens 10000", "tokens 99", "all"]
    assert len(list(runs[0].read(tokens))) == 10_001


def test_a_transaction_writes_nothing_else(sim: Sim, tmp_path: Any) -> None:
    """Promise: send() in a step with tx=True is refused with the reason."""

    @step(tx=True)
    async def books() -> None:
        tokens.send("x")

    @workflow
    async def booked() -> None:
        await books()

    async def main() -> None:
        app = App(f"sqlite:///{tmp_path}/s.db", workflows=[booked])
        async with app.worker():
            run = await app.start(booked())
            with pytest.raises(RunFailed, match="tx=True: it may write only through its transaction"):
                await run.result(timeout="60s")
        await app.close()

    asyncio.run(main())


async def test_wrong_ways_to_read(world: World) -> None:
    async with world.serving(chat) as app:
        run = await app.start(chat("a"))
        wrong: list[dict[str, Any]] = [{"after": -2}, {"after": "1"}, {"after": True}, {"only": "open"}]
        for how in wrong:
            with pytest.raises(InvalidInput):
                await all_of(run, **how)
        with pytest.raises(InvalidInput, match="a Stream is needed"):
            await all_of(run, "tokens")  # type: ignore[arg-type]


def test_a_child_cannot_be_read_in_a_workflow(sim: Sim) -> None:
    @workflow
    async def child() -> None: ...

    @workflow
    async def parent() -> None:
        async for _ in start(child()).read(tokens):
            pass

    with pytest.raises(RunFailed, match=r"run.read\(\) reads or changes the outside world"):
        sim.start(parent()).result()
