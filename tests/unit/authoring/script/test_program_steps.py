"""Steps in a script: their keys, options, outcomes and definitions."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.authoring.script.channels import RunVar, Signal
from holdfast.authoring.script.resources import resource, resources_named_by
from holdfast.authoring.script.steps import step
from holdfast.authoring.script.verbs import current, each, log, now, rng, uuid4
from holdfast.authoring.script.workflows import workflow
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.retry import Retry
from holdfast.core.step import UNKNOWN
from holdfast.errors import (
    DefinitionError,
    InvalidInput,
    NotEncodable,
    OutcomeUnknown,
    StepFailed,
)
from tests.support.pure import PureRun, check_replays, replay


class Declined(Exception): ...


@step
async def echo(text: str) -> str:
    return text


@step
def label(number: int) -> str:
    return f"#{number}"


@step(raises=Declined)
async def charge(cents: int) -> int:
    if cents > 100:
        raise Declined(cents)
    if cents < 0:
        raise ValueError(cents)
    return cents


shown = RunVar[str]("shown")


def keys(commands: list[c.Command]) -> list[str]:
    return [command.key for command in commands if isinstance(command, c.RunStep)]


def test_a_key_is_taken_when_the_step_is_called() -> None:
    """Contract: keys follow the order of the calls, not of the awaits."""

    @workflow
    async def flow() -> None:
        second, first = echo("called first"), echo("called second")
        await first
        await second

    run = PureRun(flow())
    assert keys(run.turn()) == ["echo:1"]
    assert keys(run.do()) == ["echo"]


def test_the_key_of_to_thread_is_taken_when_its_task_runs() -> None:
    """Contract: `to_thread(step)` is durable and deterministic; its key comes when its task first runs."""

    @workflow
    async def flow() -> list[str]:
        task = asyncio.create_task(asyncio.to_thread(label, 1))
        direct = asyncio.create_task(asyncio.to_thread(label.options(key="pinned"), 2))
        return [await echo("x"), await task, await direct]

    run = PureRun(flow())
    assert keys(run.turn()) == ["echo", "label", "pinned"]
    run.finish()
    assert run.result == ["x", "#1", "#2"]
    assert check_replays(flow.spec, run.turns) == 2


def test_a_pinned_key_is_skipped_by_numbering() -> None:
    """Contract: `options(key=)` pins the identity, and automatic keys pass over it."""

    @workflow
    async def flow() -> None:
        await asyncio.gather(echo.options(key="echo:1")("a"), echo("b"), echo("c"), echo.options(key="echo:1")("d"))

    assert keys(PureRun(flow()).turn()) == ["echo:1", "echo", "echo:2", "echo:1:1"]


def test_options_of_one_call_reach_its_command() -> None:
    """Contract: retry and timeout given for one call win over the step's own."""

    @workflow
    async def flow() -> None:
        await asyncio.gather(echo.options(retry=3, timeout="5s")("a"), echo("b"))

    mine, other = PureRun(flow()).turn()
    assert isinstance(mine, c.RunStep)
    assert isinstance(other, c.RunStep)
    assert (mine.retry, mine.timeout) == (Retry(3), timedelta(seconds=5))
    assert (other.retry, other.timeout) == (Retry.none, None)


@workflow
async def child() -> None: ...


def test_a_declared_exception_comes_back_as_itself_and_others_as_step_failed() -> None:
    """Contract: live and on replay alike."""

    @workflow
    async def flow() -> list[str]:
        seen: list[str] = []
        for cents in (5, 500, -1):
            try:
                seen.append(str(await charge(cents)))
            except Declined as declined:
                seen.append(f"declined {declined.args}")
            except StepFailed as failed:
                seen.append(f"{failed.step} {failed.attempts} {failed.type} {failed.message}")
        return seen

    run = PureRun(flow()).finish()
    assert run.result == ["5", "declined (500,)", "charge 1 ValueError -1"]
    assert check_replays(flow.spec, run.turns) == 4


def test_a_cut_off_once_step_is_outcome_unknown() -> None:
    """Contract: the author can tell "failed" from "nobody knows"."""

    @workflow
    async def flow() -> str:
        try:
            return await echo("x")
        except OutcomeUnknown as unknown:
            return f"unknown {unknown.step}"

    run = PureRun(flow())
    run.turn()
    run.turn(e.StepFailed(key="echo", failure=Failure(type=UNKNOWN, message="cut off")))
    assert run.result == "unknown echo"


def test_a_step_failure_that_leaves_the_body_is_marked() -> None:
    """Contract: the workflow's own retry does not repeat what a step's policy has given up."""

    @workflow(retry=5)
    async def flow(cents: int) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(charge(cents))

    for cents in (-1, 500):
        run = PureRun(flow(cents)).finish()
        assert run.failure.type == "ExceptionGroup"
        assert run.fold.passes == 1


def test_a_declared_exception_of_the_workflow_is_rebuilt_without_our_marks() -> None:
    """Contract: what `raises=` stores is the author's, nothing of ours."""

    @workflow(raises=Declined)
    async def flow() -> None:
        await charge(500)

    failure = PureRun(flow()).finish().failure
    assert failure.declared
    assert b"holdfast" not in bytes(failure.data)


def test_arguments_that_do_not_encode_name_the_place() -> None:
    """Contract: the error is raised at the call and says which part."""

    @workflow
    async def flow() -> str:
        try:
            await take([1, object()])
        except NotEncodable as error:
            return error.path
        return ""

    @step
    async def take(items: list[Any]) -> None: ...

    assert PureRun(flow()).finish().result == "items[1]"


def test_a_result_that_does_not_encode_fails_the_run_with_the_place() -> None:
    """Contract: and no policy retries it."""

    @workflow(retry=3)
    async def flow() -> dict[str, Any]:
        return {"a": [object()]}

    failure = PureRun(flow()).finish().failure
    assert "result of flow['a'][0]" in failure.message


def test_now_rng_and_uuid_are_the_same_on_replay() -> None:
    """Contract: time and chance follow from the journal."""

    @workflow
    async def flow() -> list[str]:
        seen = [str(uuid4()), str(rng().random()), now().isoformat()]
        await echo(",".join(seen))
        await asyncio.sleep(60)
        await echo(f"{now().isoformat()} {asyncio.get_running_loop().time()}")
        return seen

    run = PureRun(flow()).finish()
    assert check_replays(flow.spec, run.turns) == 4
    assert PureRun(flow(), run="other").finish().result[0] != run.result[0]


def test_log_is_silent_on_replay_and_names_its_run(caplog: pytest.LogCaptureFixture) -> None:
    """Contract: a line is logged once, however often the run is replayed or closed."""

    @workflow
    async def flow() -> None:
        try:
            log.info("before")
            await echo("x")
            await echo("y")
        finally:
            log.info("after")

    with caplog.at_level(logging.INFO, "holdfast.run"):
        run = PureRun(flow())
        run.turn()
        run.do()
        run.program.close()
        replay(flow.spec, run.turns).close()
    assert [record.message for record in caplog.records] == ["before"]
    assert vars(caplog.records[0])["run"] == "run"


def test_current_in_a_workflow_is_the_run() -> None:
    """Contract: `current()` needs no parameter, and what the worker does around does not leak in."""

    @workflow(version="7")
    async def flow() -> list[str]:
        here = current()
        return [here.run_id, here.workflow, here.version, here.key, str(here.attempt)]

    assert PureRun(flow()).finish().result == ["run", "flow", "7", "", "1"]


def test_each_keeps_order_limits_and_cancels_the_rest_on_the_first_failure() -> None:
    """Contract: bounded fan-out, results in order, the first failure as it is."""

    @workflow
    async def flow(cents: list[int]) -> list[int]:
        return await each(charge, cents, limit=2)

    run = PureRun(flow([1, 2, 3, 4, 5]))
    assert keys(run.turn()) == ["charge", "charge:1"]
    assert keys(run.do("charge:1")) == ["charge:2"]
    assert run.finish().result == [1, 2, 3, 4, 5]

    run = PureRun(flow([1, 500, 3, 4]))
    run.turn()
    commands = run.do("charge:1")
    assert run.failure.type.endswith("Declined")
    assert not keys(commands)
    assert PureRun(flow([])).finish().result == []


def test_each_refuses_a_limit_below_one() -> None:
    """Contract: a limit of zero would never end."""

    @workflow
    async def flow() -> None:
        await each(echo, ["a"], limit=0)

    assert "at least 1" in PureRun(flow()).finish().failure.message


@pytest.mark.parametrize(
    ("said", "make"),
    [
        ("lambda has no name", lambda: step(lambda: 1)),
        ("its object", lambda: step(Holder().method)),
        ("on a method", lambda: step(Holder.method)),
        ("return a list", lambda: step(items)),
        ("function", lambda: step(print)),
        ("is a step already", lambda: step(echo)),
        ("once", lambda: step(once=True, retry=2)(echo.function)),
        ("executor", lambda: step(executor="process")(echo.function)),
        ("raises", lambda: step(raises="no")),  # type: ignore[call-overload]
        ("is a workflow already", lambda: workflow(workflow(child.function))),
        ("result, cents", lambda: charge.undo(echo.function)),
        ("no type", lambda: Signal("untyped").shape),
        ("generator", lambda: resource(label.function)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_definitions_that_cannot_be_are_refused(said: str, make: Any) -> None:
    """Contract: each says what is wrong, when it is written."""
    charge.undo_step = None
    with pytest.raises(DefinitionError, match=said):
        make()


class Holder:
    async def method(self) -> None: ...


async def items() -> Any:
    yield 1


def test_a_step_keeps_the_face_of_its_function() -> None:
    """Contract: name, doc, signature and the function itself stay visible."""
    assert (echo.__name__, echo.__wrapped__, str(echo.__signature__)) == (  # type: ignore[attr-defined]
        "echo",
        echo.function,
        "(text: 'str') -> 'str'",
    )


@resource
async def http() -> Any:
    yield db()


@resource
def db() -> Any:
    yield 1


async def helper() -> None:
    http()


@step
async def uses() -> None:
    await helper()


def test_resources_are_found_through_the_functions_a_step_names() -> None:
    """Contract: a worker opens what its steps ask for, also through helpers and other resources."""
    assert resources_named_by([uses.function]) == [http, db]


def test_a_run_var_is_shown_with_the_turn_and_read_back() -> None:
    """Contract: what a run shows is durable with the turn that set it."""

    @workflow
    async def flow() -> list[str | None]:
        before = shown.get()
        shown.set("half")
        await echo("x")
        return [before, shown.get(), shown.get("other")]

    run = PureRun(flow())
    assert c.Expose(name="shown", value=b'"half"') in run.turn()
    assert run.finish().result == [None, "half", "half"]


def test_a_stray_error_of_a_callback_fails_the_run() -> None:
    """Contract: an error that nobody awaits does not vanish."""

    @workflow
    async def flow() -> None:
        asyncio.get_running_loop().call_soon(_fails)
        await echo("x")

    assert PureRun(flow()).finish().failure.message == "stray"


def _fails() -> None:
    raise ValueError("stray")


def test_stored_data_that_no_longer_fits_stops_the_program() -> None:
    """Contract: the author's code never sees it; the run can be resumed after a fix."""

    @workflow
    async def flow() -> str:
        try:
            await number("x")
            return str(await number("y"))
        except Exception:  # noqa: BLE001 that is the point: the author's code must not see it
            return "seen"

    @step
    async def number(text: str) -> int:
        return 1

    run = PureRun(flow())
    run.turn()
    run.do()
    with pytest.raises(InvalidInput, match="does not fit"):
        run.turn(e.StepCompleted(key="number:1", value=b'"no"'))  # type: ignore[arg-type]
    run.program.close()


@dataclass
class Order:
    id: str
    at: datetime


def test_the_first_run_sees_what_a_replay_would_see() -> None:
    """Contract: arguments and results are the values decoded from what is stored, not the objects passed."""
    passed: list[Order] = []

    @step
    async def keep(order: Order) -> Order:
        passed.append(order)
        return order

    @workflow
    async def flow() -> bool:
        order = Order("1", datetime(2026, 1, 1, tzinfo=UTC))
        back = await keep(order)
        return back == order and back is not order and passed[0] is not order

    assert PureRun(flow()).finish().result is True
