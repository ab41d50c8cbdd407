"""Limits in the simulation: on virtual time, and under every crash."""

from __future__ import annotations

import asyncio
from functools import partial

from holdfast import Limit, LimitReached, Signal, now, step, workflow
from holdfast.testing import Sim, crash_sweep

slow = Limit("slow", rate="1/m", burst=1)
one = Limit("one", at_once=1)
sweep = partial(crash_sweep, processes=0)
go = Signal[bool]("go")


@step(limits=[slow])
async def ask(number: int) -> int:
    return number


@workflow
async def all_of_them() -> list[float]:
    begun = now()

    async def timed(number: int) -> float:
        await ask(number)
        return round((now() - begun).total_seconds() / 60)

    return await asyncio.gather(*(timed(number) for number in range(4)))


@step(limits=[one])
async def alone(number: int) -> int:
    return number


@workflow
async def two_by_two() -> int:
    return sum(await asyncio.gather(alone(1), alone(2)))


@step(limits=[slow], limit_wait="30s")
async def impatient(number: int) -> int:
    return number


@workflow
async def gives_up() -> str:
    await ask(0)
    try:
        await impatient(1)
    except LimitReached:
        return "gave up"
    return "served"


def test_a_rate_is_kept_on_virtual_time() -> None:
    """Promise: a step a minute is a step a minute, and no test waits for it."""
    with Sim() as sim:
        run = sim.start(all_of_them())
        sim.advance("5m")
        assert run.result() == [0, 1, 2, 3]


def test_a_wait_that_is_too_long_ends_on_virtual_time() -> None:
    """Promise: `limit_wait` is counted while the run is parked."""
    with Sim() as sim:
        run = sim.start(gives_up())
        sim.advance("31s")
        assert run.result() == "gave up"


def test_a_limited_workflow_survives_every_crash() -> None:
    """Promise: before and after each body and each row; whoever takes over waits for a place like anybody else."""
    sweep(two_by_two()).assert_ok()
