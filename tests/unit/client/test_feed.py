"""News of all runs: what is made of one piece for several readers."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from holdfast.client.feed import News


class Making:
    """Something that takes until it is told to end, and then fails or gives 1."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls = 0
        self.error = error
        self.may_end = asyncio.Event()

    async def make(self) -> int:
        self.calls += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return 1


async def reader(news: News, making: Making) -> asyncio.Task[int]:
    """One that waits by now."""
    task = asyncio.create_task(news.once("key", making.make))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


async def test_it_is_made_once_and_outlives_a_reader() -> None:
    """Promise: a reader that leaves does not end what another one waits for."""
    news, making = News(1, ()), Making()
    leaves, stays = await reader(news, making), await reader(news, making)
    leaves.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaves
    making.may_end.set()
    assert await stays == 1
    assert await news.once("key", making.make) == 1
    assert making.calls == 1


async def test_each_reader_gets_the_error() -> None:
    """Promise: what cannot be made fails for all who asked for it."""
    news, making = News(1, ()), Making(ValueError("no"))
    readers = [await reader(news, making) for _ in range(2)]
    making.may_end.set()
    for task in readers:
        with pytest.raises(ValueError, match="no"):
            await task


async def test_a_failure_after_the_last_reader_is_not_logged() -> None:
    """Promise: nobody needs the error then, and asyncio does not log that nobody took it."""
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    news, making = News(1, ()), Making(ValueError("no"))
    task = await reader(news, making)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    made = news.made["key"]
    making.may_end.set()
    await asyncio.wait([made])
    del news, task, made
    gc.collect()
    assert said == []
