"""Values and types that the tests of payloads store."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import strategies as st

from holdfast.core.payload import Shape
from holdfast.errors import InvalidInput, NotEncodable

T = TypeVar("T")


@dataclasses.dataclass
class Item:
    sku: str
    price: float


@dataclasses.dataclass
class Order:
    id: str
    items: list[Item]
    paid_at: dt.datetime | None = None


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: int
    y: int = 0


class Address(TypedDict):
    street: str
    number: int


@attrs.define
class Parcel:
    weight: decimal.Decimal
    labels: list[str] = attrs.Factory(list)


class Struct(msgspec.Struct, rename="camel"):
    some_id: uuid.UUID


class Model(pydantic.BaseModel):
    when: dt.datetime
    why: str = pydantic.Field(default="", alias="reason")


class StrictModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    when: dt.datetime


UserId = NewType("UserId", int)

UTC = dt.UTC

CASES: list[tuple[Any, Any, bytes]] = [
    (None, None, b"null"),
    (bool, True, b"true"),
    (int, 2**63, b"9223372036854775808"),
    (int, 2**64, b"18446744073709551616"),
    (int, -(2**63) - 1, b"-9223372036854775809"),
    (Any, 2**200, str(2**200).encode()),
    (float, 1e308, b"1e308"),
    (float, 0.1, b"0.1"),
    (str, "a\0é\u202e😀", '"a\\u0000é\u202e😀"'.encode()),
    (bytes, b"\x00\xff", b'"AP8="'),
    (bytearray, bytearray(b"x"), b'"eA=="'),
    (list, [1, "a"], b'[1,"a"]'),
    (list[int], [], b"[]"),
    (tuple, (1, "a"), b'[1,"a"]'),
    (tuple[int, ...], (1, 2), b"[1,2]"),
    (tuple[int, str], (1, "a"), b'[1,"a"]'),
    (tuple[()], (), b"[]"),
    (dict, {"b": 1, "a": [None]}, b'{"b":1,"a":[null]}'),
    (dict[int, float], {1: 1.5}, b'{"1":1.5}'),
    (dict[Colour, int], {Colour.RED: 1}, b'{"red":1}'),
    (Sequence[int], [1], b"[1]"),
    (Iterable[int], [1], b"[1]"),
    (Mapping[str, int], {"a": 1}, b'{"a":1}'),
    (Order, Order("o", [Item("s", 1.5)]), b'{"id":"o","items":[{"sku":"s","price":1.5}],"paid_at":null}'),
    (Box[int], Box(1), b'{"content":1}'),
    (Address, {"street": "s", "number": 1}, b'{"street":"s","number":1}'),
    (Point, Point(1, 2), b"[1,2]"),
    (Colour, Colour.BLUE, b'"blue"'),
    (Level, Level.HIGH, b"2"),
    (Literal["a", 1, None], 1, b"1"),  # noqa: PYI061 users do write it
    (int | None, None, b"null"),
    (int | str, "x", b'"x"'),
    (int | float, 1.0, b"1.0"),
    (list[int] | dict[str, int] | str, [1], b"[1]"),
    (dt.datetime, dt.datetime(2026, 1, 2, 3, 4, 5, 6), b'"2026-01-02T03:04:05.000006"'),  # noqa: DTZ001 naive on purpose
    (dt.datetime, dt.datetime(2026, 1, 2, tzinfo=UTC), b'"2026-01-02T00:00:00Z"'),
    (dt.date, dt.date(2026, 1, 2), b'"2026-01-02"'),
    (dt.time, dt.time(1, 2, 3), b'"01:02:03"'),
    (dt.timedelta, dt.timedelta(days=-1, microseconds=1), b'"-PT86399.999999S"'),
    (decimal.Decimal, decimal.Decimal("1.50"), b'"1.50"'),
    (uuid.UUID, uuid.UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
    (Parcel, Parcel(decimal.Decimal(1)), b'{"labels":[],"weight":"1"}'),  # slots: by name
    (Struct, Struct(uuid.UUID(int=0)), b'{"someId":"00000000-0000-0000-0000-000000000000"}'),
    (
        Model,
        Model(when=dt.datetime(2026, 1, 2, tzinfo=UTC), reason="x"),
        b'{"when":"2026-01-02T00:00:00Z","reason":"x"}',
    ),
    (StrictModel | None, StrictModel(when=dt.datetime(2026, 1, 2, tzinfo=UTC)), b'{"when":"2026-01-02T00:00:00Z"}'),
    (UserId, 5, b"5"),
    (Annotated[int, msgspec.Meta(ge=0)], 5, b"5"),
    (Annotated[int, ["not hashable"]], 5, b"5"),
    (object, [1], b"[1]"),
    (int | Any, "x", b'"x"'),
]


def refused(annotation: Any, value: Any, path: str = "result") -> NotEncodable:
    with pytest.raises(NotEncodable) as caught:
        Shape(annotation, what="shop.f").encode(value, path)
    assert str(caught.value).startswith("shop.f: ")
    assert isinstance(caught.value, InvalidInput)
    return caught.value


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


class Plain:
    pass
