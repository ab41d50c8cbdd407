"""The client: starting, asking, listing, following."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    App,
    Call,
    Conflict,
    NotInRun,
    ResultTimeout,
    RunFailed,
    RunNotFound,
    RunVar,
    Signal,
    Status,
    sleep,
    step,
    workflow,
)
from holdfast.client.client_run import ClientRun
from holdfast.errors import InvalidId, InvalidInput, NotAllowedHere, UnknownWorkflow
from holdfast.ports.runs import Filter
from tests.support.world import START, World

go = Signal[int]("go")
progress = RunVar[dict[str, int]]("progress")


@workflow
async def double(number: int) -> int:
    return number * 2


@workflow
async def other(number: int) -> int:
    return number


@workflow
async def waits() -> int:
    return await go.wait()


@workflow
async def both() -> int:
    return await double(1) + await double(2)


@pytest.mark.spec("openworkflow.O1", "openworkflow.O3", "openworkflow.O90", "openworkflow.O91", "vectorbea.V9")
async def test_a_start_is_a_pending_row_and_a_handle_at_once(still: World) -> None:
    """Promise: no worker is needed to start or ask; the row says workflow, version, status and times."""
    app = still.app(double)
    run = await app.start(double(4), id="r", attributes={"tier": "gold"})
    assert await run.status() is Status.PENDING
    view = await run.view()
    assert (view.id, view.workflow, view.version, view.queue) == ("r", "double", "", "default")
    assert (view.created_at, view.started_at, view.ended_at) == (START, None, None)
    assert view.attributes == {"tier": "gold"}
    assert view.waiting == "waiting for a worker"
    still.clock.advance(1)
    async with still.worker(app):
        assert await run.result("60s") == 8
    view = await run.view()
    assert (view.status, view.started_at, view.waiting) == (Status.COMPLETED, START + timedelta(seconds=1), "")
    assert view.ended_at == START + timedelta(seconds=1)


async def test_an_id_names_a_run(world: World) -> None:
    """Promise: the same id and input give the same run, whatever its status; nothing is done twice."""
    async with world.serving(double) as app:
        first = await app.start(double(1), id="mine")
        assert await first.result("60s") == 2
        again = await app.start(double(1), id="mine")
        assert await again.result("60s") == 2
    assert (await world.row("mine")).epoch == 1


async def test_an_id_of_another_workflow_is_a_conflict(world: World) -> None:
    """Promise: an id in use by another workflow is refused, at start and at get."""
    app = world.app(double, other)
    await app.start(double(1), id="mine")
    with pytest.raises(Conflict, match="double"):
        await app.start(other(1), id="mine")
    with pytest.raises(Conflict, match="double"):
        await app.get("mine", other)


@pytest.mark.spec("openworkflow.O93", "openworkflow.O92")
async def test_ten_starts_with_one_key_are_one_run(world: World) -> None:
    """Promise: any number of concurrent starts with one key collapse to one run; without a key each is its own."""
    async with world.serving(double) as app:
        runs = await asyncio.gather(*(app.start(double(3), key="k") for _ in range(10)))
        assert len({run.id for run in runs}) == 1
        assert [await run.result("60s") for run in runs] == [6] * 10
        apart = await asyncio.gather(*(app.start(double(3)) for _ in range(10)))
        assert len({run.id for run in apart}) == 10


@pytest.mark.spec("openworkflow.O93")
async def test_a_key_lasts_a_day(still: World) -> None:
    """Promise: within 24 h the same run, also an ended one; other input is a `Conflict`; after that a new run."""
    app = still.app(double, other)
    first = await app.start(double(3), key="k")
    await first.cancel()
    still.clock.advance(timedelta(hours=23, minutes=59))
    assert (await app.start(double(3), key="k")).id == first.id
    with pytest.raises(Conflict, match="different input"):
        await app.start(double(4), key="k")
    assert (await app.start(other(3), key="k")).id != first.id, "a key belongs to its workflow"
    still.clock.advance(timedelta(minutes=2))
    assert (await app.start(double(4), key="k")).id != first.id


@pytest.mark.spec("openworkflow.O92", "openworkflow.O23")
async def test_a_delayed_start(still: World) -> None:
    """Promise: `delay=` makes the run visible to workers then, and not before."""
    app = still.app(double)
    async with still.worker(app):
        run = await app.start(double(1), delay="10m")
        assert "starts in 10 min" in (await run.view()).waiting
        await still.advance("9m")
        quick = await app.start(double(2))
        assert await quick.result("60s") == 4
        assert await run.status() is Status.PENDING
        await still.advance("1m")
        assert await run.result("60s") == 2


@pytest.mark.spec("openworkflow.O94")
async def test_result_raises_how_it_ended(world: World) -> None:
    """Promise: failed, not found, timed out; `wait` returns a value instead; a finished run's result needs no time."""

    @workflow
    async def fails() -> None:
        raise ValueError("why")

    async with world.serving(double, fails, waits) as app:
        run = await app.start(double(2))
        await run.result("60s")
        assert await run.result(0) == 4
        assert await (await app.get(run.id, double)).result(0) == 4
        failed = await app.start(fails())
        with pytest.raises(RunFailed, match="why") as error:
            await failed.result("60s")
        assert (error.value.type, error.value.message) == ("ValueError", "why")
        assert await failed.wait() is Status.FAILED
        slow = await app.start(waits())
        with pytest.raises(ResultTimeout, match="It continues"):
            await slow.result("20ms")
        with pytest.raises(TimeoutError):
            await slow.result(0)
        assert await slow.wait("20ms") is None
        assert await slow.status() is not Status.FAILED
        with pytest.raises(RunNotFound):
            await app.get("nobody")


async def test_a_run_from_anywhere(world: World) -> None:
    """Promise: `get` needs no code: without it the result is plain data, with it typed."""
    async with world.serving(double) as app:
        await (await app.start(double(2), id="r")).result("60s")
    elsewhere = world.app()
    assert await (await elsewhere.get("r")).result(0) == 4
    assert await (await elsewhere.get("r", double)).result(0) == 4


async def test_a_run_shows_values_to_the_outside(world: World) -> None:
    """Promise: `RunVar` is durable with the turn that sets it, readable without a worker, kept after the end."""

    @workflow
    async def work() -> int:
        progress.set({"page": 1})
        await go.wait()
        progress.set({"page": (progress.get() or {"page": 0})["page"] + 1})
        return 1

    app = world.app(work)
    async with world.worker(app):
        run = await app.start(work())
        await world.until_parked(run)
    assert await run.get(progress) == {"page": 1}
    assert await run.get(RunVar[int]("nothing")) is None
    async with world.worker(app):
        await run.signal(go, 1)
        await run.result("60s")
    assert await run.get(progress) == {"page": 2}


@pytest.mark.spec("openworkflow.O100", "openworkflow.O101", "openworkflow.O3")
async def test_listing(still: World) -> None:
    """Promise: newest first, filtered, page by page; other systems' words are accepted as filters."""
    app = still.app(double, waits)
    for number in range(7):
        await app.start(double(number), id=f"d{number}", attributes={"odd": str(number % 2)}, queue="q")
        still.clock.advance(1)
    async with still.worker(app):
        parked = await app.start(waits(), id="w")
        await still.until_parked(parked)
        gone = await app.start(waits(), id="gone")
        await still.until_parked(gone)
        await gone.cancel()
        await gone.wait("60s")
    assert [view.id async for view in app.runs()][:3] == ["gone", "w", "d6"]
    assert [view.id async for view in app.runs(workflow="double", limit=3)] == ["d6", "d5", "d4"]
    assert [view.id async for view in app.runs(status="pending", attributes={"odd": "1"})] == ["d5", "d3", "d1"]
    assert [view.id async for view in app.runs(status="sleeping")] == ["w"]
    assert [view.id async for view in app.runs(status="canceled")] == ["gone"]
    assert [view.id async for view in app.runs(status=Status.COMPLETED)] == []
    assert [view.id async for view in app.runs(status="succeeded", queue="q")] == []
    assert len([view async for view in app.runs(queue="q")]) == 7
    with pytest.raises(InvalidInput, match="unknown status"):
        _ = [view async for view in app.runs(status="asleep")]


async def test_a_list_by_statuses_root_and_time(still: World) -> None:
    """Promise: several statuses, a run and its descendants, a period, oldest first: on every store."""
    app = still.app(double, both)
    for number in range(3):
        await app.start(double(number), id=f"d{number}")
        still.clock.advance(3600)
    await (await app.get("d0")).cancel()
    async with still.worker(app):
        tree = await app.start(both(), id="tree")
        await tree.result("60s")
        await (await app.get("d2")).result("60s")

    async def ids(**which: Any) -> list[str]:
        return [view.id async for view in app.runs(**which)]

    assert await ids(status=["cancelled", Status.PENDING]) == ["d0"]
    assert {"d0", "d1", "d2", "tree"} <= set(await ids(status=["cancelled", "completed"]))
    assert sorted(await ids(status=("completed",), workflow="double")) == sorted(
        [*await ids(parent="tree"), "d1", "d2"]
    )
    assert len(await ids(root="tree")) == 3
    assert await ids(since="150m", until="30m") == ["d2", "d1"]
    assert await ids(since="7d", order="created", limit=2) == ["d0", "d1"]
    recent = await ids(since=still.clock.now() - timedelta(minutes=90), workflow="double")
    assert recent[-1] == "d2"


@pytest.mark.spec("openworkflow.O101")
async def test_counts_by_status(still: World) -> None:
    """Promise: the runs that a list would show, counted by status, each up to a limit."""
    app = still.app(double, waits)
    for number in range(4):
        await app.start(double(number), id=f"d{number}", attributes={"odd": str(number % 2)})
        still.clock.advance(3600)
    await (await app.get("d3")).cancel()
    counts = await app.count(by="status", workflow="double", since="1d")
    assert (counts[Status.PENDING], counts[Status.CANCELLED], counts[Status.FAILED]) == (3, 1, 0)
    assert (await app.count(attributes={"odd": "1"}, since="150m", status=["pending"]))[Status.PENDING] == 0
    assert (await app.count(at_most=2))[Status.PENDING] == 2
    wrongs: list[dict[str, Any]] = [{"by": "queue"}, {"at_most": 0}]
    for wrong in wrongs:
        with pytest.raises(InvalidInput):
            await app.count(**wrong)


@pytest.mark.spec("openworkflow.O100")
async def test_pages_with_cursors(world: World) -> None:
    """Promise: a listing longer than a page is complete and has no run twice; a foreign cursor is refused."""
    app = world.app(double)
    await asyncio.gather(*(app.start(double(n), id=f"r{n}") for n in range(230)))
    listed = [view.id async for view in app.runs()]
    assert sorted(listed) == sorted(f"r{n}" for n in range(230))
    client = await app.client()
    with pytest.raises(InvalidInput):
        await client.page(Filter(), after="not a cursor")


@pytest.mark.spec("vectorbea.V6", "vectorbea.V11", "vectorbea.V13", "vectorbea.V20")
async def test_following_a_run(world: World) -> None:
    """Promise: the journal, live and in order, until the end; resumable after the last seq seen."""

    @step
    async def one(number: int) -> int:
        return number

    @workflow
    async def work() -> int:
        return await one(1) + await go.wait() + await one(2)

    async with world.serving(work) as app:
        began = world.store.clock.now()
        run = await app.start(work())
        seen: list[tuple[int, int, int, str]] = []
        values: list[Any] = []

        async def follow() -> None:
            async for x in run.follow():
                assert (x.run, x.root) == (run.id, run.id)
                assert began <= x.at <= world.store.clock.now()
                seen.append((x.seq, x.ordinal, x.index, x.type))
                values.extend([x.data["value"]] if x.type in {"done", "completed"} else [])

        task = asyncio.create_task(follow())
        await world.until_parked(run)
        await run.signal(go, 5)
        assert await run.result("60s") == 8
        await asyncio.wait_for(task, 60)
    assert seen == sorted(seen)
    assert values == [1, 2, 8]
    kinds = [kind for _, _, _, kind in seen]
    told = [kind for kind in kinds if kind not in {"claimed", "released"}]  # these depend on who had it when
    assert told == ["started", "step", "done", "wait", "signal", "wait_ended", "step", "done", "completed"]
    ordinals = sorted({ordinal for _, ordinal, _, _ in seen})
    assert ordinals == list(range(1, len(ordinals) + 1)), "dense per run"
    middle = seen[len(seen) // 2][0]
    rest = [(x.seq, x.ordinal, x.index, x.type) async for x in run.follow(after=middle)]
    assert rest == [entry for entry in seen if entry[0] > middle]
    with pytest.raises(RunNotFound):
        _ = [x async for x in (await _ghost(app)).follow()]


async def test_following_continues_within_a_turn(world: World) -> None:
    """Promise: a follower that stopped in the middle of a turn continues with its rest, after any event; nothing is
    lost and nothing comes twice."""

    @step
    async def one(number: int) -> int:
        return number

    @workflow
    async def work() -> list[int]:
        return list(await asyncio.gather(one(1), one(2), one(3)))

    async with world.serving(work) as app:
        run = await app.start(work())
        assert await run.result("60s") == [1, 2, 3]
        whole = [event async for event in run.follow()]
        assert len({event.seq for event in whole}) < len(whole), "a turn of several events"
        for number, event in enumerate(whole):
            assert [x async for x in run.follow(after=event)] == whole[number + 1 :]


async def _ghost(app: App) -> ClientRun[int]:
    return ClientRun(await app.client(), "nobody", None)


@pytest.mark.spec("openworkflow.O98")
@pytest.mark.parametrize(
    ("start", "error"),
    [
        ({"id": ""}, InvalidId),
        ({"id": "x" * 300}, InvalidId),
        ({"id": "a\nb"}, InvalidId),
        ({"delay": -1}, InvalidInput),
        ({"delay": "soon"}, InvalidInput),
        ({"priority": 10**9}, InvalidInput),
        ({"attributes": {"a": 1}}, InvalidInput),
        ({"attributes": {"a": "x" * 2000}}, InvalidInput),
        ({"queue": ""}, InvalidInput),
        ({"key": ""}, InvalidInput),
        ({"deadline": "whenever"}, InvalidInput),
    ],
)
async def test_bad_input_is_refused_before_anything_is_written(
    world: World, start: dict[str, object], error: type[Exception]
) -> None:
    """Promise: a typed error, and no run."""
    app = world.app(double)
    with pytest.raises(error):
        await app.start(double(1), **start)  # type: ignore[arg-type]
    assert [view async for view in app.runs()] == []


@pytest.mark.spec("openworkflow.O98")
async def test_bad_arguments_are_refused_at_the_call(world: World) -> None:
    """Promise: wrong number or type of arguments never reach the store."""
    with pytest.raises(InvalidInput):
        double("x")  # type: ignore[arg-type, unused-awaitable]
    with pytest.raises((InvalidInput, TypeError)):
        double()  # type: ignore[call-arg, unused-awaitable]
    with pytest.raises(InvalidInput):
        await world.app(double).start("double")  # type: ignore[arg-type]


async def test_durable_verbs_outside_a_run_say_what_to_do() -> None:
    """Promise: nothing is silently non-durable."""
    with pytest.raises(NotInRun, match=r"app\.start"):
        await double(1)
    with pytest.raises(NotInRun):
        await sleep("1s")
    with pytest.raises(NotInRun):
        await go.wait()


async def test_app_start_in_a_workflow_is_refused(world: World) -> None:
    """Promise: the error names `start()`."""
    held: list[App] = []

    @workflow
    async def work() -> None:
        await held[0].start(double(1))

    async with world.serving(work, double) as app:
        held.append(app)
        with pytest.raises(RunFailed, match=r"use start\("):
            await (await app.start(work())).result("60s")


async def test_app_run_under_a_running_loop_is_refused() -> None:
    """Promise: the error says what to write instead."""
    with pytest.raises(NotAllowedHere, match=r"app\.worker"):
        App("memory://", workflows=[double]).run(double(1))


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{}/run.db"])
def test_app_run_is_like_asyncio_run(url: str, tmp_path: Path) -> None:
    """Promise: a worker of its own, the result; the same id again gives the same result and does nothing twice."""
    done: list[int] = []

    @step
    async def note(number: int) -> int:
        done.append(number)
        return number + 1

    @workflow
    async def work(number: int) -> int:
        return await note(number)

    app = App(url.format(tmp_path), workflows=[work])
    assert app.run(work(1), id="first") == 2
    if "sqlite" in url:
        assert app.run(work(1), id="first") == 2
        with pytest.raises(Conflict, match="different input"):
            app.run(work(7), id="first")
        assert done == [1]
    with pytest.raises(UnknownWorkflow, match="does not serve"):
        app.run(double(1))


async def test_a_call_is_a_value() -> None:
    """Promise: a call says what to run; making it does nothing, dropping it neither."""
    call = double(2)
    assert isinstance(call, Call)
    assert "double" in repr(call)
