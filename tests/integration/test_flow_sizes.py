"""The work of a flow grows with its steps, not with their square; how many run at once, and how many may run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from holdfast import RunFailed, step
from holdfast.authoring.flow.flow_program import AT_ONCE, Driver
from holdfast.testing import Sim
from tests.integration.flow_shop import served
from tests.support.flows import flow


@step
async def plus(x: int) -> int:
    return x + 1


def chain(length: int) -> Any:
    """Each step reads the one before."""
    steps = {f"s{i}": {"call": "plus", "with": {"x": f"${{steps.s{i - 1}}}" if i else 0}} for i in range(length)}
    return flow("chain", steps, f"${{steps.s{length - 1}}}", brings=(plus,))


def wide(width: int) -> Any:
    """Steps that know nothing of each other, and an output that reads them all."""
    steps = {f"s{i}": {"call": "plus", "with": {"x": i}} for i in range(width)}
    return flow("wide", steps, [f"${{steps.s{i}}}" for i in range(width)], brings=(plus,))


def skipped(length: int) -> Any:
    """A chain whose first step is skipped, and all others with it."""
    steps: dict[str, Any] = {"s0": {"if": "${false}", "call": "plus", "with": {"x": 0}}}
    steps |= {f"s{i}": {"call": "plus", "with": {"x": f"${{steps.s{i - 1}}}"}} for i in range(1, length)}
    return flow("skipped", steps, f"${{steps.s{length - 1}}}", brings=(plus,))


SIZES = (30, 300, 3_000)
SHAPES: dict[str, tuple[Callable[[int], Any], Callable[[int], Any]]] = {
    "chain": (chain, lambda size: size),
    "wide": (wide, lambda size: [*range(1, size + 1)]),
    "skipped": (skipped, lambda size: None),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_work_is_in_proportion_to_steps(
    shape: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """Contract: ten times the steps are at most eleven times the looking, and as many turns; counted, not timed."""
    make, result = SHAPES[shape]
    drivers: list[Driver] = []
    run = Driver.run

    def noted(self: Driver) -> Any:
        drivers.append(self)
        return run(self)

    monkeypatch.setattr(Driver, "run", noted)
    counts: list[tuple[int, int]] = []
    seconds: list[float] = []
    for size in SIZES:
        made, begun = make(size), time.process_time()
        with Sim() as sim:
            whole = sim.start(made(None))
            assert whole.result() == result(size)
            seconds.append(time.process_time() - begun)
            counts.append((drivers[-1].looked_at, len([*whole.follow()])))
    took = ", ".join(f"{each:.2f}" for each in seconds)
    record_property("figure", f"{shape} of 30, 300 and 3,000 steps: {took} s of processor time, {counts} looks, facts")
    assert counts[0][0] <= 8 * SIZES[0]
    for less, more in pairwise(counts):
        assert more[0] <= 11 * less[0]
        assert more[1] <= 11 * less[1]


def test_what_a_flow_declares_may_run_whatever_the_limit() -> None:
    """Contract: the step limit is for what might go on forever: declared steps come on top, items do not."""
    items = flow(
        "items", {"all": {"each": {"in": "${input}"}, "call": "plus", "with": {"x": "${item}"}}}, "${steps.all}"
    )
    app = served(chain(20), items, plus, step_limit=10)
    with Sim(app) as sim:
        assert sim.start(chain(20)(None)).result() == 20
        assert sim.start(items([*range(10)])).result() == [*range(1, 11)]
        with pytest.raises(RunFailed, match=r"each: 11 items, and a run has at most 10 steps .* App\(step_limit=…\)"):
            sim.start(items([*range(11)])).result()


@pytest.mark.spec("stepflow.X2")
def test_so_many_bodies_run_at_once_and_what_waits_is_not_counted() -> None:
    """Contract: a flow far wider than that still ends, and sub-flows are never kept out by those that wait for them."""
    running: list[int] = []
    most: list[int] = []

    @step
    async def busy(x: int) -> int:
        running.append(x)
        most.append(len(running))
        await asyncio.sleep(1)
        running.remove(x)
        return x

    inner = flow("inner", {"b": {"call": "busy", "with": {"x": "${input.x}"}}}, "${steps.b}", brings=(busy,))
    width = 2 * AT_ONCE + 10
    steps: dict[str, Any] = {f"c{i}": {"call": "inner", "with": {"x": i}} for i in range(5)}
    steps |= {f"s{i}": {"call": "busy", "with": {"x": 100 + i}} for i in range(width)}
    outer = flow("outer", steps, [f"${{steps.{name}}}" for name in steps], brings=(inner, busy))
    with Sim() as sim:
        run = sim.start(outer(None))
        sim.advance("10s")
        assert run.result() == [*range(5), *range(100, 100 + width)]
    assert AT_ONCE < max(most) <= AT_ONCE + 5


def test_items_in_work_are_limited() -> None:
    running: list[int] = []
    most: list[int] = []

    @step
    async def busy(x: int) -> int:
        running.append(x)
        most.append(len(running))
        await asyncio.sleep(1)
        running.remove(x)
        return -x

    each = {"in": "${input}", "limit": 3}
    made = flow(
        "made", {"all": {"each": each, "call": "busy", "with": {"x": "${item}"}}}, "${steps.all}", brings=(busy,)
    )
    with Sim() as sim:
        run = sim.start(made([*range(8)]))
        sim.advance("3s")
        assert run.result() == [-x for x in range(8)]
    assert max(most) == 3
