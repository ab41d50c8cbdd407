"""Which definition a run of a flow executes: the one it began with, on any worker that has its components."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from holdfast import App, Run, Signal, Status, step
from holdfast.core.fold import fold
from holdfast.core.turn import decode_rows
from holdfast.errors import DefinitionError
from holdfast.extras import install_command
from holdfast.turn.history import Loaded
from holdfast.turn.replay import Missing, Replay
from holdfast.turn.source import supply
from tests.support.flows import flow
from tests.support.world import World

go = Signal[int]("go")


@step
async def add(x: int, y: int) -> int:
    return x + y


@step
async def times(x: int, y: int) -> int:
    return x * y


def sums(second: str, **more: Any) -> Any:
    """Two steps with a wait between them; `second` is what the second one calls."""
    return flow(
        "sums",
        {
            "a": {"call": "add", "with": {"x": "${input}", "y": "${vars.y}"}},
            "w": {"wait": {"signal": "go"}, "needs": ["a"]},
            "b": {"call": second, "with": {"x": "${steps.a}", "y": "${steps.w}"}},
        },
        "${steps.b}",
        vars={"y": {"default": 1}},
        **more,
    )


BEFORE, AFTER = sums("add"), sums("times")


async def parked(world: World, app: App) -> Any:
    """A run of the first definition that waits for its signal, and no worker any more."""
    async with world.worker(app):
        run = await app.start(BEFORE(2, vars={"y": 3}), id="r")
        await world.until(lambda: _waits(run))
    return run


async def _waits(run: Any) -> bool:
    return "signal go" in (await run.view()).waiting


@pytest.mark.spec("stepflow.R10", "stepflow.R21")
async def test_a_changed_file_does_not_change_running_runs(world: World) -> None:
    """Contract: what was started goes on as it was started, variables included; what starts now is as it is now."""
    await parked(world, world.app(BEFORE, add, times))
    changed = world.app(AFTER, add, times)
    async with world.worker(changed):
        old: Run[Any] = await changed.get("r")
        await old.signal(go, 10)
        assert await old.result(timeout="1m") == 15
        new = await changed.start(AFTER(2))
        await new.signal(go, 10)
        assert await new.result(timeout="1m") == 30


@pytest.mark.spec("stepflow.R21")
async def test_a_worker_needs_the_components_and_not_the_file(world: World) -> None:
    """Contract: the definition is read from the store; also for a run that nobody alive serves by name."""
    await parked(world, world.app(BEFORE, add, times))
    without = world.app(add, times)
    async with world.worker(without):
        run: Run[Any] = await without.get("r")
        await run.signal(go, 10)
        assert await run.result(timeout="1m") == 15


@pytest.mark.spec("stepflow.R9")
async def test_a_worker_without_the_components_puts_the_run_off(still: World) -> None:
    """Contract: that is a matter of deployment: rescheduled with a note that names them, never failed."""
    run = await still.app().start(AFTER(2))
    lacking = still.app(AFTER, add)
    async with still.worker(lacking) as worker:
        assert ("sums", "") not in worker.row.definitions
        await still.advance("1s")
        await still.until(lambda: _is_put_off(run))
        assert await run.status() is Status.PENDING
    async with still.worker(still.app(AFTER, add, times)):
        await still.advance("10m")
        await run.signal(go, 10)
        assert await run.result(timeout="1m") == 30


async def _is_put_off(run: Any) -> bool:
    note = (await run.view()).note
    return bool(note) and "arrived" not in note  # before a worker has looked, a message is all there is to say


@pytest.mark.spec("stepflow.R9")
async def test_a_run_of_an_older_definition_whose_component_is_gone_waits_for_one_that_has_it(still: World) -> None:
    await parked(still, still.app(BEFORE, add, times))
    gone = sums("times", version="")
    other = flow("sums", {"t": {"call": "times", "with": {"x": 1, "y": 2}}}, "${steps.t}")
    async with still.worker(still.app(other, times)):
        run: Run[Any] = await still.app().get("r")
        await run.signal(go, 10)
        await still.until(lambda: _is_put_off(run))
        assert "flow sums calls add, which is not registered here" in (await run.view()).note
        due = (await still.row(run)).available_at
        assert due is not None
        assert due > still.clock.now(), "it is not tried again and again"
    async with still.worker(still.app(gone, add, times)):
        await still.advance("10m")
        assert await run.result(timeout="1m") == 15


def test_two_flows_of_one_name_and_version_are_refused() -> None:
    with pytest.raises(DefinitionError, match="two workflows are called sums"):
        App("memory://", workflows=[BEFORE, AFTER])
    App("memory://", workflows=[BEFORE, sums("add"), sums("times", version="2")])


def test_a_name_that_two_components_share_is_refused_where_it_is_used() -> None:
    @step(name="add")
    async def other(x: int) -> int:
        return x

    app = App("memory://", workflows=[BEFORE, add, other])
    with pytest.raises(DefinitionError, match=r"two components are called 'add'.*rename one"):
        app.registry.find("sums", "")


def test_components_are_known_by_module_and_function_too() -> None:
    shop = ModuleType("shop")
    vars(shop).update(plus=add)
    app = App("memory://", workflows=[shop])
    for target in (f"{__name__}.add", "shop.plus", "add"):
        named = flow("named", {"a": {"call": target, "with": {"x": 1, "y": 2}}}, "${steps.a}")
        app = App("memory://", workflows=[named, shop])
        assert app.registry.find("named", "") is not None
    assert app.registry.missing(flow("none", {"a": {"call": "nothing.there"}}).spec) == ["nothing.there"]


@pytest.mark.spec("stepflow.R9")
@pytest.mark.parametrize("where", ["output", "input of a sub-flow"])
async def test_a_worker_that_cannot_check_schemas_puts_the_run_off(
    where: str, still: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: without the library a run whose values are to be checked is rescheduled, with a note that says what to
    install; it goes on where that is."""
    schema = {"type": "integer"}
    inner = flow("inner", {}, "${input.x}", input={"type": "object", "properties": {"x": schema}})
    steps = {
        "w": {"wait": {"signal": "go"}},
        "a": {"call": "inner", "with": {"x": "${steps.w}"}},
        "b": {"call": "add", "with": {"x": "${steps.w}", "y": 0}},
    }
    if where == "output":
        checked = flow("checked", {key: steps[key] for key in ("w", "b")}, "${steps.b}", output_schema=schema)
    else:
        checked = flow("checked", {key: steps[key] for key in ("w", "a")}, "${steps.a}")
    with monkeypatch.context() as lacking:
        lacking.setattr("holdfast.authoring.flow.schema_checks.find_spec", lambda name: None)
        plain = flow("plain", {}, 1)
        async with still.worker(still.app(checked, inner, plain, add)) as worker:
            assert ("plain", "") in worker.row.definitions
            assert ("checked", "") not in worker.row.definitions
            run = await still.app().start(checked(2), id="c")
            await still.advance("1s")
            await still.until(lambda: _is_put_off(run))
            assert await run.status() is Status.PENDING
            turns = decode_rows(await still.store.history("c"))
            replay = Replay(Loaded(fold("c", turns), turns), worker.engine.registry, worker.engine.settings)
            await supply(still.store, replay)
            assert isinstance(replay.result, Missing)
            assert replay.result.note.endswith(f"Install it: {install_command('flows')}")
    async with still.worker(still.app(checked, inner, add)):
        await still.advance("10m")
        await run.signal(go, 10)
        assert await run.result(timeout="1m") == 10
