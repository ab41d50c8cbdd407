"""Checks JSON Schemas, and finds parts of a flow that cannot match them before anything runs.

The library is an extra, imported with the first flow that has a schema. Schemas refer only to themselves: nothing is
ever fetched.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.authoring.flow.definition_reader import did_you_mean
from holdfast.authoring.flow.evaluation import evaluate
from holdfast.authoring.flow.expressions import (
    Binary,
    Expression,
    Fields,
    Items,
    Json,
    Path,
    Text,
    Unary,
    is_constant,
)
from holdfast.authoring.flow.written import path_text
from holdfast.core.guards import is_dict, is_list
from holdfast.errors import ExpressionFailed, UsageError
from holdfast.extras import install_command

__all__ = ["kinds_at", "kinds_of", "misfits", "misfits_of", "path_misfit", "schema_problems", "validator"]

Place: TypeAlias = tuple[str | int, ...]

SHOWN: Final = 5
"""Maximum number of reported misfits of one value."""

_OPEN: Final = frozenset(
    {"$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "if", "not", "patternProperties", "enum", "const"}
)
"""Keywords with which a schema says more than `type`, `properties` and `items` do."""

_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


_KINDS: Final = {"string": "str", "boolean": "bool", "integer": "int", "number": "float"}


def validator(schema: Json) -> Any:
    """The compiled schema. Raises `ValueError` if it is invalid, `UsageError` if the library is not installed."""
    return _compiled(msgspec.json.encode(schema, order="deterministic"))


@functools.lru_cache(maxsize=128)
def _compiled(schema: bytes) -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        raise UsageError(
            "this flow has a JSON Schema, and the library that checks it is not installed. "
            f"Install it: {install_command('flows')}"
        ) from None
    return jsonschema_rs.validator_for(msgspec.json.decode(schema), offline=True)


def schema_problems(schema: Json) -> Iterator[tuple[Place, str]]:
    """What is wrong with a schema itself, each with its place in it."""
    if schema is None or isinstance(schema, bool):
        return
    try:
        validator(schema)
    except ValueError as error:
        place: Place = tuple(getattr(error, "instance_path", ()))
        message = str(getattr(error, "message", error)).splitlines()[0]
        yield place, f"this JSON Schema is invalid: {message[:300]}"


def misfits(schema: Json, value: Json, name: str) -> list[str]:
    """The parts of a value that do not match, each with its path: `input.lines[0].sku: 5 is not of type "string"`."""
    return [f"{_named(name, place)}: {message}" for place, message in _misfits(schema, value)]


def _misfits(schema: Json, value: Json) -> Iterator[tuple[Place, str]]:
    if schema is None or schema is True:
        return
    for count, error in enumerate(validator(schema).iter_errors(value)):
        if count == SHOWN:
            return
        yield tuple(error.instance_path), str(error.message)[:300]


def misfits_of(tree: Expression, schema: Json, name: str, at: Place = ()) -> Iterator[tuple[Place, str]]:
    """The parts of a tree that cannot match a valid schema, whatever the data will be; each with its place."""
    if not is_dict(schema) or any(True for _ in schema_problems(schema)):
        return
    if is_constant(tree):
        try:
            value = evaluate(tree, {})
        except ExpressionFailed:  # is reported by itself
            return
        yield from (((*at, *place), f"{_named(name, (*at, *place))}: {why}") for place, why in _misfits(schema, value))
        return
    kind = _kind(tree)
    allowed = _allowed(schema)
    if kind and allowed and kind not in allowed and not (kind == "number" and "integer" in allowed):
        yield at, f"{_named(name, at)}: is {kind}, but the schema requires {' or '.join(sorted(allowed))}"
    elif isinstance(tree, Fields):
        yield from _fields(tree, schema, name, at)
    elif isinstance(tree, Items) and is_dict(schema.get("items")) and "prefixItems" not in schema:
        for number, item in enumerate(tree.items):
            yield from misfits_of(item, _inside(schema, schema["items"]), name, (*at, number))


def _fields(tree: Fields, schema: dict[str, Any], name: str, at: Place) -> Iterator[tuple[Place, str]]:
    keys = {key for key, _ in tree.fields}
    properties: Any = schema.get("properties")
    known: dict[str, Any] = properties if is_dict(properties) else {}
    required: Any = schema.get("required")
    for key in required if is_list(required) else ():
        if key not in keys:
            yield at, f"{_named(name, at)}: needs {key!r}, which is missing"
    is_closed = schema.get("additionalProperties") is False and not (_OPEN & schema.keys())
    for key, value in tree.fields:
        if key in known:
            yield from misfits_of(value, _inside(schema, known[key]), name, (*at, key))
        elif is_closed:
            yield (*at, key), f"{_named(name, (*at, key))}: the schema has no {key!r}{did_you_mean(key, known)}"


def path_misfit(schema: Json, path: Path, start: int = 0) -> str:
    """The problem of a path into data of that schema, whose parts begin at `start`; empty if none is known."""
    for place, part in enumerate(path.parts[start:], start):
        if not is_dict(schema) or _OPEN & schema.keys():
            return ""
        here, allowed = path_text(Path(path.root, path.parts[:place])), _allowed(schema)
        needed = "object" if isinstance(part, str) else "array"
        if allowed and needed not in allowed:
            return f"{path_text(path)}: {here} is {' or '.join(sorted(allowed))} by its schema, not {needed}"
        if isinstance(part, int):
            schema = schema.get("items") if "prefixItems" not in schema else None
            continue
        properties: Any = schema.get("properties")
        known: dict[str, Any] = properties if is_dict(properties) else {}
        if part not in known and schema.get("additionalProperties") is False:
            return f"{path_text(path)}: by its schema {here} has no {part!r}{did_you_mean(part, known)}"
        schema = known.get(part)
    return ""


def kinds_at(schema: Json, path: Path, start: int = 0) -> frozenset[str]:
    """The kinds that data of that schema may have at the end of a valid path; empty if unknown."""
    for part in path.parts[start:]:
        if not is_dict(schema) or _OPEN & schema.keys() or "prefixItems" in schema:
            return frozenset()
        inside: Any = schema.get("properties") if isinstance(part, str) else {part: schema.get("items")}
        schema = inside.get(part) if is_dict(inside) else None
    return kinds_of(schema)


def kinds_of(schema: Json) -> frozenset[str]:
    """The kinds that data of that schema may have, in the words of annotations; empty if unknown."""
    if not is_dict(schema) or _OPEN & schema.keys():
        return frozenset()
    return frozenset(_KINDS.get(each, each) for each in _allowed(schema))


def _inside(whole: dict[str, Any], part: Any) -> Any:
    """A part of a schema as a schema of its own, with its references intact."""
    kept = {key: whole[key] for key in ("$defs", "definitions", "$schema") if key in whole}
    return {**kept, **part} if is_dict(part) else part


def _kind(tree: Expression) -> str:
    """The JSON type of a tree's value, if it is known without data."""
    match tree:
        case Fields():
            return "object"
        case Items():
            return "array"
        case Text():
            return "string"
        case Unary("not", _):
            return "boolean"
        case Unary():
            return "number"
        case Binary(operator, _, _):
            if operator in {"-", "*", "/"}:
                return "number"
            return "" if operator in {"+", "??"} else "boolean"
        case _:
            return ""


def _allowed(schema: dict[str, Any]) -> frozenset[str]:
    said: Any = schema.get("type")
    if isinstance(said, str):
        return frozenset({said})
    return frozenset(each for each in said if isinstance(each, str)) if is_list(said) else frozenset()


def _named(name: str, place: Place) -> str:
    return name + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
