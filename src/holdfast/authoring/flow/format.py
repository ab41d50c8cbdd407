"""A definition as bytes and back: what runs execute, even if the file changes later.

The bytes are a flow file in JSON: the same keys, defaults left out, expressions as `${…}`. Equal definitions give equal
bytes, and the bytes give the equal definition; their SHA-256 is the name under which a run keeps them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_never

import msgspec

from holdfast.authoring.flow.definition_reader import Reader
from holdfast.authoring.flow.expressions import Json
from holdfast.authoring.flow.flow_definition import (
    NULL,
    Action,
    Approve,
    Definition,
    FlowStep,
    Invoke,
    Sleep,
    Variable,
    Wait,
)
from holdfast.authoring.flow.format_table import FORMAT
from holdfast.authoring.flow.located import from_plain, refused
from holdfast.authoring.flow.written import plain
from holdfast.core.retry import Retry
from holdfast.errors import NotDecodable

__all__ = ["definition_bytes", "definition_from", "definition_plain"]

_UNITS = (("w", 7 * 86_400), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def definition_bytes(definition: Definition) -> bytes:
    """The definition as canonical JSON."""
    return msgspec.json.encode(definition_plain(definition))


def definition_from(data: bytes) -> Definition:
    """The definition in those bytes. Raises `NotDecodable` if they are not JSON, `InvalidFlow` if they are not a
    flow."""
    try:
        root = from_plain(msgspec.json.decode(data))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise NotDecodable(f"a stored flow is not JSON: {error}") from None
    reader = Reader("a stored flow")
    definition = reader.definition(root)
    if definition is None or reader.problems:
        raise refused("a stored flow is invalid", reader.problems)
    return definition


def definition_plain(definition: Definition) -> dict[str, Json]:
    """The definition in plain values, as a flow file would have it."""
    return {
        "holdfast": FORMAT,
        "name": definition.name,
        **_given(version=definition.version, description=definition.description, saga=definition.saga),
        **_said(input=definition.input_schema, output_schema=definition.output_schema),
        **_given(vars={variable.name: _variable(variable) for variable in definition.variables}),
        "steps": {step.name: _step(step) for step in definition.steps},
        **({} if definition.output == NULL else {"output": plain(definition.output)}),
        **_said(metadata=definition.metadata),
    }


def _variable(variable: Variable) -> dict[str, Json]:
    default = {"default": variable.default} if variable.has_default else {}
    return {**default, **_given(secret=variable.secret, description=variable.description)}


def _step(step: FlowStep) -> dict[str, Json]:
    trees = {"if": step.when, "else": step.otherwise}
    each = step.each
    found: dict[str, Json] = {**_action(step.does), **_given(needs=list(step.needs))}
    found |= {key: plain(tree) for key, tree in trees.items() if tree is not None}
    if each is not None:
        found["each"] = {"in": plain(each.over), **_said(limit=each.limit)}
    if step.retry is not None:
        found["retry"] = _retry(step.retry)
    if step.timeout is not None:
        found["timeout"] = _duration(step.timeout)
    if step.fallback is not None:
        found["on_error"] = {"value": plain(step.fallback)}
    return {**found, **_given(always=step.always, description=step.description), **_said(metadata=step.metadata)}


def _action(does: Action) -> dict[str, Json]:
    match does:
        case Invoke(target, given, variables):
            return {"call": target, **_given(**{"with": plain(given), "vars": plain(variables)})}
        case Wait(signal, timeout, default):
            waits: dict[str, Json] = {"signal": signal}
            if timeout is not None:
                waits["timeout"] = _duration(timeout)
            if default is not None:
                waits["default"] = plain(default)
            return {"wait": waits}
        case Sleep(duration):
            return {"sleep": plain(duration)}
        case Approve():
            return {"approve": _approve(does)}
        case _:
            assert_never(does)


def _approve(gate: Approve) -> dict[str, Json]:
    trees = {"by": gate.by, "when": gate.when, "why": gate.why}
    found: dict[str, Json] = {key: plain(tree) for key, tree in trees.items() if tree is not None}
    if gate.timeout is not None:
        found["timeout"] = _duration(gate.timeout)
    if isinstance(gate.then, Approve):
        found["then"] = {"escalate": _approve(gate.then)}
    elif gate.then != "deny":
        found["then"] = gate.then
    return found


def _retry(retry: Retry) -> dict[str, Json]:
    attempts = {"unlimited": True} if retry.attempts is None else {"attempts": retry.attempts}
    first, ceiling = _duration(retry.first), _duration(retry.ceiling)
    return {**attempts, "first": first, "factor": retry.factor, "ceiling": ceiling}


def _duration(duration: timedelta) -> str:
    """The exact duration in the largest unit that divides it."""
    seconds, rest = divmod(duration, timedelta(seconds=1))
    if rest:
        return f"{seconds}.{rest // timedelta(microseconds=1):06d}s"
    return next(f"{seconds // size}{unit}" for unit, size in _UNITS if seconds % size == 0)


def _given(**found: Any) -> dict[str, Json]:
    return {key: value for key, value in found.items() if value}


def _said(**found: Any) -> dict[str, Json]:
    return {key: value for key, value in found.items() if value is not None}
