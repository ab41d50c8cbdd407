"""A step as a run of its own: `app.start(email.call(…))`."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from holdfast import App, Limit, Retry, Schedule, resource, step, sync, workflow
from holdfast.errors import InvalidInput, RunFailed, UnknownWorkflow
from holdfast.testing import Fake, Sim, crash_sweep
from tests.support.world import World

mail = Limit("mail", at_once=1)


class Bounced(Exception):
    """The address does not exist."""


@resource
async def postbox() -> AsyncGenerator[list[str]]:
    yield []


@step(raises=(Bounced,), limits=[mail])
async def email(to: str, copies: int = 1) -> str:
    postbox().append(to)
    if "@" not in to:
        raise Bounced(to)
    return f"{copies} to {to}"


@step
def shout(word: str) -> str:
    return word.upper()


said: list[str] = []


@step
async def note(word: str) -> None:
    said.append(word)


@step(retry=Retry.none)
async def broken() -> None:
    raise RuntimeError("no")


@workflow
async def invite(to: str) -> str:
    return await email.call(to, copies=2)


async def test_a_step_is_started_without_a_workflow(world: World) -> None:
    """Promise: async and sync steps, with every option of a start; limits and resources are those of the step."""
    app = world.app(email, shout)
    async with world.worker(app):
        run = await app.start(email.call("ann@example.org", copies=3), id="welcome", attributes={"kind": "mail"})
        assert await run.result(timeout="60s") == "3 to ann@example.org"
        assert await (await app.start(shout.call("hey"))).result(timeout="60s") == "HEY"
        (view,) = [view async for view in app.runs(workflow="email")]
        assert (view.id, view.workflow) == ("welcome", "email")
        await app.start(email.call("ann@example.org", copies=3), id="welcome")
        assert len([view async for view in app.runs(workflow="email")]) == 1


async def test_what_a_step_may_raise_arrives_as_itself(world: World) -> None:
    """Promise: `raises` of the step counts for its run; another error fails the run."""
    app = world.app(email, broken)
    async with world.worker(app):
        with pytest.raises(Bounced, match="nobody"):
            await (await app.start(email.call("nobody"))).result(timeout="60s")
        with pytest.raises(RunFailed, match="RuntimeError: no"):
            await (await app.start(broken.call())).result(timeout="60s")


async def test_a_step_is_a_child_of_a_run(world: World) -> None:
    """Promise: `.call` in a workflow makes a child run."""
    app = world.app(invite, email)
    async with world.worker(app):
        run = await app.start(invite("bob@example.org"), id="invited")
        assert await run.result(timeout="60s") == "2 to bob@example.org"
        assert {view.id async for view in app.runs()} == {"invited", "invited/email"}


async def test_a_step_is_the_item_of_a_batch(world: World) -> None:
    """Promise: a batch takes a step as it takes a workflow."""
    app = world.app(shout)
    async with world.worker(app):
        batch = await app.start_batch(shout, ["a", "b", "c"])
        assert [item.result async for item in batch.items()] == ["A", "B", "C"]


def test_a_schedule_starts_a_step() -> None:
    """Promise: what a schedule calls may be a step."""
    said.clear()
    app = App("memory://", workflows=[note], schedules=[Schedule("hourly", note.call("tick"), every="1h")])
    with Sim(app) as sim:
        sim.advance("2h30m")
    assert said == ["tick", "tick"]


def test_simulations_fake_and_sweep_it() -> None:
    """Promise: a fake stands for the step, and no crash loses its run or doubles its outcome."""
    with Sim() as sim:
        sim.use(Fake(shout, lambda word: f"fake {word}"))
        assert sim.start(shout.call("x")).result() == "fake x"
    crash_sweep(shout.call("x")).assert_ok()


async def test_a_step_that_is_not_served_is_named() -> None:
    """Promise: what is wrong is said before anything starts."""
    app = App("memory://", workflows=[email])
    with pytest.raises(UnknownWorkflow, match=r"App\(workflows=\[shout\]\)"):
        await app.run_here(shout.call("x"))
    with pytest.raises(InvalidInput, match="copies"):
        await app.start(email.call("x", copies="many"))  # type: ignore[arg-type]


def test_a_step_is_started_from_blocking_code() -> None:
    """Promise: `holdfast.sync` has it too."""
    with sync.App("memory://", workflows=[shout]) as app, app.worker():
        assert app.start(shout.call("loud")).result(timeout="60s") == "LOUD"


async def test_two_steps_of_one_name_are_not_served_as_runs() -> None:
    """Promise: a name that two steps share starts neither by chance."""

    @step(name="shout")
    async def other(word: str) -> str:
        return word

    app = App("memory://", workflows=[shout, other])
    with pytest.raises(UnknownWorkflow):
        await app.run_here(shout.call("x"))
