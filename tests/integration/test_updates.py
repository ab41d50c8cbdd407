"""Updates: a question to a run is asked once by its id, and answered, refused or told, whatever crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import msgspec
import pytest

from holdfast import (
    Conflict,
    NotInRun,
    Run,
    RunFinished,
    RunNotFound,
    Signal,
    Update,
    UpdateRefused,
    UpdateTimeout,
    UpdateUnanswered,
    continue_as,
    set_attributes,
    sleep,
    step,
    sync,
    workflow,
)
from holdfast.client.client_run import ClientRun
from holdfast.core import events as e
from holdfast.errors import InvalidInput, NotAllowedHere
from tests.support.world import World, crash


class Reassign(msgspec.Struct):
    to: str


def has_name(asked: Reassign) -> str | None:
    return None if asked.to else "nobody named"


reassign = Update[Reassign, str]("reassign", check=has_name)
plain = sync.Update[int, int]("plain")
other = Update[int, int]("other")
go = Signal[bool]("go")


@step
async def note(text: str) -> str:
    return text.upper()


@workflow(accepts=(reassign, go))
async def takes() -> str:
    async with reassign.take() as ask:
        ask.answer(await note(ask.value.to))
    await go.wait()
    return "done"


@workflow
async def leaves() -> str:
    async with reassign.take() as ask:
        await note(ask.value.to)
    await go.wait()
    return "left"


@workflow
async def serves() -> list[str]:
    seen: list[str] = []

    async def answer(asked: Reassign) -> str:
        if asked.to == "eve":
            raise UpdateRefused("not eve")
        seen.append(asked.to)
        if asked.to == "slow":
            await sleep("1h")
        return await note(asked.to)

    reassign.serve(answer, check=lambda asked: "too long" if len(asked.to) > 10 else None)
    await go.wait()
    return seen


@workflow
async def late() -> str:
    async with reassign.take(timeout="1h", default=None) as ask:
        return "none" if ask is None else ask.value.to


@workflow
async def again(rounds: int) -> str:
    async with reassign.take() as ask:
        if rounds:
            continue_as(again(rounds - 1))
        ask.answer("second life")
    return "over"


@workflow
def blocks() -> int:
    total = 0

    def double(n: int) -> int:
        nonlocal total
        total += n
        return 2 * n

    plain.serve(double)
    with sync.Update[int, int]("stop").take() as ask:
        ask.answer(total)
    return total


def by(name: str) -> Reassign:
    return Reassign(name)


async def test_an_answer_comes_once_by_its_id(world: World) -> None:
    """Promise: the same id asks once and has one answer, also after the run's end; another value is a Conflict."""
    async with world.serving(takes) as app:
        run = await app.start(takes(), id="r")
        assert await run.update(reassign, by("bob"), id="q1") == "BOB"
        turns = (await run.view()).turns
        assert await run.update(reassign, by("bob"), id="q1") == "BOB"
        assert (await run.view()).turns == turns
        with pytest.raises(Conflict, match="different"):
            await run.update(reassign, by("ann"), id="q1")
        await run.signal(go, True, id="s1")
        assert await run.result() == "done"
        assert await run.update(reassign, by("bob"), id="q1") == "BOB"
        with pytest.raises(RunFinished):
            await run.update(reassign, by("bob"), id="q2")
        with pytest.raises(Conflict, match="was used for signal go"):
            await run.update(reassign, by("bob"), id="s1")


async def test_a_run_that_leaves_a_question_tells_who_asked(world: World) -> None:
    """Promise: leaving `take` without an answer is a typed error, and the run continues."""
    async with world.serving(leaves) as app:
        run = await app.start(leaves())
        with pytest.raises(UpdateUnanswered, match="without an answer"):
            await run.update(reassign, by("bob"))
        await run.signal(go, True)
        assert await run.result() == "left"


async def test_a_handler_serves_the_whole_run(world: World) -> None:
    """Promise: answered, refused by the handler, or refused by a check, which costs no turn."""
    async with world.serving(serves) as app:
        run = await app.start(serves())
        assert await asyncio.gather(*(run.update(reassign, by(name)) for name in "abc")) == ["A", "B", "C"]
        with pytest.raises(UpdateRefused, match="not eve") as refused:
            await run.update(reassign, by("eve"))
        assert refused.value.reason == "not eve"
        await world.until_parked(run)
        turns = (await run.view()).turns
        for name, why in (("", "nobody named"), ("x" * 11, "too long")):
            with pytest.raises(UpdateRefused, match=why):
                await run.update(reassign, by(name))
        assert (await run.view()).turns == turns
        await run.signal(go, True)
        assert sorted(await run.result()) == ["a", "b", "c"]


async def test_the_end_refuses_what_is_open(world: World) -> None:
    """Promise: unfinished handlers and questions nobody took are refused with the run's end."""
    async with world.serving(serves, takes) as app:
        for call, name in ((serves(), "slow"), (takes(), "bob")):
            run: Run[Any] = await app.start(call)
            if name == "bob":
                await run.update(reassign, by("first"))
            asked = asyncio.ensure_future(run.update(reassign, by(name), id="q"))
            await world.until(partial(_has_taken, run), "taken in")
            await run.signal(go, True)
            await run.result()
            with pytest.raises(UpdateUnanswered, match="completed before it answered"):
                await asked
            stored = await world.store.question(run.id, "q")
            assert stored is not None
            assert stored.answer is not None
            assert stored.answer.outcome == "ended"


async def _has_taken(run: Run[Any]) -> bool:
    turns = await cast("ClientRun[Any]", run).history()
    return any(isinstance(x, e.UpdateReceived) and x.message == "q" for turn in turns for x in turn.events)


@pytest.mark.parametrize("how", ["kill", "cancel"])
async def test_a_run_that_is_ended_tells_who_asked(world: World, how: str) -> None:
    """Promise: also what no worker ever read."""
    app = world.app(takes)
    async with app:
        run = await app.start(takes())
        asked = asyncio.ensure_future(run.update(reassign, by("bob"), id="q"))
        await world.until(lambda: _is_asked(world, run), "asked")
        await (run.kill() if how == "kill" else run.cancel())
        with pytest.raises(UpdateUnanswered, match="cancelled before it answered"):
            await asked
        stored = await world.store.question(run.id, "q")
        assert stored is not None
        assert stored.answer is not None
        assert stored.answer.outcome == "ended"


async def _is_asked(world: World, run: Run[Any]) -> bool:
    return await world.store.question(run.id, "q") is not None


async def test_after_a_timeout_the_same_id_gets_the_answer(world: World) -> None:
    """Promise: the question stays asked; without a worker, the error says so."""
    app = world.app(takes)
    async with app:
        run = await app.start(takes())
        with pytest.raises(UpdateTimeout, match="No live worker serves takes") as timed_out:
            await run.update(reassign, by("bob"), timeout="10ms")
        async with world.worker(app):
            assert await run.update(reassign, by("bob"), id=timed_out.value.id) == "BOB"


async def test_an_answer_survives_its_worker(world: World) -> None:
    """Promise: a worker that dies after its answer is durable leaves it to who asks again."""
    app = world.app(takes)
    async with app:
        run = await app.start(takes())
        async with world.worker(app) as worker:
            assert await run.update(reassign, by("bob"), id="q1") == "BOB"
            await crash(worker)
        assert await run.update(reassign, by("bob"), id="q1", timeout="60s") == "BOB"


async def test_a_question_that_is_not_taken_in_time_is_kept(still: World) -> None:
    """Promise: `default` after the timeout; what comes later is refused with the end."""
    async with still.serving(late) as app:
        run = await app.start(late())
        await still.until_parked(run)
        await still.advance("2h")
        assert await run.result() == "none"


async def test_continuing_leaves_what_was_taken(world: World) -> None:
    """Promise: a question that was taken in one life is told; what nobody took is asked of the next."""
    async with world.serving(again) as app:
        run = await app.start(again(1))
        with pytest.raises(UpdateUnanswered):
            await run.update(reassign, by("one"))
        assert await run.update(reassign, by("two")) == "second life"


async def test_a_sync_workflow_takes_and_serves(world: World) -> None:
    """Promise: handlers of `def` workflows are plain functions, run between its own waits."""
    async with world.serving(blocks) as app:
        run = await app.start(blocks.call())
        assert [await run.update(plain, n) for n in (1, 2, 3)] == [2, 4, 6]
        assert await run.update(Update[int, int]("stop"), 0) == 6
        assert await run.result() == 6


async def test_wrong_questions_are_refused_where_they_are_asked(world: World) -> None:
    """Promise: a name that the run does not accept, a value of another type, and a run that is not there."""
    app = world.app(takes)
    async with app:
        run = await app.start(takes())
        with pytest.raises(InvalidInput, match="does not accept update 'other'"):
            await run.update(other, 1)
        with pytest.raises(InvalidInput, match=r"reassign\.to"):
            await run.update(Update[Any, Any]("reassign"), {"to": 7})
        with pytest.raises(InvalidInput):
            await run.update(cast("Any", reassign), 7)
        with pytest.raises(InvalidInput, match="takes an update"):
            await run.update(cast("Any", go), True)
        assert await run.messages() == []
        gone = await app.start(takes())
        await gone.kill()
        await gone.delete()
        with pytest.raises(RunNotFound):
            await gone.update(reassign, by("bob"))


async def test_a_dropped_question_is_told(world: World) -> None:
    """Promise: an operator who drops a question tells who asked, through the run's next turn."""
    app = world.app(takes)
    async with app:
        run = await app.start(takes())
        with pytest.raises(UpdateTimeout):
            await run.update(reassign, by("bob"), id="q", timeout="1ms")
        await run.drop_message("q", "a mistake")
        async with world.worker(app):
            with pytest.raises(UpdateUnanswered, match="dropped it: a mistake"):
                await run.update(reassign, by("bob"), id="q")


@workflow
async def misuses() -> str:
    reassign.serve(lambda asked: "x")
    try:
        reassign.take()
    except NotAllowedHere as error:
        return str(error)
    return ""


async def test_a_served_update_is_not_taken_too(world: World) -> None:
    """Promise: one taker for each name."""
    async with world.serving(misuses) as app:
        assert "update reassign is served" in await (await app.start(misuses())).result()


@pytest.mark.parametrize(
    "verb",
    [reassign.take, lambda: reassign.serve(lambda _: "x"), lambda: set_attributes(a="1")],
    ids=["take", "serve", "set_attributes"],
)
def test_outside_a_run_each_verb_says_what_to_use(verb: Callable[[], object]) -> None:
    """Promise: a verb of workflows outside a run is a typed error."""
    with pytest.raises(NotInRun):
        verb()
