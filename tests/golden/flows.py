"""The workflows whose journals are kept for ever. Never change one: add another, under a new name."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from holdfast import sync
from holdfast.authoring.flow.binding import flow_spec
from holdfast.authoring.flow.format import definition_bytes
from holdfast.authoring.flow.workflow import Flow
from holdfast.authoring.registry import Registry
from holdfast.authoring.script.channels import RunVar, Signal, Topic
from holdfast.authoring.script.children import start
from holdfast.authoring.script.sagas import saga
from holdfast.authoring.script.steps import step
from holdfast.authoring.script.update import Update
from holdfast.authoring.script.verbs import (
    continue_as,
    current,
    each,
    now,
    patched,
    rng,
    set_attributes,
    sleep,
    uuid4,
)
from holdfast.authoring.script.workflows import AnyWorkflow, workflow
from holdfast.core import events as e
from holdfast.core.retry import Retry
from holdfast.core.specs import WorkflowSpec
from holdfast.errors import ResultTimeout, StepFailed, UpdateRefused
from tests.support.flows import flow
from tests.support.pure import PureRun

approved = Signal[bool]("approved")
paid = Topic[str]("orders.paid")
progress = RunVar[str]("progress")
reassign = Update[str, str]("reassign")
delegate = Update[str, str]("delegate")


class Declined(Exception): ...


@step(retry=Retry(3, first="1s"), raises=Declined)
async def charge(order: str, cents: int = 100) -> str:
    if cents < 0:
        raise ValueError("negative")
    if cents == 0:
        raise Declined(order)
    return f"paid {order}"


@charge.undo
async def refund(payment: str, order: str, cents: int = 100) -> None: ...


@step
def label(number: int) -> str:
    return f"#{number}"


@workflow
async def ship(order: str) -> str:
    return order


@workflow
async def sequence(order: str) -> list[str]:
    first = await charge(order)
    progress.set(first)
    second = await charge.options(key=f"tip-{order}")(order, 5)
    return [first, second, await asyncio.to_thread(label, 3), str(uuid4()), str(rng().random()), now().isoformat()]


@workflow
async def fan_out(orders: list[str]) -> list[str]:
    some = await asyncio.gather(*(charge(order) for order in orders))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(charge(order)) for order in orders]
    return [*some, *(task.result() for task in tasks), *await each(charge, orders, limit=2)]


@workflow
async def failing(cents: list[int]) -> list[str]:
    seen: list[str] = []
    for each_cents in cents:
        try:
            seen.append(await charge("o", each_cents))
        except Declined as declined:
            seen.append(f"declined {declined.args[0]}")
        except StepFailed as failed:
            seen.append(f"{failed.type} after {failed.attempts}")
    return seen


@workflow
async def sleeping() -> str:
    await sleep("1h")
    await asyncio.sleep(60)
    try:
        async with asyncio.timeout(5):
            await charge("slow")
    except TimeoutError:
        return "late"
    return "in time"


@workflow
async def signalled() -> list[str]:
    first, second = await asyncio.gather(approved.wait(), approved.wait(timeout="1d", default=False))
    third = await approved.wait(timeout="1h", default=None)
    return [str(first), str(second), str(third), await paid.wait()]


@workflow
async def questioned() -> list[str]:
    """Takes a question, leaves one, serves some, and says what it is found by."""
    set_attributes(stage="taking")
    async with reassign.take() as ask:
        ask.answer(await charge(ask.value))
    async with reassign.take(timeout="1h", default=None) as left:
        assert left is not None
    seen: list[str] = []

    async def served(to: str) -> str:
        if not to:
            raise UpdateRefused("no name")
        seen.append(to)
        return await charge(to)

    delegate.serve(served)
    set_attributes({"served-by": "delegate"}, stage=None)
    await approved.wait()
    return seen


@workflow
async def lengthy(orders: int) -> list[str]:
    """Its journal is compacted before each signal."""
    seen: list[str] = []
    for part in ("morning", "evening"):
        seen += [await charge(f"{part} {number}") for number in range(orders)]
        progress.set(seen[-1])
        seen.append(str(await approved.wait()))
    return [*seen, await charge("last")]


@workflow
async def parenting() -> list[str]:
    started = start(ship("b"), name="sample", timeout="1m")
    seen = [await ship("a")]
    try:
        seen.append(await started.result())
    except ResultTimeout:
        seen.append("late")
    return seen


@workflow
async def compensating(cents: int) -> None:
    async with saga():
        await charge("a")
        async with saga():
            await charge("b")
        await charge("c", cents)


@workflow
async def cancelled() -> None:
    try:
        async with saga():
            await charge("a")
            await charge("b")
    finally:
        await charge("clean up")


@workflow
async def continuing(total: int) -> int:
    if await approved.wait():
        continue_as(continuing(total + 1))
    return total


@workflow(retry=Retry(3, first="1s"))
async def trying_again() -> str:
    done = await charge("once")
    await sleep("1m")
    if current().attempt == 1:
        raise ValueError("outside of steps")
    return done


@workflow
async def gated() -> list[str]:
    seen = [await charge("a")]
    if patched("second charge"):
        seen.append(await charge("b"))
    return seen


@workflow
def blocking(pages: int) -> list[str]:
    with sync.saga():
        first, second = sync.gather(label.call(1), label.call(2))
        sync.sleep("5s")
        return [first, second, *sync.each(label, range(pages), limit=2)]


class Served(Flow[Any, Any]):
    """A flow with everything it calls, as a worker executes it."""

    @functools.cached_property
    def spec(self) -> WorkflowSpec:
        found = Registry([flow_spec(definition_bytes(self.definition), brings=(charge, label, ship))])
        executable = found.find(self.name, self.version)
        assert executable is not None
        return executable


declared = Served(
    flow(
        "declared",
        {
            "a": {"call": "charge", "with": {"order": "${input.id}"}},
            "boxes": {"each": {"in": [1, 2, 3], "limit": 2}, "call": "label", "with": {"number": "${item}"}},
            "no": {"if": "${input.id == 'other'}", "call": "charge", "with": {"order": "x"}},
            "gate": {"approve": {"by": "finance", "timeout": "2d"}, "needs": ["a"]},
            "nap": {"sleep": "1h", "needs": ["gate"]},
            "sent": {"call": "ship", "with": {"order": "${steps.a}"}, "needs": ["nap", "boxes"]},
        },
        {"boxes": "${steps.boxes}", "sent": "${steps.sent}", "by": "${steps.gate.by}", "no": "${steps.no}"},
    ).definition
)


def _declared(run: PureRun) -> PureRun:
    run.turn()
    run.do()
    run.turn(run.signal(Signal[dict[str, Any]]("gate"), {"approved": True, "by": "ann"}))
    run.do()
    run.fire()
    run.turn(run.child_end("sent", "shipped"))
    return run


def _signals(run: PureRun) -> PureRun:
    run.turn()
    run.turn(run.signal(approved, True))
    run.fire()
    run.fire()
    run.turn(run.publication("orders.paid", paid, "o"))
    return run


def _questions(run: PureRun) -> PureRun:
    run.turn()
    run.turn(run.update(delegate, "early"), run.update(reassign, "ann"))
    run.do()
    run.turn(run.update(reassign, "bob"))
    run.turn(run.update(delegate, ""), run.update(delegate, "late"))
    return run.finish(run.signal(approved, True))


def _children(run: PureRun) -> PureRun:
    run.turn()
    run.turn(run.child_end("ship:1", "a"))
    return run.finish()


def _cancels(run: PureRun) -> PureRun:
    run.turn()
    run.do()
    run.turn(e.CancelRequested(reason="customer left", actor="shop", message="c1"))
    run.turn(run.outcome("charge:1"))
    return run.finish()


def _continues(run: PureRun) -> PureRun:
    for answer in (True, True, False):
        run.turn()
        run.turn(run.signal(approved, answer))
    return run


def _finish(run: PureRun) -> PureRun:
    return run.finish()


def _by_chance(run: PureRun) -> PureRun:
    return run.finish_by_chance()


GOLDEN: dict[str, tuple[AnyWorkflow[..., Any], Callable[[], Any], Callable[[PureRun], PureRun]]] = {
    "sequence": (sequence, lambda: sequence("o1"), _finish),
    "gather": (fan_out, lambda: fan_out(["a", "b", "c"]), _by_chance),
    "failure": (failing, lambda: failing([1, 0, -1]), _finish),
    "sleep": (sleeping, sleeping, _finish),
    "signal": (signalled, signalled, _signals),
    "update": (questioned, questioned, _questions),
    "child": (parenting, parenting, _children),
    "saga": (compensating, lambda: compensating(0), _finish),
    "cancel": (cancelled, cancelled, _cancels),
    "continue_as": (continuing, lambda: continuing(0), _continues),
    "workflow_retry": (trying_again, trying_again, _finish),
    "patched": (gated, gated, _finish),
    "flow": (declared, lambda: declared({"id": "o1"}), _declared),
    "sync": (blocking, lambda: blocking.call(3), _finish),
}
