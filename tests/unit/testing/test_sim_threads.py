"""Threads, processes and real connections in a simulation."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from holdfast import (
    Retry,
    sleep,
    step,
    sync,
    workflow,
)
from holdfast.testing import Fake, Sim


@pytest.fixture
def sim() -> Iterator[Sim]:
    """The plugin's own is tested in test_plugin.py."""
    with Sim() as made:
        yield made


go = sync.Signal[bool]("go")


@sync.step
def load(page: int) -> str:
    return f"page {page}"


@sync.workflow
def report(pages: int) -> list[str]:
    first, second = sync.gather(load.call(1), load.call(2))
    sync.sleep("5d")
    rest = sync.each(load, range(3, pages + 1), limit=2)
    return [first, second, *rest] if go.wait(timeout="1d", default=False) else []


def test_sync_workflows(sim: Sim) -> None:
    fake = Fake(load, lambda page: f"fake {page}")
    sim.use(fake)
    run = sim.start(report.call(4))
    sim.advance("5d")
    run.signal(go, True)
    assert run.result() == ["fake 1", "fake 2", "fake 3", "fake 4"]
    assert [call["page"] for call in fake.calls] == [1, 2, 3, 4]


def test_threads_take_turns(sim: Sim) -> None:
    """Contract: sync steps run in threads, one after the other and in the order they were asked for."""

    @sync.step
    def unequal(n: int) -> int:
        return sum(range(3_000_000)) * 0 + n if n == 0 else n  # the first takes longest

    @workflow
    async def several() -> list[int]:
        return list(await asyncio.gather(*(asyncio.to_thread(unequal, n) for n in range(3))))

    run = sim.start(several())
    assert run.result() == [0, 1, 2]
    ended = [event.data["key"] for event in run.follow() if event.type == "done"]
    assert ended == ["unequal", "unequal:1", "unequal:2"]


def test_a_thread_may_ask_the_loop(sim: Sim) -> None:
    """Contract: a sync step that stores a blob waits for the loop, which waits for nobody then."""

    @sync.step
    def stored(n: int) -> int:
        got: int = sync.get_blob(sync.put_blob({"n": n}))["n"]
        return got

    @workflow
    async def several() -> list[int]:
        return list(await asyncio.gather(*(asyncio.to_thread(stored, n) for n in range(3))))

    assert sim.start(several()).result() == [0, 1, 2]


def crunch(numbers: list[int]) -> int:
    return sum(numbers) + os.getpid() * 0


crunching = step(crunch, executor="process", timeout="10m")


@workflow
async def heavy() -> int:
    return await asyncio.to_thread(crunching, [1, 2, 3])


def test_a_process_is_waited_for(sim: Sim) -> None:
    """Contract: a body in a process of its own takes real time, while the clock stands still."""
    began = sim.now
    assert sim.start(heavy()).result() == 6
    assert sim.now == began


def test_real_connections_come_before_timers(sim: Sim) -> None:
    """Contract: a step that really talks to something is not timed out by virtual time."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    @step(timeout="5s", retry=Retry.none)
    async def ask(word: str) -> str:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server, asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(f"{word}\n".encode())
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
        return line.decode().strip()

    @workflow
    async def talk() -> str:
        await sleep("1h")
        return await ask("hello")

    run = sim.start(talk())
    sim.advance("2h")
    assert run.result() == "HELLO"
