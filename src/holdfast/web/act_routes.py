"""What people do to runs. Each act carries the name of the person who asked, in the journal and in the log."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any, Literal

import msgspec

from holdfast.authoring.handle import RunView
from holdfast.authoring.script.channels import Signal, Topic
from holdfast.authoring.script.place import place
from holdfast.authoring.script.workflows import Call as WorkflowCall
from holdfast.client.arguments import find_workflow, from_json
from holdfast.client.audit import audited
from holdfast.client.client_run import ClientRun
from holdfast.client.inquiry import ask_for_show
from holdfast.client.inspect.lookup import find_run
from holdfast.client.inspect.remarks import cancelled, killed, paused, resumed
from holdfast.client.start_options import Given, StartOptions
from holdfast.core.acceptance import refusal
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.plurals import counted
from holdfast.errors import InvalidInput, UnknownWorkflow
from holdfast.web.answers import json_response
from holdfast.web.handler_call import Call
from holdfast.web.queries import read_instant
from holdfast.web.run_routes import run_json

LONGEST_WAIT = timedelta(minutes=1)
"""How long one request waits for an answer."""


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A JSON body; unknown fields are refused."""


class SignalBody(Body, frozen=True):
    """A signal to one run."""

    name: str
    value: Any = None
    id: str | None = None


class StartBody(Body, frozen=True):
    """A run to start."""

    workflow: str
    input: dict[str, Any] | list[Any] = {}
    version: str | None = None
    id: str | None = None
    key: str | None = None
    delay: str | None = None
    deadline: str | None = None
    queue: str = "default"
    priority: int = 0
    attributes: dict[str, str] = {}
    if_exists: Literal["return", "reject", "replace"] | None = None
    unique: str | None = None
    share: str | None = None
    debounce: str | None = None
    max_wait: str | None = None
    signal: SignalBody | None = None


class UpdateBody(Body, frozen=True):
    """A question to one run. The same id asks once; after `timeout`, ask again with the id."""

    name: str
    value: Any = None
    id: str | None = None
    timeout: str = "10s"


class ApproveBody(Body, frozen=True):
    """A decision: the signal says who decided, and why."""

    name: str
    approved: bool = True
    why: str = ""
    id: str | None = None


class PublishBody(Body, frozen=True):
    """A value for every run that waits on a topic."""

    topic: str
    value: Any = None
    id: str | None = None


class ReasonBody(Body, frozen=True):
    """The reason."""

    reason: str = ""


class EmptyBody(Body, frozen=True):
    """An empty body."""


class DropBody(Body, frozen=True):
    """The message to drop, by number or id, and why."""

    message: int | str
    reason: str = ""


class ReplaceBody(Body, frozen=True):
    """The signal that a paused run has not taken, by number or id, its new value, and why."""

    message: int | str
    value: Any = None
    reason: str = ""


class RedactBody(Body, frozen=True):
    """Paths of values to take out of an ended run, and why. `dry_run` only says what would change."""

    paths: list[str]
    reason: str = ""
    dry_run: bool = False


class RetryBody(Body, frozen=True):
    """The id of the new run."""

    id: str | None = None


async def start(call: Call) -> Any:
    """`POST runs`."""
    given, client = call.given(StartBody), call.client
    if call.service.app.registry.is_empty:
        raise UnknownWorkflow("this server has no app, so it knows no workflow to start: give it MODULE:APP")
    spec = find_workflow(call.service.app.registry, given.workflow, given.version)
    arguments = from_json(spec, msgspec.json.encode(given.input), what="input")
    made = WorkflowCall[Any](spec, spec.arguments.round_trip(*arguments)[0], place(0))
    how = StartOptions(
        id=given.id,
        key=given.key,
        delay=given.delay,
        deadline=_moment(call, given.deadline),
        queue=given.queue,
        priority=given.priority,
        attributes=given.attributes,
        if_exists=given.if_exists,
        unique=given.unique,
        share=given.share,
        debounce=given.debounce,
        max_wait=given.max_wait,
        signal=None if given.signal is None else _signal_of(given.signal),
        by_hand=True,
    )
    run = await client.start(made, how)
    view = await run.view()
    is_new = isinstance(run, ClientRun) and run.is_new
    audited(call.who.name, "start", run.id, given.workflow)
    outcome = "created" if is_new else "existing"
    return json_response({"run": run_json(view), "outcome": outcome}, 201 if is_new else 200)


def _signal_of(given: SignalBody) -> Given:
    channel = Signal[Any](given.name)
    return (channel, given.value) if given.id is None else (channel, given.value, given.id)


def _moment(call: Call, text: str | None) -> Any:
    """A deadline: an instant or a duration."""
    if text is None or not text[:4].isdecimal() or "-" not in text:
        duration: Duration | None = text
        return duration
    return read_instant(text, "deadline", call.client.store.clock.now())


async def signal(call: Call) -> dict[str, Any]:
    """`POST runs/{id}/signal`."""
    given = call.given(SignalBody)
    return await _send(call, given.name, given.value, given.id, "signal")


async def update(call: Call) -> dict[str, Any]:
    """`POST runs/{id}/update`."""
    given = call.given(UpdateBody)
    row = await find_run(call.client, call.id)
    chosen = given.id if given.id is not None else secrets.token_hex(12)
    limit = parse_duration(given.timeout, what="timeout")
    if limit > LONGEST_WAIT:
        raise InvalidInput(f"timeout={given.timeout!r}: give at most 1 m. Ask again with the same id to wait longer.")
    audited(call.who.name, "update", call.id, given.name)
    spec = call.client.spec_of(row)
    answer = await ask_for_show(call.client, row, given.name, given.value, chosen, limit, spec)
    return {"answer": answer, "id": chosen}


async def approve(call: Call) -> dict[str, Any]:
    """`POST runs/{id}/approve`. A workflow that waits for a plain bool gets one."""
    given = call.given(ApproveBody)
    value: Any = {"approved": given.approved, "by": call.who.name, "why": given.why}
    spec = call.client.spec_of(await find_run(call.client, call.id))
    if spec is not None and refusal(spec, given.name, msgspec.json.encode(value)) is not None:
        value = given.approved
    return await _send(call, given.name, value, given.id, "approve" if given.approved else "refuse")


async def _send(call: Call, name: str, value: Any, id: str | None, verb: str) -> dict[str, Any]:
    run = call.client.handle(await find_run(call.client, call.id))
    awaited = [one.name for one in (await run.view()).doing.now if one.kind == "signal"]
    await run.signal(Signal[Any](name), value, id=id)
    audited(call.who.name, verb, call.id, name)
    return {"run": run_json(await run.view()), "awaited": name in awaited}


async def publish(call: Call) -> dict[str, Any]:
    """`POST topics/publish`."""
    given = call.given(PublishBody)
    woken = await call.client.publish(Topic[Any](given.topic), given.value, id=given.id)
    audited(call.who.name, "publish", detail=given.topic)
    return {"topic": given.topic, "woken": woken}


async def cancel(call: Call) -> dict[str, Any]:
    """`POST runs/{id}/cancel`."""
    run, before = await _found(call)
    await run.cancel(call.given(ReasonBody).reason)
    return await _done(call, "cancel", before, run, cancelled)


async def kill(call: Call) -> dict[str, Any]:
    """`POST runs/{id}/kill`."""
    run, before = await _found(call)
    await run.kill(call.given(ReasonBody).reason)
    return await _done(call, "kill", before, run, killed)


async def delete(call: Call) -> dict[str, Any]:
    """`DELETE runs/{id}`."""
    run, _ = await _found(call)
    gone = await run.delete()
    audited(call.who.name, "delete", call.id, counted(gone, "run"))
    return {"deleted": call.id, "runs": gone}


async def redact(call: Call) -> dict[str, Any]:
    """`POST runs/{id}/redact`."""
    given = call.given(RedactBody)
    run, _ = await _found(call)
    found = await run.redact(*given.paths, reason=given.reason, dry_run=given.dry_run)
    if not given.dry_run:
        audited(call.who.name, "redact", call.id, counted(len(found.changed), "place"))
    return {"redaction": msgspec.to_builtins(found), "run": run_json(await run.view())}


async def pause(call: Call) -> dict[str, Any]:
    """`POST runs/{id}/pause`."""
    run, before = await _found(call)
    await run.pause(call.given(ReasonBody).reason)
    return await _done(call, "pause", before, run, paused)


async def resume(call: Call) -> dict[str, Any]:
    """`POST runs/{id}/resume`."""
    run, before = await _found(call)
    await run.resume()
    return await _done(call, "resume", before, run, resumed)


async def drop(call: Call) -> dict[str, Any]:
    """`POST runs/{id}/drop`."""
    given = call.given(DropBody)
    run, _ = await _found(call)
    is_told_again = await run.drop_message(given.message, given.reason)
    audited(call.who.name, "drop", call.id, str(given.message))
    return {"run": run_json(await run.view()), "message": given.message, "told_again": is_told_again}


async def replace(call: Call) -> dict[str, Any]:
    """`POST runs/{id}/replace`."""
    given = call.given(ReplaceBody)
    run, _ = await _found(call)
    await run.replace_message(given.message, given.value, given.reason)
    audited(call.who.name, "replace", call.id, str(given.message))
    return {"run": run_json(await run.view()), "message": given.message}


async def messages(call: Call) -> dict[str, Any]:
    """`GET runs/{id}/messages`."""
    run, _ = await _found(call)
    return {"messages": [msgspec.to_builtins(one) for one in await run.messages()]}


async def retry(call: Call) -> Any:
    """`POST runs/{id}/retry`."""
    run, _ = await _found(call)
    made = await run.retry(id=call.given(RetryBody).id)
    audited(call.who.name, "retry", call.id, made.id)
    return json_response({"run": run_json(await made.view()), "retried_from": call.id}, 201)


async def _found(call: Call) -> tuple[ClientRun[Any], RunView]:
    run = call.client.handle(await find_run(call.client, call.id))
    return run, await run.view()


async def _done(call: Call, verb: str, before: RunView, run: ClientRun[Any], remark: Any) -> dict[str, Any]:
    after = await run.view()
    audited(call.who.name, verb, call.id)
    return {"run": run_json(after), "remark": remark(before, after)}
