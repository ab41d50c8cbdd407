"""The arguments of a call, from JSON or from words, through the workflow's own signature.

Each argument is decoded by its annotation, so that errors name the argument and path: `order.cents`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from holdfast.authoring.registry import Registry
from holdfast.core.acceptance import misfit
from holdfast.core.annotations import hints_of
from holdfast.core.given_json import check_keys, given_json
from holdfast.core.hints import did_you_mean
from holdfast.core.payload import Shape
from holdfast.core.plurals import counted
from holdfast.core.specs import WorkflowSpec
from holdfast.errors import InvalidArguments, InvalidInput, NotDecodable, UnknownWorkflow

_STARS: dict[int, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}

Bound = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""


def find_workflow(registry: Registry, name: str, version: str | None) -> WorkflowSpec:
    """The workflow of that name and version; without a version, the one registered last."""
    known = {spec.name: spec for spec in registry if not spec.is_internal}
    spec = known.get(name) if version is None else registry.declared(name, version)
    if spec is not None:
        return spec
    if name in known:
        versions = sorted(spec.version or "(none)" for spec in registry if spec.name == name)
        raise UnknownWorkflow(f"workflow {name!r} has no version {version!r} here; it has {', '.join(versions)}")
    served = f"It serves {', '.join(sorted(known))}." if known else "It serves none."
    raise UnknownWorkflow(f"no workflow {name!r} in this app.{did_you_mean(name, sorted(known))} {served}")


def from_json(spec: WorkflowSpec, data: bytes, *, what: str = "--input") -> Bound:
    """Arguments from an object (by name) or an array (by position). `what` names them in errors."""
    value: object = given_json(data, what)
    if isinstance(value, list):
        return _bound(spec, [msgspec.json.encode(item) for item in cast("list[object]", value)], {})
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return _bound(spec, [], {name: msgspec.json.encode(item) for name, item in items})
    raise InvalidInput(f"{what} takes an object (arguments by name) or an array (by position)")


def from_words(spec: WorkflowSpec, words: Mapping[str, str]) -> Bound:
    """Arguments from `name=value`. A value of a text parameter is that text; everything else is JSON."""
    hints = hints_of(spec.function, "its")
    return _bound(spec, [], {name: _word(spec, name, text, hints.get(name, Any)) for name, text in words.items()})


def _word(spec: WorkflowSpec, name: str, text: str, annotation: Any) -> bytes:
    as_text = msgspec.json.encode(text.encode(errors="surrogateescape").decode(errors="replace"))
    try:
        msgspec.json.decode(text)
        as_json = text.encode()
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        if text.lstrip().startswith(("{", "[")) and _attempt(Shape[Any](annotation, what=name), as_text) is _NOTHING:
            raise InvalidArguments(f"{spec.arguments.what}: {name} is not JSON: {error}. {_takes(spec)}") from None
        return as_text
    if annotation is Any or annotation is inspect.Parameter.empty:
        check_keys(as_json, name)
        return as_json
    shape = Shape[Any](annotation, what=name)
    text = _attempt(shape, as_text)
    fits_as_text_only = text is not _NOTHING and _attempt(shape, as_json) is _NOTHING
    if isinstance(text, str) or fits_as_text_only:
        return as_text
    check_keys(as_json, name)
    return as_json


_NOTHING: Any = object()
"""Stands for a value that cannot be decoded."""


def _attempt(shape: Shape[Any], data: bytes) -> Any:
    try:
        return shape.decode(data)
    except NotDecodable:
        return _NOTHING


def _bound(spec: WorkflowSpec, by_place: list[bytes], by_name: dict[str, bytes]) -> Bound:
    """Decodes every argument by its parameter, then checks by Python's rules that they make a call."""
    signature = spec.arguments.signature
    hints = hints_of(spec.function, "its")
    parameters = signature.parameters
    places = [x for x in parameters.values() if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
    rest = next((x for x in parameters.values() if x.kind is x.VAR_POSITIONAL), None)
    others = next((x for x in parameters.values() if x.kind is x.VAR_KEYWORD), None)
    args: list[Any] = []
    for number, data in enumerate(by_place):
        parameter = places[number] if number < len(places) else rest
        if parameter is None:
            raise InvalidArguments(
                f"{spec.arguments.what} takes {counted(len(places), 'argument')} by position, not {len(by_place)}. "
                f"{_takes(spec)}"
            )
        args.append(_decoded(spec, parameter.name, data, hints.get(parameter.name, Any)))
    kwargs: dict[str, Any] = {}
    for name, data in by_name.items():
        parameter = parameters.get(name)
        if parameter is None or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            parameter = others
        if parameter is None:
            hint = did_you_mean(name, list(parameters))
            raise InvalidArguments(f"{spec.arguments.what} has no argument {name!r}.{hint} {_takes(spec)}")
        kwargs[name] = _decoded(spec, name, data, hints.get(parameter.name, Any))
    first = [x.name for x in places if x.kind is x.POSITIONAL_ONLY and x.name in kwargs]
    args += [kwargs.pop(name) for name in first]
    _check_complete(spec, args, kwargs)
    return tuple(args), kwargs


def _check_complete(spec: WorkflowSpec, args: list[Any], kwargs: dict[str, Any]) -> None:
    try:
        spec.arguments.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InvalidArguments(f"{spec.arguments.what}: {error}. {_takes(spec)}") from None


def _decoded(spec: WorkflowSpec, name: str, data: bytes, annotation: Any) -> Any:
    try:
        return Shape[Any](annotation, what=name).decode(data)
    except NotDecodable as error:
        raise InvalidArguments(f"{spec.arguments.what}: {misfit(name, error)}. {_takes(spec)}") from None


def _takes(spec: WorkflowSpec) -> str:
    """The parameters, about as the author wrote them."""
    shown: list[str] = []
    for parameter in spec.arguments.signature.parameters.values():
        stars = _STARS.get(parameter.kind, "")
        kind = "" if parameter.annotation is parameter.empty else f": {_annotation(parameter.annotation)}"
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default):.40}"
        shown.append(f"{stars}{parameter.name}{kind}{default}")
    return f"It takes ({', '.join(shown)})." if shown else "It takes no arguments."


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    if value is None or isinstance(value, str | bytes):
        return repr(value)
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 user code
        return f"({type(value).__name__} whose text cannot be read: {type(error).__name__})"
