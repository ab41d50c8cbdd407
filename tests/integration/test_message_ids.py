"""A message id that is used twice: the same message is a repeat, another one is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import holdfast.sync as hs
from holdfast import Conflict, Signal, Topic, Update, workflow
from holdfast.client.client_run import ClientRun
from holdfast.testing import Sim
from tests.support.world import World

go = Signal[int]("go")
text = Signal[str]("text")
ask = Update[int, int]("ask")
news = Topic[str]("news")
LARGE = "x" * 200_000


@workflow
async def takes() -> list[object]:
    return [await go.wait(), await text.wait()]


@workflow
async def reads() -> str:
    return await news.wait()


async def test_an_id_of_another_value_or_name_is_refused(world: World) -> None:
    """Promise: `Conflict` says what was sent under the id and what next, before the run took it and after it ended; the
    same message stays a repeat, and the run has the first one."""
    app = world.app(takes)
    run = await app.start(takes(), id="r")
    await run.signal(go, 1, id="m1")
    await run.signal(text, LARGE, id="m2")

    async def check() -> None:
        await run.signal(go, 1, id="m1")
        await run.signal(text, LARGE, id="m2")
        with pytest.raises(Conflict, match=r"run r: id 'm1' was used for signal go with another value.*different id"):
            await run.signal(go, 2, id="m1")
        with pytest.raises(Conflict, match="id 'm2' was used for signal text with another value"):
            await run.signal(text, LARGE + "!", id="m2")
        with pytest.raises(Conflict, match="id 'm1' was used for signal go, so signal text was not sent"):
            await run.signal(text, "1", id="m1")

    await check()
    async with world.worker(app):
        assert await run.result("60s") == [1, LARGE]
    await check()
    assert await run.messages() == []


async def test_another_sender_may_repeat_a_message(world: World) -> None:
    """Promise: who sends makes no difference: a service that crashed after it sent sends again under another name."""
    app = world.app(takes)
    run = await app.start(takes())
    client = await app.client()
    for actor in ("mail", "mail after a restart"):
        acting = client.acting_as(actor)
        await (await acting.get(run.id)).signal(go, 1, id="m1")
    assert len(await run.messages()) == 1


async def test_an_id_of_a_question_is_refused(world: World) -> None:
    """Promise: the ids of questions and signals to a run are the same ids."""
    app = world.app(takes)
    run = await app.start(takes())
    asked = asyncio.ensure_future(run.update(ask, 1, id="m1"))
    assert isinstance(run, ClientRun)
    await world.until(lambda: has_messages(run, 1))
    with pytest.raises(Conflict, match="id 'm1' was used for update ask, so signal go was not sent"):
        await run.signal(go, 1, id="m1")
    asked.cancel()
    await run.signal(go, 1, id="m2")
    with pytest.raises(Conflict, match="id 'm2' was used for signal go, so update ask was not sent"):
        await run.update(ask, 1, id="m2")


async def has_messages(run: ClientRun[list[object]], count: int) -> bool:
    return len(await run.messages()) == count


async def test_the_signal_of_a_start(world: World) -> None:
    """Promise: a start that finds its run sends the same signal once, and is refused another one under its id."""
    app = world.app(takes)
    run = await app.start(takes(), id="r", signal=(go, 1, "m1"))
    await app.start(takes(), id="r", signal=(go, 1, "m1"))
    with pytest.raises(Conflict, match="id 'm1' was used for signal go with another value, so the signal of the start"):
        await app.start(takes(), id="r", signal=(go, 2, "m1"))
    assert [message.value for message in await run.messages()] == ["1"]


async def test_a_signal_that_was_replaced_may_be_repeated(world: World) -> None:
    """Promise: an operator's value in its place does not fail the sender who sends it again."""
    app = world.app(takes)
    run = await app.start(takes())
    await run.signal(go, 1, id="m1")
    await run.pause()
    await run.replace_message("m1", 5)
    await run.signal(go, 1, id="m1")
    assert [message.value for message in await run.messages()] == ["5"]


async def test_a_published_id_of_another_value_is_refused(world: World) -> None:
    """Promise: while a run that got it still waits, another value under the id is refused and reaches nobody; the same
    reaches whoever came since."""
    app = world.app(reads)
    async with world.worker(app):
        run = await app.start(reads(), id="r0")
        await world.until_waiting(run, "waiting for topic news")
    assert await app.publish(news, "rain", id="p1") == ["r0"]
    with pytest.raises(Conflict, match=r"run r0: id 'p1' was used for topic news with another value.*was not sent"):
        await app.publish(news, "sun", id="p1")
    assert await app.publish(news, "rain", id="p1") == ["r0"]
    assert len(await run.messages()) == 1


async def test_in_a_callers_transaction(shared: World) -> None:
    """Promise: what was committed under the id is compared there too, and the transaction stays usable."""
    app = shared.app(takes)
    run = await app.start(takes(), id="r")
    await run.signal(go, 1, id="m1")
    async with app.connection() as connection:
        with pytest.raises(Conflict, match="id 'm1'"):
            await run.signal(go, 2, id="m1", connection=connection)
        with pytest.raises(Conflict, match="id 'm1'"):
            await app.start(takes(), id="r", signal=(go, 2, "m1"), connection=connection)
        await run.signal(go, 1, id="m1", connection=connection)
        await run.signal(text, "x", id="m2", connection=connection)
    assert [message.id for message in await run.messages()] == ["m1", "m2"]


def test_blocking_code_and_the_simulation(tmp_path: Path, sim: Sim) -> None:
    """Promise: `holdfast.sync` and `Sim` refuse it too."""
    app = hs.App(f"sqlite:///{tmp_path / 'x.db'}", workflows=[takes])
    try:
        run = app.start(takes(), id="r")
        for _ in range(2):
            run.signal(go, 1, id="m1")
        with pytest.raises(Conflict, match="id 'm1'"):
            run.signal(go, 2, id="m1")
    finally:
        app.close()
    tried = sim.start(takes())
    for _ in range(2):
        tried.signal(go, 1, id="m1")
    with pytest.raises(Conflict, match="id 'm1'"):
        tried.signal(go, 2, id="m1")
