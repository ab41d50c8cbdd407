"""One step of a run, and the graph of a run with a declared plan."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from holdfast.authoring.script.steps import AnyStep
from holdfast.client.inspect.graph import graph_object
from holdfast.client.inspect.step_details import read_step
from holdfast.client.inspect.story import read_story
from holdfast.errors import DefinitionError, InvalidId, InvalidInput
from holdfast.web.handler_call import Call
from holdfast.web.problems import Problem
from holdfast.web.run_routes import bounded


async def one(call: Call) -> dict[str, Any]:
    """`GET runs/{id}/steps/{key}`."""
    try:
        step = await read_step(call.client, call.id, call.path["key"])
    except InvalidId:
        raise
    except InvalidInput as error:
        raise Problem(404, "NotFound", str(error)) from error
    shown: dict[str, Any] = msgspec.to_builtins(step)
    shown["input"], shown["output"] = bounded(shown["input"]), bounded(shown["output"])
    shown["events"] = [{**event, "seq": str(event["seq"])} for event in shown["events"]]
    shown["place"] = _place(call, step.step)
    return shown


def _place(call: Call, name: str) -> dict[str, Any] | None:
    """File and line of the step's body, if this server has its code."""
    try:
        found = call.service.app.registry.components.find(name)
    except DefinitionError:  # two of one name
        return None
    function = inspect.unwrap(found.function) if isinstance(found, AnyStep) else None
    code = getattr(function, "__code__", None)
    if function is None or code is None:
        return None
    place = f"{function.__module__}.{function.__qualname__}"
    return {"file": code.co_filename, "line": code.co_firstlineno, "name": place}


async def graph(call: Call) -> dict[str, Any]:
    """`GET runs/{id}/graph`."""
    story = await read_story(call.client, call.id)
    spec = call.service.app.registry.declared(story.view.workflow, story.view.version)
    shown = graph_object(story, spec) if spec is not None else None
    if shown is None:
        raise Problem(
            404, "NotFound", f"run {call.id} has no declared plan: it is a script, or its definition is not here"
        )
    return shown
