"""Limits on steps, end to end: what begins, what waits, and what a waiting run costs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import pytest

from holdfast import App, Limit, LimitReached, Retry, RetryAfter, RunCancelled, Signal, Status, current, step, workflow
from holdfast.config import Configuration, UpkeepSettings
from holdfast.errors import DefinitionError, StepFailed
from tests.support.world import World, events

go = Signal[bool]("go")


class Gauge:
    """How many bodies run at once, and how many did at most. The first ones stay until as many are in as may be."""

    def __init__(self, full: int) -> None:
        self.now = self.most = 0
        self._full = full
        self._is_full = asyncio.Event()

    async def hold(self) -> None:
        """A body's stay."""
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now == self._full:
            self._is_full.set()
        await self._is_full.wait()
        await asyncio.sleep(0.005)  # one too many would meet this one
        self.now -= 1


@dataclass
class Item:
    customer: str
    cents: int = 1


async def test_no_more_bodies_run_at_once_than_the_limit_allows(world: World) -> None:
    """Promise: over all runs, and all of them are served."""
    gauge, api = Gauge(2), Limit("api", at_once=2)

    @step(limits=[api])
    async def price(number: int) -> int:
        await gauge.hold()
        return number

    @workflow
    async def one(number: int) -> int:
        return await price(number)

    async with world.serving(one) as app:
        runs = [await app.start(one(number)) for number in range(7)]
        assert [await run.result("60s") for run in runs] == list(range(7))
    assert gauge.most == 2


async def test_steps_of_one_run_share_the_limit(world: World) -> None:
    """Promise: a fan-out begins as many as may, and the others one after another."""
    gauge, api = Gauge(3), Limit("api", at_once=3)

    @step(limits=[api])
    async def price(number: int) -> int:
        await gauge.hold()
        return number

    @workflow
    async def many() -> int:
        return sum(await asyncio.gather(*(price(number) for number in range(30))))

    async with world.serving(many) as app:
        assert await (await app.start(many())).result("60s") == sum(range(30))
    assert gauge.most == 3


async def test_each_key_has_its_own_places(world: World) -> None:
    """Promise: by a path, and by a function; one customer does not make another wait."""
    gauges = {"ann": Gauge(1), "bob": Gauge(1)}
    customer, region = Limit("customer", at_once=1), Limit("region", at_once=9)

    @step(limits=[customer.by("item.customer"), region])
    async def price(item: Item) -> int:
        await gauges[item.customer].hold()
        return item.cents

    @price.limit(region)
    def _(item: Item) -> str:
        return item.customer.upper()

    @workflow
    async def both() -> int:
        items = [Item(name) for name in ("ann", "bob", "ann", "bob")]
        return sum(await asyncio.gather(*map(price, items)))

    async with world.serving(both) as app:
        assert await (await app.start(both())).result("60s") == 4
        assert {limit.name for limit in await world.store.limits()} == {"customer", "region"}
    assert [gauge.most for gauge in gauges.values()] == [1, 1]


async def test_a_run_that_waits_is_parked_and_says_for_what(world: World) -> None:
    """Promise: no worker holds it, no attempt is counted, and it says what it waits for."""
    api, begun = Limit("api", at_once=1), asyncio.Event()
    attempts: list[int] = []

    @step(limits=[api])
    async def hold() -> None:
        begun.set()
        await asyncio.sleep(3600)

    @step(limits=[api])
    async def price() -> int:
        attempts.append(current().attempt)
        return 1

    @workflow
    async def holder() -> None:
        await hold()

    @workflow
    async def waiter() -> int:
        return await price()

    async with world.serving(holder, waiter) as app:
        first = await app.start(holder())
        await world.until_set(begun)
        second = await app.start(waiter())

        async def is_parked() -> bool:
            row = await world.store.get(second.id)
            return row is not None and row.status is Status.RUNNING and not row.instance

        await world.until(is_parked)
        assert "waiting for limit api" in (await second.view()).waiting
        assert not attempts
        await first.cancel()
        assert await second.result("60s") == 1
    assert attempts == [1]


async def test_a_step_that_may_not_wait_raises_limit_reached(world: World) -> None:
    """Promise: `limit_wait="0s"` fails in the workflow, without a body, and says so."""
    api, begun = Limit("api", at_once=1), asyncio.Event()

    @step(limits=[api])
    async def hold() -> None:
        begun.set()
        await asyncio.sleep(3600)

    @step(limits=[api], limit_wait="0s")
    async def price() -> int:
        raise AssertionError("it has no place")

    @workflow
    async def holder() -> None:
        await hold()

    @workflow
    async def impatient() -> str:
        try:
            await price()
        except LimitReached as error:
            return f"{error}, {error.attempts}"
        return "served"

    async with world.serving(holder, impatient) as app:
        first = await app.start(holder())
        await world.until_set(begun)
        said = await (await app.start(impatient())).result("60s")
        assert said.startswith("step price failed after 0 attempts: LimitReached: step price met limit api")
        assert said.endswith(", 0")
        await first.cancel()


async def test_a_cancelled_waiter_leaves_the_line(world: World) -> None:
    """Promise: no body, nothing to undo, and the next one is first."""
    api, begun, undone = Limit("api", at_once=1), asyncio.Event(), list[int]()

    @step(limits=[api])
    async def hold() -> None:
        begun.set()
        await asyncio.sleep(3600)

    @step(limits=[api])
    async def price() -> int:
        undone.append(0)
        return 1

    @price.undo
    async def _(result: int) -> None:
        undone.append(result)

    @workflow
    async def holder() -> None:
        await hold()

    @workflow
    async def waiter() -> int:
        return await price()

    async with world.serving(holder, waiter) as app:
        first = await app.start(holder())
        await world.until_set(begun)
        second = await app.start(waiter())

        async def waits() -> bool:
            return bool(await world.store.places_of(second.id))

        await world.until(waits)
        await second.cancel()
        with pytest.raises(RunCancelled):
            await second.result("60s")

        async def has_left() -> bool:
            return not await world.store.places_of(second.id)

        await world.until(has_left)
        await first.cancel()
    assert not undone


async def test_every_attempt_waits_anew(world: World) -> None:
    """Promise: the place is given back between attempts; a failed attempt keeps none."""
    api, seen = Limit("api", at_once=1), list[str]()

    @step(limits=[api], retry=Retry(5, first="1ms", ceiling="2ms"))
    async def shaky(name: str) -> str:
        seen.append(name)
        if seen.count(name) < 3:
            raise ConnectionError(name)
        return name

    @workflow
    async def work(name: str) -> str:
        return await shaky(name)

    async with world.serving(work) as app:
        runs = [await app.start(work(name)) for name in "ab"]
        assert [await run.result("60s") for run in runs] == ["a", "b"]
    assert sorted(seen) == ["a"] * 3 + ["b"] * 3


async def test_retry_after_quiets_the_limit_and_is_no_failed_attempt(world: World) -> None:
    """Promise: one 429 holds everybody back, and costs nothing of the budget."""
    api, seen = Limit("api", at_once=5), list[str]()

    @step(limits=[api], retry=Retry(1))
    async def call(name: str) -> str:
        seen.append(name)
        if len(seen) == 1:
            raise RetryAfter("50ms", limit=api)
        return name

    @workflow
    async def work(name: str) -> str:
        return await call(name)

    async with world.serving(work) as app:
        first = await app.start(work("a"))
        assert await first.result("60s") == "a"
        assert await (await app.start(work("b"))).result("60s") == "b"
    types = [event.type for event in await events(first)]
    assert "held_back" in types
    assert "attempt_failed" not in types


async def test_retry_after_a_limit_of_another_step_is_refused(world: World) -> None:
    """Promise: the step fails with what is wrong and where."""
    api = Limit("api", at_once=5)

    @step
    async def call() -> None:
        raise RetryAfter("1s", limit=api)

    @workflow
    async def work() -> str:
        try:
            await call()
        except StepFailed as error:
            return error.message
        return ""

    async with world.serving(work) as app:
        said = await (await app.start(work())).result("60s")
    assert "does not use that limit" in said


async def test_a_key_that_cannot_be_computed_fails_the_step(world: World) -> None:
    """Promise: a key function that raises, or gives no text, is an error of the step, with its place. No body ran."""
    api = Limit("api", at_once=5)

    @step(limits=[api])
    async def call(name: str) -> str:
        return name

    @call.limit(api)
    def _(name: str) -> str:
        if name == "raise":
            raise KeyError(name)
        return None  # type: ignore[return-value]

    @workflow
    async def work(name: str) -> str:
        try:
            return await call(name)
        except StepFailed as error:
            return f"{error.attempts}: {error.message}"

    async with world.serving(work) as app:
        said = await (await app.start(work("raise"))).result("60s")
        assert said.startswith("0: ")
        assert "could not be computed: KeyError" in said
        assert "NoneType" in await (await app.start(work("none"))).result("60s")


async def test_two_limits_of_one_name_are_refused_before_serving(world: World) -> None:
    """Promise: names are store-wide, so an app says one thing of each."""
    one, other = Limit("api", at_once=1), Limit("api", at_once=2)

    @step(limits=[one])
    async def first() -> None: ...

    @step(limits=[other])
    async def second() -> None: ...

    @workflow
    async def work() -> None:
        await first()
        await second()

    with pytest.raises(DefinitionError, match="two limits have the name 'api'"):
        async with world.serving(work):
            pass


async def test_a_path_that_is_not_there_is_refused_before_serving(world: World) -> None:
    """Promise: a key path is checked against the step's own parameters."""
    api = Limit("api", at_once=1)

    @step(limits=[api.by("item.customers")])
    async def price(item: Item) -> int:
        return item.cents

    @workflow
    async def work() -> int:
        return await price(Item("ann"))

    with pytest.raises(DefinitionError, match="no field 'customers'"):
        async with world.serving(work):
            pass


async def test_a_path_into_a_plain_value_is_refused_before_serving(world: World) -> None:
    """Promise: a text or a number has no fields, so such a path is known to be wrong."""
    api = Limit("api", at_once=1)

    @step(limits=[api.by("sku.customer")])
    async def price(sku: str) -> int:
        return len(sku)

    @workflow
    async def work() -> int:
        return await price("a")

    with pytest.raises(DefinitionError, match=r"sku has no field 'customer'. Its fields: none"):
        async with world.serving(work):
            pass


async def test_after_a_rollback_the_old_rule_applies(world: World) -> None:
    """Promise: the newest rule of a live worker counts; once the last worker that declares it has ended, the one before
    applies again, though no worker starts."""

    def deployed(at_once: int) -> App:
        @step(name="price", limits=[Limit("api", at_once=at_once)])
        async def price() -> int:
            return at_once

        @workflow(name="work")
        async def work() -> int:
            return await price()

        return world.app(work, config=Configuration(upkeep=UpkeepSettings(sweep_interval=timedelta(seconds=1))))

    old, new = deployed(1), deployed(2)

    async def at_once() -> int | None:
        known = await (await old.client()).store.limit("api")
        return None if known is None else known.rule.at_once

    async def is_old() -> bool:
        return await at_once() == 1

    async def is_new() -> bool:
        return await at_once() == 2

    async with world.worker(old):
        await world.until(is_old, "the old rule")
        async with world.worker(new):
            await world.until(is_new, "the new rule")
        await world.until(is_old, "the old rule again")
