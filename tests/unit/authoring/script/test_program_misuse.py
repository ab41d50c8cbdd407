"""Steps, children and verbs used in the wrong place: the error names the place and the cure."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.authoring.script.channels import RunVar, Signal
from holdfast.authoring.script.children import start
from holdfast.authoring.script.context import running_step
from holdfast.authoring.script.resources import resource
from holdfast.authoring.script.sagas import saga
from holdfast.authoring.script.steps import step
from holdfast.authoring.script.verbs import current, each, now, rng, sleep, uuid4
from holdfast.authoring.script.workflows import workflow
from holdfast.errors import (
    NotAllowedHere,
    NotInRun,
    UsageError,
)
from tests.support.pure import PureRun, run_here


@step
async def echo(text: str) -> str:
    return text


@step
def label(number: int) -> str:
    return f"#{number}"


shown = RunVar[str]("shown")

go = Signal[bool]("go")


def test_a_step_that_is_never_awaited_fails_the_run_and_names_the_line() -> None:
    """Contract: a forgotten await is an error at the end of the run, with file and line."""

    @workflow
    async def flow() -> None:
        echo("lost")  # type: ignore[unused-coroutine]

    failure = PureRun(flow()).finish().failure
    line = flow.function.__code__.co_firstlineno + 2
    assert failure.type == "NotAwaited"
    assert f"{__file__}:{line}" in failure.message
    assert "await" in failure.message


def test_a_child_that_is_never_awaited_fails_the_run() -> None:
    """Contract: the same for a child workflow called without await or start."""

    @workflow
    async def flow() -> None:
        _ = child()

    assert "child at" in PureRun(flow()).finish().failure.message


@workflow
async def child() -> None: ...


def test_awaiting_a_call_twice_is_an_error() -> None:
    """Contract: a call has one outcome and is awaited once."""

    @workflow
    async def flow() -> None:
        call = echo("x")
        await call
        await call

    assert "awaited before" in PureRun(flow()).finish().failure.message


def test_a_sync_step_called_in_an_async_workflow_names_the_cure() -> None:
    """Contract: it would block the loop, so it is refused with `asyncio.to_thread`."""

    @workflow
    async def flow() -> None:
        label(1)

    failure = PureRun(flow()).finish().failure
    assert "await asyncio.to_thread(label" in failure.message
    assert __file__ in failure.message


def test_a_step_outside_a_run_is_the_plain_function() -> None:
    """Contract: steps can be called in tests and scripts as they are."""
    assert run_here(echo("x")) == "x"
    assert label(2) == "#2"


VERBS: dict[str, Any] = {
    "sleep": lambda: sleep(1),
    "wait": lambda: go.wait(timeout=1),
    "saga": saga,
    "now": now,
    "rng": rng,
    "uuid4": uuid4,
    "set": lambda: shown.set("x"),
    "start": lambda: start(child()),
    "each": lambda: run_here(each(echo, ["a"])),
}


@pytest.mark.parametrize("verb", [*VERBS, "current", "await"])
def test_a_durable_verb_outside_a_run_is_refused(verb: str) -> None:
    """Contract: nothing is silently non-durable."""
    with pytest.raises(NotInRun):
        {**VERBS, "current": current, "await": lambda: run_here(_awaits(child()))}[verb]()


@pytest.mark.parametrize("verb", VERBS)
def test_a_workflow_verb_in_a_step_is_refused(verb: str) -> None:
    """Contract: the error says that this is the body of a step."""
    scope: Any = SimpleNamespace(advice="")
    token = running_step.set(scope)
    try:
        with pytest.raises(NotAllowedHere, match="body of a step"):
            VERBS[verb]()
    finally:
        running_step.reset(token)


async def _awaits(call: Any) -> Any:
    return await call


def test_workflows_awaited_outside_a_run_are_told_about_app_start() -> None:
    """Contract: the error names `app.start`."""
    with pytest.raises(NotInRun, match=r"app\.start"):
        run_here(_awaits(child()))


@resource
async def http() -> Any:
    yield db()


@resource
def db() -> Any:
    yield 1


def test_a_resource_in_a_workflow_body_is_refused() -> None:
    """Contract: a workflow replays, so it may not touch the outside."""

    @workflow
    async def flow() -> None:
        http()

    assert "Ask for it in a step" in PureRun(flow()).finish().failure.message
    with pytest.raises(NotInRun):
        http()


def _fails() -> None:
    raise ValueError("stray")


def test_not_allowed_here_names_the_place_for_to_thread_of_plain_functions() -> None:
    """Contract: real work in a workflow is refused with "wrap it in a step"."""

    @workflow
    async def flow() -> None:
        await asyncio.to_thread(_fails)

    assert re.search("wrap it in a step", PureRun(flow()).finish().failure.message)
    assert issubclass(NotAllowedHere, UsageError)


def test_a_body_that_raises_when_it_is_called_fails_its_run() -> None:
    """Promise: a callable that is only marked as a coroutine function may raise before there is a coroutine: the error
    is the run's outcome, as if it had been raised in the body."""

    @workflow
    async def plain(n: int) -> int:
        return n

    def guarded(n: int) -> Any:
        raise ValueError(f"{n} is not allowed")

    call = plain(3)
    call.spec = replace(call.spec, function=guarded)
    run = PureRun(call).finish()
    assert (run.failure.type, run.failure.message) == ("ValueError", "3 is not allowed")
