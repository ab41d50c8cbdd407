"""Arguments that a replay does not compare, or that the journal does not keep; and fakes by name."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from holdfast import BlobRef, Retry, RunFailed, Signal, step, workflow
from holdfast.core import events as e
from holdfast.core.turn import decode_row
from holdfast.errors import DefinitionError, InvalidId
from holdfast.testing import Fake, Sim, crash_sweep
from holdfast.testing.virtual_loop import at_once
from tests.support.world import World, forget_programs

go = Signal[bool]("go")
clock = itertools.count()


@step(compare=False)
async def stamped(at: int) -> str:
    return "done"


@step(input="hash")
async def summarise(conversation: list[str]) -> int:
    return len(conversation)


@workflow
async def changing() -> str:
    said = await stamped(next(clock))
    await go.wait()
    return said


@workflow
async def growing(turns: int) -> int:
    conversation: list[str] = []
    for number in range(turns):
        conversation.append(f"{number} " * 500)
        await summarise(list(conversation))
    return len(conversation)


async def replayed(world: World, call: Any) -> str:
    """Runs it to its wait, forgets the program, and lets a replay finish it."""
    app = world.app(changing)
    async with world.worker(app) as worker:
        run = await app.start(call)
        await world.until_parked(run)
        forget_programs(worker)
        await run.signal(go, True)
        await run.wait(timeout="60s")
        return str((await run.status()).value)


async def test_arguments_that_change_are_not_compared(world: World) -> None:
    """Promise: with compare=False a replay whose call has other arguments takes the recorded outcome."""
    assert await replayed(world, changing()) == "completed"


def scheduled(sim: Sim, run: str) -> list[e.StepScheduled]:
    rows = at_once(sim.store.history(run))
    return [x for row in rows for x in decode_row(row).events if isinstance(x, e.StepScheduled)]


def test_a_hash_is_kept_instead_of_the_arguments(sim: Sim) -> None:
    """Promise: the journal grows by a hash for each call, however large its arguments are; the body gets them whole."""
    run = sim.start(growing(20))
    assert run.result() == 20
    asked = scheduled(sim, run.id)
    assert len(asked) == 20
    assert all(len(x.hashed) == 64 and x.value == msgspec.Raw(b"null") and not x.blob for x in asked)
    rows = at_once(sim.store.history(run.id))
    assert sum(len(row.body) for row in rows) < 10_000
    assert at_once(sim.store.space()).blobs == ()


def test_hashed_arguments_survive_every_crash() -> None:
    """Promise: after a crash the workflow makes the arguments again, and they are compared by their hash."""
    crash_sweep(growing(3)).assert_ok()


async def test_other_hashed_arguments_diverge(world: World) -> None:
    """Promise: a replay that asks with other arguments than the hash stands for is paused, as with kept ones."""
    numbers = itertools.count()

    @workflow
    async def fickle() -> None:
        await summarise([str(next(numbers))])
        await go.wait()

    app = world.app(fickle)
    async with world.worker(app) as worker:
        run = await app.start(fickle())
        await world.until_parked(run)
        forget_programs(worker)
        await run.signal(go, True)
        await world.until_status(run, "paused")
        assert "arguments of hash" in (await run.view()).waiting


def test_references_in_hashed_arguments_are_kept(sim: Sim) -> None:
    """Promise: a blob that such arguments refer to stays."""

    @step(input="hash")
    async def reads(ref: BlobRef) -> None: ...

    @workflow
    async def refers() -> None:
        await reads(BlobRef("ab" * 32, 1, "bytes"))

    run = sim.start(refers())
    run.result()
    assert scheduled(sim, run.id)[0].refs == ("ab" * 32,)


def test_a_failed_step_is_retried_with_the_same_arguments(sim: Sim) -> None:
    seen: list[list[str]] = []

    @step(input="hash", retry=Retry(3, first="1s"))
    async def breaks(words: list[str]) -> None:
        seen.append(words)
        if len(seen) < 3:
            raise ValueError("again")

    @workflow
    async def broken() -> None:
        await breaks(["a", "b"])

    run = sim.start(broken())
    sim.advance("1m")
    run.result()
    assert seen == [["a", "b"]] * 3


@pytest.mark.parametrize("options", [{"input": "drop"}, {"compare": "no"}, {"input": None}])
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="@step"):
        step(**options)


# -- fakes by name -----------------------------------------------------------------------------------------------------


@workflow
async def tools(query: str) -> str:
    async def search(text: str) -> str:
        raise AssertionError("the real one")

    return await step(search, name="tool-search")(query)


def finds(text: str) -> str:
    return f"found {text}"


def test_a_step_made_on_the_spot_is_faked_by_its_name(sim: Sim) -> None:
    """Promise: the fake gets the arguments, is journaled as the step, and notes its calls."""
    found = Fake.named("tool-search", finds)
    sim.use(found)
    assert sim.start(tools("cats")).result() == "found cats"
    assert found.calls == [{"text": "cats"}]
    assert "tool-search" in repr(found)


def test_a_fake_by_name_in_a_sweep() -> None:
    crash_sweep(tools("cats"), fakes=[Fake.named("tool-search", finds)]).assert_ok()


def test_an_async_fake_by_name_may_fail(sim: Sim) -> None:
    async def fails(text: str) -> str:
        raise ValueError(text)

    sim.use(Fake.named("tool-search", fails))
    run = sim.start(tools("cats"))
    sim.advance("1h")
    with pytest.raises(RunFailed, match="cats"):
        run.result()


def test_wrong_fakes_by_name() -> None:
    with pytest.raises(DefinitionError, match="give a function"):
        Fake.named("tool-search", "found")  # type: ignore[arg-type]
    with pytest.raises(InvalidId):
        Fake.named("", lambda: None)
