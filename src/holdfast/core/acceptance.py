"""Whether a run would take a signal or an update, by its definition (`authoring.script.accepted`). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.hints import did_you_mean
from holdfast.core.payload import Shape
from holdfast.core.specs import WorkflowSpec
from holdfast.errors import NotDecodable

_MISFIT = "the stored data does not fit the annotation"
_ADVICE = ". Was the type changed since it was stored?"


def refusal(spec: WorkflowSpec, name: str, data: bytes) -> str | None:
    """Why runs of that definition do not take the signal with this value; None if they do, or if the definition does
    not say."""
    known = spec.accepts()
    return _refusal(spec, "signal", name, data, known, f"Signal[{{}}]({name!r})")


def update_refusal(spec: WorkflowSpec, name: str, data: bytes) -> str | None:
    """The same for an update."""
    known = {one.name: one.question for one in spec.updates().values()}
    return _refusal(spec, "update", name, data, known, f"Update[{{}}, …]({name!r})")


def _refusal(
    spec: WorkflowSpec, what: str, name: str, data: bytes, known: Mapping[str, Shape[Any]], written: str
) -> str | None:
    shape = known.get(name)
    where = f"workflow {spec.label}{f' ({spec.where})' if spec.where else ''}"
    if shape is None:
        if not spec.is_closed:
            return None
        hint = did_you_mean(name, list(known))
        names = f"It accepts {', '.join(known)}." if known else "It accepts none."
        return f"{where} does not accept {what} {name!r}.{hint} {names}"
    try:
        shape.decode(data)
    except NotDecodable as error:
        kind = getattr(shape.annotation, "__name__", None) or str(shape.annotation)
        return f"{misfit(f'{what} {name}', error)}. {where} waits for {written.format(kind)}."
    return None


def misfit(name: str, error: NotDecodable) -> str:
    """Where and why a value does not match its type, without repeating the value."""
    text = str(error)
    if _MISFIT in text:
        text = text.partition(_MISFIT)[2].partition(_ADVICE)[0].removeprefix(f" at {error.path}").removeprefix(": ")
    path = error.path if not error.path or error.path.startswith("[") else f".{error.path}"
    return f"{name}{path}: {text}"
