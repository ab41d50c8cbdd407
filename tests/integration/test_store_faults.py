"""A store that fails at any single call: the run ends as it would have, and nothing is done twice.

The sweep knows no call by name but the verbs of the ports: it fails the first call of each, then the second, and so
on until the scenario ends before the fault comes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast import App, Retry, Run, RunVar, Signal, Status, current, start, step, workflow
from holdfast.engine import committer, engine
from holdfast.errors import DiskFull, StoreError
from holdfast.ports.inbox import Message
from holdfast.ports.store import Store
from holdfast.worker import claiming
from tests.support.faults import FaultyStore, Mode
from tests.support.world import Kind, World, open_world

T = TypeVar("T")

go = Signal[str]("go")
let = Signal[int]("let")
shown = RunVar[str]("shown")
LARGE = "x" * 200_000
PATIENCE = 8.0
MOST = 60
"""More calls of one method than the scenario makes."""

effects: Counter[str] = Counter()


@step
async def record(name: str) -> str:
    effects[name] += 1
    return name


@step(retry=Retry(3, first="1ms"))
async def flaky(name: str) -> str:
    effects[name] += 1
    if current().attempt == 1:
        raise OSError("not yet")
    return name


@step
def large() -> str:
    effects["large"] += 1
    return LARGE


@workflow
async def part(number: int) -> int:
    await record(f"part {number}")
    return number + await let.wait()


@workflow
async def side() -> None:
    await record("side")


@workflow
async def whole(given: str) -> list[Any]:
    first = await record("first")
    pair = await asyncio.gather(flaky("flaky"), record("beside"))
    shown.set("half")
    start(side(), id="side")
    big = await asyncio.to_thread(large)
    child = await part(1)
    said = await go.wait()
    last = await record("last")
    return [first, *pair, len(big), len(given), child, len(said), last]


EXPECTED = ["first", "flaky", "beside", len(LARGE), len(LARGE), 8, len(LARGE), "last"]
RAN = {"first": 1, "flaky": 2, "beside": 1, "large": 1, "side": 1, "part 1": 1, "last": 1}


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (committer, engine, claiming):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    effects.clear()


async def insist(ask: Callable[[], Awaitable[T]]) -> T:
    """As a caller does that was told to try again: the same request, with the same id."""
    while True:
        try:
            return await ask()
        except StoreError:
            await asyncio.sleep(0)


async def scenario(store: Store, *, is_local: bool) -> None:
    """Start, park, be woken from outside, end; from a client beside a worker, or in its process."""
    app = App(workflows=[whole, part, side], store=store)
    client = app if is_local else App(workflows=[whole], store=store)
    async with app.worker(poll="20ms", ttl="15s", grace="3s"):
        run: Run[list[Any]] = await insist(lambda: client.start(whole(LARGE), id="whole"))
        child = await insist(lambda: _child_of(client, run))
        await insist(lambda: child.signal(let, 7, id="let"))
        await insist(lambda: run.signal(go, LARGE, id="go"))
        assert await insist(run.result) == EXPECTED
        assert await insist(lambda: run.get(shown)) == "half"
        assert await insist(lambda: _ended(client, "side")) is Status.COMPLETED


async def _child_of(client: App, run: Run[Any]) -> Run[Any]:
    while True:
        async for view in client.runs(parent=run.id, workflow="part"):
            return await client.get(view.id)
        await asyncio.sleep(0.001)


async def _ended(client: App, id: str) -> Status | None:
    return await (await client.get(id)).wait()


METHODS = [
    "commit", "read", "create", "get", "list", "exposed", "send", "unread", "claim", "held", "release", "release_all",
    "get_blob", "get_blobs",
]  # fmt: skip


@pytest.mark.parametrize("is_local", [True, False], ids=["local", "apart"])
@pytest.mark.parametrize("mode", ["refused", "answer lost"])
@pytest.mark.parametrize("method", METHODS)
async def test_one_failing_call_changes_nothing(tmp_path: Path, method: str, mode: Mode, is_local: bool) -> None:
    """Promise: whichever call of the store fails once, the run ends with the same result and each body ran as often
    as without the fault."""
    for number in range(1, MOST):
        effects.clear()
        async with open_world("memory", tmp_path, virtual=False) as world:
            faulty = FaultyStore(world.store)
            faulty.fail(method, number, mode=mode)
            try:
                async with asyncio.timeout(PATIENCE):
                    await scenario(faulty.store, is_local=is_local)
            except TimeoutError:
                views = [row for row in (await world.store.list(_all())).runs]
                raise AssertionError(f"stuck after {faulty.fired}: {views}") from None
        assert effects == RAN, faulty.fired
        if not faulty.fired:
            return
        if number >= 12 and method in {"get", "claim", "held"}:  # asked again and again: one is like the next
            return


def _all() -> Any:
    from holdfast.ports.runs import Filter

    return Filter()
