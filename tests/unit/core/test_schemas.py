"""JSON Schema of annotations says what the codec writes and takes."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import typing
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.core.payload import Arguments, Shape
from holdfast.core.schemas import joined


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Mixed(enum.Enum):
    HALF = 0.5
    NAME = "x"


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    id: str
    lines: list[Line]
    price: decimal.Decimal | None = None
    parts: list[Order] = field(default_factory=list["Order"])


@dataclass
class Refund:
    id: str


class Loose(typing.TypedDict):
    a: int
    b: typing.NotRequired[str]


CASES: list[tuple[Any, Any]] = [
    (int, 3),
    (str | None, None),
    (bool, True),
    (dt.datetime, dt.datetime(2026, 1, 2, tzinfo=dt.UTC)),
    (dt.timedelta, dt.timedelta(seconds=3)),
    (bytes, b"\x00\xff"),
    (Colour, Colour.BLUE),
    (Mixed, Mixed.HALF),
    (typing.Literal["a", "b"], "b"),
    (list[int], [1, 2]),
    (set[str], {"a"}),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (dict[str, float], {"a": 1.5}),
    (Order, Order("1", [Line("x")], decimal.Decimal("1.5"), [Order("2", [])])),
    (Order | Refund, Refund("1")),
    (Order | Refund | None, None),
    (Loose, {"a": 1}),
    (list[Order | Refund], [Refund("1"), Order("2", [])]),
    (Any, {"x": [1, None]}),
]


TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "array": (list,),
    "object": (dict,),
}


def fits(schema: dict[str, Any], data: Any, defs: dict[str, Any]) -> bool:
    """Whether data is valid: the part of JSON Schema that is written here, and nothing else."""
    known = {
        *("$ref", "$defs", "anyOf", "enum", "const", "type", "properties", "required", "additionalProperties"),
        *("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "default", "format", "contentEncoding"),
    }
    assert set(schema) <= known, f"not checked here: {set(schema) - known}"
    if "$ref" in schema and not fits(defs[schema["$ref"].removeprefix("#/$defs/")], data, defs):
        return False
    if "anyOf" in schema and not any(fits(each, data, defs) for each in schema["anyOf"]):
        return False
    if "enum" in schema and data not in schema["enum"]:
        return False
    if "type" in schema:
        is_other = isinstance(data, bool) and schema["type"] != "boolean"
        if is_other or not isinstance(data, TYPES[schema["type"]]):
            return False
    return _object_fits(schema, data, defs) if isinstance(data, dict) else _array_fits(schema, data, defs)


def _object_fits(schema: dict[str, Any], data: dict[str, Any], defs: dict[str, Any]) -> bool:
    parts = schema.get("properties", {})
    more = schema.get("additionalProperties", {})
    if not set(schema.get("required", [])) <= set(data) or (more is False and not set(data) <= set(parts)):
        return False
    return all(fits(parts.get(key, more or {}), value, defs) for key, value in data.items())


def _array_fits(schema: dict[str, Any], data: Any, defs: dict[str, Any]) -> bool:
    if not isinstance(data, list):
        return True
    if not schema.get("minItems", 0) <= len(data) <= schema.get("maxItems", len(data)):
        return False
    first = schema.get("prefixItems", [])
    wanted = [*first, *[schema.get("items", {})] * (len(data) - len(first))]
    return all(fits(each, item, defs) for each, item in zip(wanted, data, strict=False))


def check(schema: dict[str, Any], data: Any) -> bool:
    return fits(schema, data, schema.get("$defs", {}))


@pytest.mark.parametrize(("annotation", "value"), CASES, ids=lambda x: str(x)[:40])
def test_what_is_stored_fits_its_schema(annotation: Any, value: Any) -> None:
    """Promise: a value that encodes is valid under the schema of its annotation."""
    shape: Shape[Any] = Shape(annotation, what="it")
    assert check(shape.schema(), json.loads(shape.encode(value)))


@pytest.mark.parametrize(
    ("annotation", "data"),
    [(int, "x"), (Order, {"id": "1"}), (Order | Refund, {"id": "1"}), (Colour, 3), (tuple[int, str], [1]), (Loose, {})],
    ids=str,
)
def test_what_does_not_decode_does_not_fit(annotation: Any, data: Any) -> None:
    """Promise: data that is refused is refused by the schema too."""
    assert not check(Shape[Any](annotation, what="it").schema(), data)


def test_the_schema_of_a_call_is_an_object_by_parameter_name() -> None:
    """Promise: required parameters are required, defaults are shown, unknown names are refused."""

    def place(order: Order, express: bool = False, *, note: str | None = None) -> None: ...

    place.__annotations__ = {"order": Order, "express": bool, "note": str | None}
    schema = Arguments(place, what="place").schema()
    assert schema["required"] == ["order"]
    assert schema["properties"]["express"] == {"type": "boolean", "default": False}
    assert schema["additionalProperties"] is False
    assert check(schema, {"order": {"id": "1", "lines": []}})
    assert not check(schema, {"order": {"id": "1", "lines": []}, "expres": True})


def test_classes_of_one_name_are_told_apart_when_schemas_are_joined() -> None:
    """Promise: joining two schemas never makes one class speak for another."""
    first: dict[str, Any] = {"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}}
    other: dict[str, Any] = {"$ref": "#/$defs/A", "$defs": {"A": {"type": "integer"}}}
    [one, same, two], defs = joined([first, first, other])
    assert one == same == {"$ref": "#/$defs/A"}
    assert two == {"$ref": "#/$defs/A2"}
    assert defs == {"A": {"type": "string"}, "A2": {"type": "integer"}}
