"""Bodies that never wait."""

from __future__ import annotations

import asyncio
import contextvars
from pathlib import Path

import pytest

from holdfast import App, Hook, step, workflow
from holdfast.facts import Fact, RunStarted
from tests.support.world import events

STEPS = 80
WORD: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="")


class Passes:
    """How many bodies ran between two passes of the event loop."""

    def __init__(self) -> None:
        self.bodies = 0
        self.most = 0
        self._is_over = False

    def watch(self) -> None:
        """Looks in every pass from now on."""
        self.most, self.bodies = max(self.most, self.bodies), 0
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self.watch)

    def end(self) -> None:
        """Looks no more."""
        self._is_over = True


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("kind", ["sqlite", "memory"])
async def test_instant_bodies_leave_the_event_loop_to_others(kind: str, runs: int, tmp_path: Path) -> None:
    """Promise: between two passes of the event loop, a run begins one body, however fast it and the store are."""
    passes = Passes()

    @step
    async def instant(n: int) -> int:
        passes.bodies += 1
        return n

    @workflow
    async def counts() -> int:
        return sum([await instant(1) for _ in range(STEPS)])

    url = "memory://" if kind == "memory" else f"sqlite:///{tmp_path / 'instant.db'}"
    async with App(url, workflows=[counts]) as app, app.worker(concurrency=runs):
        passes.watch()
        found = await asyncio.gather(*[(await app.start(counts())).result() for _ in range(runs)])
        passes.end()
    assert found == [STEPS] * runs
    assert 1 <= passes.most <= runs


async def test_bodies_that_begin_together_end_in_one_turn(tmp_path: Path) -> None:
    """Promise: the outcomes of steps that were asked for together share a row, even if no body waits."""

    @step
    async def instant(n: int) -> int:
        return n

    @workflow
    async def gathers() -> int:
        return sum(await asyncio.gather(*[instant(n) for n in range(5)]))

    async with App(f"sqlite:///{tmp_path / 'together.db'}", workflows=[gathers]) as app, app.worker():
        run = await app.start(gathers())
        assert await run.result() == 10
        ended = [event.ordinal for event in await events(run) if event.type == "done"]
    assert (len(ended), len(set(ended))) == (5, 1)


async def test_a_body_does_not_see_what_an_earlier_body_set(tmp_path: Path) -> None:
    """Promise: each body has a copy of the worker's context variables, not of the body's before it."""

    @step
    async def sets(n: int) -> str:
        seen = WORD.get()
        WORD.set(f"set by {n}")
        return seen

    @workflow
    async def asks() -> list[str]:
        return [await sets(n) for n in range(32)]

    async with App(f"sqlite:///{tmp_path / 'context.db'}", workflows=[asks]) as app, app.worker():
        assert set(await (await app.start(asks())).result()) == {""}


async def test_bodies_and_hooks_see_the_context_variables_of_the_worker(tmp_path: Path) -> None:
    """Promise: what a web request or a step's body sets in its context is seen neither by other steps nor by hooks: it
    would be seen in the runs of others too."""
    told: set[str] = set()

    class Watches(Hook):
        def on(self, fact: Fact) -> None:
            if not isinstance(fact, RunStarted):  # told where the run is started
                told.add(WORD.get())

    @step
    async def reads() -> str:
        seen = WORD.get()
        WORD.set("a body's")
        return seen

    @step
    def reads_in_a_thread() -> str:
        seen = WORD.get()
        WORD.set("a thread's")
        return seen

    @workflow
    async def asks(n: int) -> list[str]:
        return [WORD.get(), await reads(), await asyncio.to_thread(reads_in_a_thread)]

    async def request(app: App, n: int) -> list[str]:
        WORD.set(f"request {n}")
        return await (await app.start(asks(n))).result()

    WORD.set("the worker's")
    url = f"sqlite:///{tmp_path / 'requests.db'}"
    async with App(url, workflows=[asks], hooks=[Watches()]) as app, app.worker():
        found = await asyncio.gather(*[asyncio.create_task(request(app, n)) for n in range(3)])
    assert found == [["", "the worker's", "the worker's"]] * 3
    assert told == {"the worker's"}


async def test_an_eager_task_factory_changes_nothing() -> None:
    """Promise: a run comes to its end on an event loop whose tasks all begin at once (from Python 3.12 on)."""

    @step
    async def instant(n: int) -> int:
        return n

    @workflow
    async def counts() -> int:
        return await instant(1) + await instant(2)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory", None))
    try:
        async with App("memory://", workflows=[counts]) as app, app.worker():
            assert await asyncio.wait_for((await app.start(counts())).result(), 30) == 3
    finally:
        loop.set_task_factory(None)
