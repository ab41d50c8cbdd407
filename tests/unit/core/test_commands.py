"""Commands: each has one event that records it, and large payloads become blobs."""

from __future__ import annotations

import typing
from datetime import timedelta
from typing import Any

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.payload import MAX_INLINE, Arguments, Shape, hash_of
from holdfast.core.retry import Retry
from holdfast.core.specs import Settings, StepSpec, WorkflowSpec
from tests.unit.core.journals import BOOM, at, plain, raw


def work(n: int = 0) -> int:
    return n


ARGUMENTS = Arguments(work, what="work")
RESULT = Shape[int](int, what="work")
SPEC = StepSpec("charge", work, "async", ARGUMENTS, RESULT)
STEP: dict[str, Any] = {"spec": SPEC, "args": b'{"n":1}', "retry": Retry()}

RECORDED: list[tuple[c.Command, e.Output]] = [
    (c.RunStep(key="charge", **STEP), e.StepScheduled(key="charge", value=raw('{"n":1}'))),
    (
        c.RunStep(key="charge:1", undo=True, undoes="pay", timeout=timedelta(1), where="shop.py:1", **STEP),
        e.StepScheduled(key="charge:1", step="charge", undo=True, undoes="pay", value=raw('{"n":1}')),
    ),
    (c.AbandonStep(key="a"), e.StepAbandoned(key="a")),
    (c.StartTimer(key="a", until=at(5)), e.SleepStarted(key="a", until=at(5))),
    (
        c.AwaitMessage(key="a", name="go", kind="topic", until=at(5)),
        e.WaitStarted(key="a", name="go", kind="topic", until=at(5)),
    ),
    (c.EndWait(key="a", message="m"), e.WaitEnded(key="a", message="m")),
    (
        c.StartChild(
            key="a", run="r/a", workflow="ship", version="2", args=b"{}", queue="q", until=at(5), on_cancel="cancel",
            awaited=False, deadline=timedelta(1), code="x",
        ),
        e.ChildStarted(
            key="a", run="r/a", workflow="ship", version="2", value=raw("{}"), queue="q", until=at(5),
            on_cancel="cancel", awaited=False,
        ),
    ),
    (
        c.Send(key="a", to="other", kind="signal", name="go", value=b"1"),
        e.MessageSent(key="a", to="other", kind="signal", name="go", value=raw("1")),
    ),
    (c.Expose(name="progress", value=b'"half"'), e.Exposed(name="progress", value=raw('"half"'))),
    (c.Emit(name="tokens", value=b'"Hel"'), e.Streamed(name="tokens")),
    (
        c.Answer(message="m", outcome="refused", value=b'"no"'),
        e.Answered(message="m", outcome="refused", value=raw('"no"')),
    ),
    (c.SetAttributes(attributes={"a": "1", "b": None}), e.AttributesSet(attributes={"a": "1", "b": None})),
    (c.Patch(name="p"), e.Patched(name="p")),
    (c.Enter(key="Quoting:1", state="Quoting"), e.Entered(key="Quoting:1", state="Quoting")),
    (c.Keep(keys=("a", "b")), e.Kept(keys=("a", "b"))),
    (c.Complete(value=b"5"), e.Completed(value=raw("5"))),
    (c.Fail(failure=BOOM, from_step=True), e.Failed(failure=BOOM)),
    (c.Stop(reason="why", actor="me"), e.Cancelled(reason="why", actor="me")),
    (
        c.ContinueAs(workflow="order", version="2", args=b"{}"),
        e.Continued(workflow="order", version="2", value=raw("{}")),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("command", "event"), RECORDED)
def test_a_command_is_recorded_by_its_event(command: c.Command, event: e.Output) -> None:
    blobs: dict[str, bytes] = {}
    assert plain(c.record(command, blobs)) == plain(event)
    assert not blobs


def test_every_command_is_among_them() -> None:
    assert {type(command) for command, _ in RECORDED} == set(typing.get_args(c.Command))


BIG = b'"' + b"x" * MAX_INLINE + b'"'
LARGE: list[c.Command] = [
    c.RunStep(key="charge", spec=SPEC, args=BIG, retry=Retry()),
    c.StartChild(key="a", run="r/a", workflow="ship", version="", args=BIG),
    c.Send(key="a", to="b", kind="signal", value=BIG),
    c.Expose(name="a", value=BIG),
    c.Complete(value=BIG),
    c.ContinueAs(workflow="w", version="", args=BIG),
]


@pytest.mark.parametrize("command", LARGE, ids=lambda x: type(x).__name__)
def test_a_large_payload_becomes_a_blob(command: c.Command) -> None:
    """Contract: the event names the bytes by their hash, and the bytes go with the same commit."""
    blobs: dict[str, bytes] = {}
    event = c.record(command, blobs)
    assert isinstance(event, e.Carrier)
    assert blobs == {hash_of(BIG): BIG}
    assert (event.blob, bytes(event.value)) == (hash_of(BIG), b"null")


def test_the_limit_itself_is_still_inline() -> None:
    data = b"x" * MAX_INLINE
    blobs: dict[str, bytes] = {}
    value, blob, refs = c.carry(data, blobs)
    assert (bytes(value), blob, refs, blobs) == (data, "", (), {})
    value, blob, refs = c.carry(data + b"x", blobs)
    assert (value, blob, refs) == (e.NULL, hash_of(data + b"x"), ())


def test_what_is_not_said_has_its_default() -> None:
    assert c.RunStep(key="a", **STEP) == c.RunStep(key="a", timeout=None, undo=False, undoes="", where="", **STEP)
    assert c.AwaitMessage(key="a", name="b", kind="signal").until is None
    assert c.EndWait(key="a").message == ""
    assert c.Send(key="a", to="b", kind="publish") == c.Send(key="a", to="b", kind="publish", name="", value=b"null")
    assert c.Stop() == c.Stop(reason="", actor="")
    assert not c.Fail(failure=BOOM).from_step


def test_a_workflow_is_named_with_its_version() -> None:
    spec = WorkflowSpec("order", "2", work, False, ARGUMENTS, RESULT, Retry())
    plain_spec = WorkflowSpec("order", "", work, False, ARGUMENTS, RESULT, Retry())
    assert (spec.label, plain_spec.label) == ("order (version 2)", "order")


def test_the_settings_are_the_documented_ones() -> None:
    """Contract: API.md's defaults: Retry(), 1000 attempts of all kinds, five minutes of clean-up."""
    settings = Settings()
    assert settings.step_retry == Retry()
    assert (settings.step_limit, settings.cancel_grace, settings.activation_budget, settings.max_claims) == (
        1000,
        timedelta(minutes=5),
        100_000,
        20,
    )
