"""A message id in a workflow: the same message counts once, whoever sends it, and another one is told as a conflict."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from holdfast import Conflict, Retry, RunFinished, Signal, Topic, Update, current, sleep, start, sync, workflow
from holdfast.errors import InvalidId, RunFailed
from holdfast.testing import Sim, crash_sweep
from tests.support.world import World

go = Signal[int]("go")
done = Signal[bool]("done")
plain_go = sync.Signal[int]("go")
TAKEN = (
    "run desk: id 'm1' was used for another message, so signal go was not delivered. Use a different id for a "
    "different message. What was sent: holdfast show desk"
)


@workflow
async def desk() -> list[int]:
    """Takes what it was sent until it is done."""
    await done.wait()
    found: list[int] = []
    while (number := await go.wait(timeout="1s", default=0)) != 0:
        found.append(number)
    return found


@workflow
async def sends(*numbers: int) -> list[str]:
    """Each number under one id, one turn after the other."""
    told: list[str] = []
    for number in numbers:
        try:
            await go.send("desk", number, id="m1")
            told.append("delivered")
        except Conflict as error:
            told.append(str(error))
    return told


@workflow
async def sends_at_once(*numbers: int) -> list[str]:
    """The same with one turn."""
    told: list[str] = []
    for receipt in [go.send("desk", number, id="m1") for number in numbers]:
        try:
            await receipt
            told.append("delivered")
        except Conflict as error:
            told.append(str(error))
    return told


@sync.workflow
def sends_plainly(number: int) -> str:
    try:
        plain_go.send("desk", number, id="m1").wait()
    except Conflict as error:
        return str(error)
    return "delivered"


@workflow
async def parent() -> list[int]:
    child = start(desk(), id="desk")
    for _ in range(2):
        await child.signal(go, 1, id="m1")
    await child.signal(go, 2, id="m1")
    await child.signal(done, True)
    return await child.result()


@pytest.mark.parametrize("sender", [sends, sends_at_once], ids=["turn by turn", "in one turn"])
async def test_an_id_of_another_value_is_told_at_the_await(world: World, sender: Any) -> None:
    """Promise: `Conflict` says what was used and what next; the same value is a repeat. The journal holds what the
    program saw, so it replays."""
    await check_conflict(world, sender)


async def test_the_same_on_postgresql(postgres: World) -> None:
    """Promise: the functions of the schema decide it as the other stores do."""
    await check_conflict(postgres, sends)


async def check_conflict(world: World, sender: Any) -> None:
    async with world.serving(desk, sends, sends_at_once, paranoid=True) as app:
        target = await app.start(desk(), id="desk")
        run = await app.start(sender(1, 1, 2, 1))
        assert await run.result("30s") == ["delivered", "delivered", TAKEN, "delivered"]
        await target.signal(done, True)
        assert await target.result("30s") == [1]


async def test_runs_and_clients_use_the_same_ids(world: World) -> None:
    """Promise: who sends makes no difference; and a run that ended keeps its ids."""
    async with world.serving(desk, sends, sends_plainly) as app:
        target = await app.start(desk(), id="desk")
        await target.signal(go, 1, id="m1")
        assert await (await app.start(sends(1))).result("30s") == ["delivered"]
        assert await (await app.start(sends_plainly.call(2))).result("30s") == TAKEN
        with pytest.raises(Conflict, match="id 'm1' was used for signal go with another value"):
            await target.signal(go, 2, id="m1")
        await target.signal(done, True)
        assert await target.result("30s") == [1]
        assert await (await app.start(sends(2, 1))).result("30s") == [TAKEN, "delivered"]


async def test_a_child_is_signalled_under_an_id(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: `child.signal(id=…)` counts once for an id; one that is lost is logged with the reason."""
    async with world.serving(parent, desk) as app:
        with caplog.at_level(logging.WARNING, "holdfast.worker"):
            assert await (await app.start(parent(), id="p")).result("30s") == [1]
        said = "run p: signal go to run desk was not delivered: another message has its id"
        assert caplog.text.count(said) == 1


async def test_each_loss_is_told_for_itself(world: World) -> None:
    """Promise: one id to several runs, and several times to one, are messages of their own."""

    @workflow
    async def quick() -> None: ...

    @workflow
    async def spreads() -> list[str]:
        told: list[str] = []
        for receipt in [go.send(to, 1, id="m1") for to in ("gone", "also", "gone")]:
            try:
                await receipt
            except RunFinished as error:
                told.append(str(error.run_id))
        return told

    async with world.serving(quick, spreads) as app:
        for name in ("gone", "also"):
            await (await app.start(quick(), id=name)).wait("30s")
        assert await (await app.start(spreads())).result("30s") == ["gone", "also", "gone"]


async def test_the_next_pass_sends_the_same_message(world: World) -> None:
    """Promise: a body that runs again from its beginning sends a message with an id once; without one, twice. Another
    value in the next pass is a conflict."""

    @workflow(retry=Retry(3, first="10ms"))
    async def again() -> str:
        receipt = go.send("desk", current().attempt, id="m1")
        _ = go.send("desk", 7)
        if current().attempt == 1:
            raise ConnectionError("once more")
        _ = go.send("desk", 1, id="m1")
        try:
            await receipt
        except Conflict:
            return "conflict"
        return "delivered"

    async with world.serving(desk, again) as app:
        target = await app.start(desk(), id="desk")
        assert await (await app.start(again())).result("30s") == "conflict"
        await target.signal(done, True)
        assert await target.result("30s") == [1, 7, 7]


@workflow
async def swept() -> list[str]:
    """Sends to its child under one id, and learns of the conflict."""
    child = start(desk(), id="desk")
    await go.send(child.id, 1, id="m1")
    await sleep("1s")
    told: list[str] = []
    for number in (1, 2):
        try:
            await go.send(child.id, number, id="m1")
            told.append("delivered")
        except Conflict:
            told.append("conflict")
    await done.send(child.id, True)
    return [*told, str(await child.result())]


def test_a_conflict_survives_every_crash() -> None:
    """Promise: wherever a worker dies, the program sees the same outcomes and the child gets one message."""
    crash_sweep(swept()).assert_ok()
    with Sim() as sim:
        assert sim.start(swept()).result(timeout="1m") == ["delivered", "conflict", "[1]"]


@workflow
async def wrong() -> None:
    await go.send("desk", 1, id="")


def test_a_wrong_id_is_refused_where_it_is_given(sim: Sim) -> None:
    """Promise: the same rule as for a client."""
    sim.start(desk(), id="desk")
    run = sim.start(wrong())
    with pytest.raises(RunFailed, match="InvalidId: message id"):
        run.result()


async def test_a_run_that_is_started_again_under_its_id_sends_anew(world: World) -> None:
    """Promise: after a run was deleted, the next one of its id is another sender: its signals arrive."""

    @workflow
    async def tells(number: int) -> None:
        await go.send("desk", number)

    async with world.serving(desk, tells) as app:
        target = await app.start(desk(), id="desk")
        for number in (1, 2):
            run = await app.start(tells(number), id="nightly")
            await run.result("30s")
            await run.delete()
        await target.signal(done, True)
        assert await target.result("30s") == [1, 2]


@workflow
async def errand() -> int:
    return 5


@workflow
async def waits_for_its_child() -> int:
    child = start(errand(), id="c")
    await go.wait()
    return await child.result()


@pytest.mark.parametrize("id", ["end of c", "ended::c", "undelivered 2:go"])
async def test_an_id_of_holdfasts_own_messages_is_refused_at_every_door(world: World, id: str) -> None:
    """Promise: a caller cannot send under an id by which Holdfast tells a run of the end of its child, or of a message
    that was not delivered: the run would wait forever."""
    question = Update[int, int]("question")
    async with world.serving(waits_for_its_child, errand) as app:
        parent = await app.start(waits_for_its_child(), id="p")
        said = (
            f"{id!r} is an id of Holdfast's own. "
            "Choose one that does not begin with 'end of ' or 'ended::' or 'undelivered '."
        )
        for sent in (
            parent.signal(go, 1, id=id),
            app.publish(Topic[int]("news"), 1, id=id),
            parent.update(question, 1, id=id),
        ):
            with pytest.raises(InvalidId, match=re.escape(said)):
                await sent
        await parent.signal(go, 1)
        assert await parent.result("30s") == 5
