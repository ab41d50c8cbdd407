"""What a batch holds: a chunk of its items, however many there are."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import App, step, workflow
from holdfast.adapters.sqlite import open_sqlite

COUNT, INPUT = 2_000, 8_000
"""Items, and the characters of each input and of its result."""


@step
async def turned(text: str) -> str:
    return text[::-1]


@workflow
async def turn(text: str) -> str:
    return await turned(text)


def texts(count: int) -> Iterator[str]:
    """Each another one, made when it is asked for."""
    return (f"{number:0{INPUT}}" for number in range(count))


class Held:
    """Bytes that were allocated at most, besides what was there before."""

    peak = 0


@contextmanager
def watched() -> Iterator[Held]:
    held = Held()
    gc.collect()
    tracemalloc.start()
    try:
        yield held
        held.peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
async def test_items_are_never_held_all_at_once(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Promise: neither who starts a batch nor who reads its results has more than a few chunks of it in memory."""
    store = await open_sqlite(tmp_path / "batch.db", durability="normal")
    app = App(workflows=[turn], store=store)
    try:
        with watched() as starting:
            many = await app.start_batch(turn, texts(COUNT), id="many")
        async with app.worker():
            assert (await many.result("200s")).completed == COUNT
        with watched() as reading:
            number = 0
            async for item in many.items(order="completion"):
                assert item.value() == f"{item.index:0{INPUT}}"[::-1]
                number += 1
            assert number == COUNT
    finally:
        await store.close()
    figures = {"who starts it": starting, "who reads it": reading}
    shown = ", ".join(f"{key} {each.peak / 2**20:.1f} MB" for key, each in figures.items())
    record_property("figure", f"a batch of 2,000 inputs of 8 kB, with results 32 MB; held at most by {shown}")
    assert starting.peak < COUNT * INPUT / 4
    assert reading.peak < COUNT * INPUT
