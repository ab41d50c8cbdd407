"""Queues with the real worker, engine and client: on virtual time, and on real stores."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from holdfast import App, Queue, Status, sleep, start, step, sync, workflow
from holdfast.client import queues
from holdfast.client.inspect.finding import Finding
from holdfast.client.inspect.findings import store_findings
from holdfast.client.inspect.story import read_story
from holdfast.core.queue import QueueRules
from holdfast.errors import InvalidId, InvalidQueue
from holdfast.queues.rulebook import declare_queues, settle_queues
from holdfast.testing import Sim
from tests.support.world import World

PATIENCE = 60.0
begun: Counter[str] = Counter()
most: Counter[str] = Counter()
order: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    begun.clear()
    most.clear()
    order.clear()


@step
async def work(name: str, tenant: str) -> str:
    order.append(tenant)
    begun["all"] += 1
    most["all"] = max(most["all"], begun["all"])
    await asyncio.sleep(0.01)
    begun["all"] -= 1
    return name


@workflow
async def job(name: str, tenant: str = "") -> str:
    return await work(name, tenant)


@workflow
async def napping() -> str:
    await sleep("1h")
    return "awake"


@workflow
async def minute() -> None:
    await sleep("1m")


@workflow
async def part(number: int) -> int:
    return number


@workflow
async def family() -> int:
    return await part(1) + await part(2)


@workflow
async def selfish() -> int:
    """Waits for a child that needs a place of its own."""
    return await start(part(1), queue="mail").result()


@workflow
async def starter() -> str:
    return start(part(1), queue="mail").id


# -- on virtual time ---------------------------------------------------------------------------------------------------


def test_at_once_is_kept_and_the_next_run_begins_when_one_ends() -> None:
    """Promise: no poll is needed: the end of a run lets the next one in."""
    with Sim(App("memory://", workflows=[napping], queues=[Queue("mail", at_once=2)])) as sim:
        runs = [sim.start(napping(), queue="mail") for _ in range(5)]
        assert [run.status() for run in runs] == [Status.RUNNING] * 2 + [Status.PENDING] * 3
        sim.advance("61m")
        assert [run.status() for run in runs] == [Status.COMPLETED] * 2 + [Status.RUNNING] * 2 + [Status.PENDING]
        sim.advance("121m")
        assert [run.result() for run in runs] == ["awake"] * 5


def test_a_rate_is_kept_on_virtual_time() -> None:
    """Promise: the claim loop sleeps until the rate lets the next run in."""
    with Sim(App("memory://", workflows=[part], queues=[Queue("mail", rate="60/m")])) as sim:
        runs = [sim.start(part(number), queue="mail") for number in range(10)]
        for number in range(10):
            ended = sum(run.status() is Status.COMPLETED for run in runs)
            assert ended == number + 1
            sim.advance("1s")
        assert [run.result() for run in runs] == list(range(10))


@pytest.mark.spec("stepflow.X2")
def test_a_parent_never_waits_for_a_place_of_its_children() -> None:
    """Promise: children without a queue of their own ride on the place of their parent."""
    with Sim(App("memory://", workflows=[family, part], queues=[Queue("mail", at_once=1)])) as sim:
        runs = [sim.start(family(), queue="mail") for _ in range(3)]
        assert [run.result() for run in runs] == [3, 3, 3]


def test_a_child_that_names_a_queue_waits_there() -> None:
    with Sim(App("memory://", workflows=[starter, part], queues=[Queue("mail", at_once=1)])) as sim:
        sim.call(queues.pause_queue(sim._client, "mail"))
        child = sim.start(starter()).result()
        assert sim.get(child).status() is Status.PENDING
        sim.call(queues.resume_queue(sim._client, "mail"))
        assert sim.get(child).result() == 1


def test_a_parent_that_waits_for_a_child_in_its_own_full_queue_is_named() -> None:
    """Promise: `show` names the two that wait for each other, at both, and what to do; `doctor` too. With a place more
    they end, and nobody is named."""
    with Sim(App("memory://", workflows=[selfish, part], queues=[Queue("mail", at_once=1)])) as sim:
        parent = sim.start(selfish(), queue="mail", id="parent")
        (child,) = [run.id for run in sim.runs() if run.id != parent.id]
        for run in (parent.id, child):
            (said,) = sim.call(read_story(sim._client, run)).limits
            assert f"run {child} needs a place in queue mail" in said
            assert "by run parent above it" in said
        (text,) = [each.text for each in findings_of(sim) if each.state == "problem"]
        assert f"1 of 1 belong to runs that wait for their own children there: parent for {child}" in text
        assert "they wait forever" in text
        assert "holdfast queues set mail --at-once" in text
        sim.call(queues.set_rules(sim._client, "mail", at_once=2))
        assert parent.result() == 1
        assert sim.call(read_story(sim._client, parent.id)).limits == []
        assert all(each.state == "ok" for each in findings_of(sim))


def test_a_queue_that_is_only_full_is_no_deadlock() -> None:
    """Promise: a child that waits while other runs have all places is not said to wait forever."""
    with Sim(App("memory://", workflows=[selfish, part, napping], queues=[Queue("mail", at_once=1)])) as sim:
        sim.start(napping(), queue="mail", id="sleeper")
        parent = sim.start(selfish(), id="parent")
        assert sim.call(read_story(sim._client, parent.id)).limits == []
        assert all("their own children" not in each.text for each in findings_of(sim))


def findings_of(sim: Sim) -> list[Finding]:
    """What doctor says of queues."""

    async def found() -> list[Finding]:
        return [each async for each in store_findings(sim._client) if each.check == "queues"]

    return sim.call(found())


def test_a_tenant_with_many_runs_does_not_delay_one_with_ten() -> None:
    """Promise (L6): at a rate, the ten runs of a small tenant begin within twice the time that they take alone,
    whatever another tenant has waiting. (With ten thousand: `tests/unit/adapters/sqlite/test_fair_gate.py`.)"""
    with Sim(App("memory://", workflows=[part], queues=[Queue("mail", rate="60/m")])) as sim:
        sim.call(queues.pause_queue(sim._client, "mail"))
        for number in range(300):
            sim.start(part(number), queue="mail", share="large", id=f"large-{number}")
        for number in range(10):
            sim.start(part(number), queue="mail", share="small", id=f"small-{number}")
        sim.call(queues.resume_queue(sim._client, "mail"))
        sim.advance("30s")
        started = sorted((run.started_at, run.id) for run in sim.runs() if run.started_at is not None)
        places = [place for place, (_, run) in enumerate(started, 1) if run.startswith("small")]
        assert len(places) == 10
        assert places[-1] <= 2 * 10, places


def last_of_ten(*, before: timedelta | None) -> timedelta:
    """How long the last of ten runs of a small tenant waits in a queue with two places, each taken a minute. Another
    tenant has 300 runs waiting, and has been served for that long; None: there is no other."""
    with Sim(App("memory://", workflows=[minute], queues=[Queue("mail", at_once=2)])) as sim:
        for number in range(0 if before is None else 300):
            sim.start(minute(), queue="mail", share="large", id=f"large-{number}")
        sim.advance(before or timedelta())
        small = [sim.start(minute(), queue="mail", share="small", id=f"small-{number}") for number in range(10)]
        came = sim.now
        sim.advance("1h")
        rows = {run.id: run.started_at for run in sim.runs()}
        return max(started - came for run in small if (started := rows[run.id]) is not None)


@pytest.mark.parametrize("before", [timedelta(), timedelta(seconds=1), timedelta(seconds=59), timedelta(minutes=25.5)])
def test_a_small_tenant_waits_at_most_twice_as_long_as_alone(before: timedelta) -> None:
    """Promise (L6): in time, at two places, whether the large tenant has just begun or has long been served."""
    alone = last_of_ten(before=None)
    assert alone == timedelta(minutes=4)
    assert last_of_ten(before=before) <= 2 * alone


# -- on real stores ----------------------------------------------------------------------------------------------------


async def test_runs_of_a_queue_are_limited_over_two_workers(world: World) -> None:
    """Promise: at most so many begin, whoever holds them, and all of them end."""
    app = world.app(job, queues=[Queue("mail", at_once=3, share_at_once=2)])
    async with world.worker(app), world.worker(app):
        runs = [
            await app.start(job(str(number), "ab"[number % 2]), queue="mail", share="ab"[number % 2])
            for number in range(20)
        ]
        async with asyncio.timeout(PATIENCE):
            assert [await run.result() for run in runs] == [str(number) for number in range(20)]
    assert most["all"] <= 3
    assert Counter(order) == {"a": 10, "b": 10}


async def test_a_paused_queue_and_its_view(world: World) -> None:
    """Promise: nothing begins while it is paused, and the view says why; `doctor` too."""
    app = world.app(job, queues=[Queue("mail", at_once=3)])
    async with world.worker(app):
        await app.pause_queue("mail", "provider is down")
        run = await app.start(job("x"), queue="mail")
        client = await app.client()
        view = await queues.queue_view(client, "mail")
        assert (view.waiting, view.is_paused, view.reason) == (1, True, "provider is down")
        assert "provider is down" in view.held_back
        assert any("provider is down" in text for text in [finding.text async for finding in store_findings(client)])
        assert await run.status() is Status.PENDING
        await app.resume_queue("mail")
        async with asyncio.timeout(PATIENCE):
            assert await run.result() == "x"
        assert [one.name for one in await app.queues()] == ["default", "mail"]


async def test_rules_are_set_and_reset_while_workers_run(world: World) -> None:
    """Promise: what is set counts at once and before what is declared."""
    app = world.app(napping, queues=[Queue("mail", at_once=1)])
    async with world.worker(app):
        client = await app.client()
        runs = [await app.start(napping(), queue="mail") for _ in range(3)]
        await _until_begun(app, 1)
        await queues.set_rules(client, "mail", at_once=2)
        await _until_begun(app, 2)
        await queues.reset_rules(client, "mail")
        view = await queues.queue_view(client, "mail")
        assert (view.at_once, view.begun, view.waiting) == (1, 2, 1)
        assert "2 of 1 places are taken" in view.held_back
        found = [finding.text async for finding in store_findings(client)]
        assert any("places belong to runs that only wait" in text for text in found), found
        for run in runs:
            await run.kill()


async def _until_begun(app: App, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await queues.queue_view(await app.client(), "mail")).parked < count:  # noqa: ASYNC110 until they wait
            await asyncio.sleep(0.01)


async def test_two_deploys_declare_one_queue(world: World) -> None:
    """Promise: the declaration that the store saw first last counts, as long as a live worker makes it."""
    old, new = world.app(job, queues=[Queue("mail", at_once=1)]), world.app(job, queues=[Queue("mail", at_once=2)])
    async with world.worker(old):
        store = (await old.client()).store
        async with world.worker(new):
            assert (await queues.queue_view(await old.client(), "mail")).at_once == 2
            await declare_queues(store, {"mail": QueueRules(at_once=1)}, instance="restarted", by="old")
            assert (await queues.queue_view(await old.client(), "mail")).at_once == 2
        await settle_queues(store, ["mail"])
        assert (await queues.queue_view(await old.client(), "mail")).at_once == 1


@pytest.mark.parametrize("share", ["", " x", "a" * 300, "tab\t"])
async def test_a_wrong_share_starts_nothing(world: World, share: str) -> None:
    app = world.app(job)
    async with app:
        with pytest.raises(InvalidId):
            await app.start(job("x"), share=share)
        assert [run async for run in app.runs()] == []


async def test_wrong_rules_are_not_written(world: World) -> None:
    """Promise: the error comes before anything is written."""
    async with world.app(job) as app:
        client = await app.client()
        for wrong in ({"at_once": 0}, {"rate": "50/x"}, {"shares": {"a": 0}}, {"colour": 1}, {}):
            with pytest.raises(InvalidQueue):
                await queues.set_rules(client, "mail", **wrong)
        assert list(await client.store.queues()) == []


def test_blocking_code_has_the_same_verbs() -> None:
    with sync.App("memory://", workflows=[job], queues=[Queue("mail", at_once=1)]) as app, app.worker():
        app.pause_queue("mail", "later")
        run = app.start(job("x"), queue="mail", share="a")
        assert {view.name: view.held_back for view in app.queues()}["mail"].endswith("later")
        app.resume_queue("mail")
        assert run.result(timeout=PATIENCE) == "x"
