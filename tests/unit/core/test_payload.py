"""Shapes: a value comes back equal from the bytes that stand for it, or is refused with its place and the cure."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import hashlib
import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NoReturn, TypedDict, TypeVar

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import codec
from holdfast.core.payload import MAX_DEPTH, MAX_INLINE, MAX_PAYLOAD, Shape, canonical, hash_of, result_shape
from holdfast.errors import DefinitionError, InvalidInput, NotDecodable, NotEncodable, PayloadTooLarge

T = TypeVar("T")


@pytest.fixture(autouse=True)
def fresh_codecs() -> None:
    """Each test compiles what it uses: none leans on what another one left in the cache."""
    codec._compiled.cache_clear()


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
class Chain:
    next: Chain | None = None


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


@dataclasses.dataclass(eq=False)
class Identity:
    x: int
    inner: Identity | None = None


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


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def refused(annotation: Any, value: Any, path: str = "result") -> NotEncodable:
    with pytest.raises(NotEncodable) as caught:
        Shape(annotation, what="shop.f").encode(value, path)
    assert str(caught.value).startswith("shop.f: ")
    assert isinstance(caught.value, InvalidInput)
    return caught.value


# -- what comes back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("annotation", "value", "data"), CASES, ids=[str(number) for number in range(len(CASES))])
def test_a_value_is_stored_as_this_json_and_comes_back_equal(annotation: Any, value: Any, data: bytes) -> None:
    shape: Shape[Any] = Shape(annotation, what="x")
    assert shape.encode(value, "value") == data
    written, back = shape.round_trip(value, "value")
    assert written == data
    assert back == value
    assert type(back) is type(value)
    assert shape.decode(data) == value
    assert shape.decode(msgspec.Raw(data)) == value


def test_negative_zero_keeps_its_sign() -> None:
    for annotation in (float, Any):
        assert str(Shape[Any](annotation, what="x").round_trip(-0.0)[1]) == "-0.0"


def test_an_int_where_a_float_is_annotated_comes_back_as_that_float() -> None:
    back = Shape[float](float, what="x").round_trip(3)[1]
    assert (back, type(back)) == (3.0, float)


def test_the_copy_is_independent_of_what_was_given() -> None:
    order = Order("o", [Item("s", 1.0)])
    data, back = Shape[Order](Order, what="x").round_trip(order)
    order.items.append(Item("t", 2.0))
    assert back == Order("o", [Item("s", 1.0)])
    assert Shape[Order](Order, what="x").decode(data) == back


def test_an_aware_time_keeps_its_instant_and_its_offset() -> None:
    at = dt.datetime(2026, 1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30)))
    back = Shape[dt.datetime](dt.datetime, what="x").round_trip(at)[1]
    assert back == at
    assert back.utcoffset() == at.utcoffset()


def test_a_class_without_equality_is_compared_part_by_part() -> None:
    data, back = Shape[Identity](Identity, what="x").round_trip(Identity(1, Identity(2)))
    assert data == b'{"x":1,"inner":{"x":2,"inner":null}}'
    assert back.inner is not None
    assert (back.x, back.inner.x) == (1, 2)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(plain)
def test_plain_json_needs_no_annotation(value: Any) -> None:
    data, back = Shape[Any](Any, what="x").round_trip(value)
    assert back == value
    assert repr(back) == repr(value)
    assert json.loads(data) == value
    assert Shape[Any](Any, what="x").decode(data) == value


@given(
    st.builds(
        Order,
        st.text(),
        st.lists(st.builds(Item, st.text(), st.floats(allow_nan=False, allow_infinity=False)), max_size=3),
        st.none() | st.datetimes() | st.datetimes(timezones=st.just(UTC)),
    )
)
def test_classes_come_back_equal(order: Order) -> None:
    assert Shape[Order](Order, what="x").round_trip(order)[1] == order


@given(st.decimals(allow_nan=False) | st.timedeltas() | st.uuids() | st.binary() | st.dates() | st.times())
def test_scalars_come_back_equal(value: Any) -> None:
    back = Shape[Any](type(value), what="x").round_trip(value)[1]
    assert back == value
    assert str(back) == str(value)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("annotation", "wrap", "place"),
    [
        (float, lambda n: n, "order"),
        (Any, lambda n: n, "order"),
        (float | None, lambda n: n, "order"),
        (Order, lambda n: Order("o", [Item("a", 1.0), Item("b", n)]), "order.items[1].price"),
        (dict[str, list[float | None]], lambda n: {"a": [None, n]}, "order['a'][1]"),
        (Point, lambda n: Point(1, n), "order.y"),
        (Any, lambda n: {"a": {"b": (n,)}}, "order['a']['b'][0]"),
        (set[float], lambda n: {n}, None),
        (Parcel, Parcel, "order.weight"),
    ],
)
def test_numbers_json_cannot_hold_are_refused_by_place(
    annotation: Any, wrap: Callable[[float], Any], place: str | None, number: float
) -> None:
    place = place or f"order[{number}]"
    error = refused(annotation, wrap(number), "order")
    assert error.path == place
    assert str(error) == f"shop.f: {place} is {number}, which JSON cannot hold. Use None, or a text, for it."


def generator() -> Any:
    yield 1


class Plain:
    pass


@pytest.mark.parametrize(
    ("annotation", "value", "path", "problem"),
    [
        (Any, generator(), "result", "is a generator, which cannot be stored. Store what it was made from."),
        (Any, [1, Plain()], "result[1]", "is a Plain, which cannot be stored."),
        (list[int], [1, object()], "result[1]", "is an object, which cannot be stored."),
        (Any, {"a": int}, "result['a']", "is a type, which cannot be stored."),
        (Any, sys.stdout.__class__, "result", "is a type, which cannot be stored."),
        (Any, lambda: 1, "result", "is a function, which cannot be stored."),
        (Any, collections.deque([1]), "result", "is a deque, which cannot be stored."),
        (Order, Order("\ud800", []), "result.id", "holds half of a surrogate pair at position 0, which is not text."),
        (Any, {"\udc00": 1}, "result", "has a key that holds half of a surrogate pair at position 0"),
        (
            Any,
            {(1, 2): 3},
            "result",
            "has a key that is a tuple, and JSON keys are text. Use str keys, or a list of pairs.",
        ),
        (Any, {None: 3}, "result", "has a key that is a NoneType, and JSON keys are text."),
        (dict[float, int], {float("nan"): 3}, "result", "has a key that is nan, which JSON cannot hold."),
        (int, 1 << 14_300, "result", "is an integer of 14301 bits, too large to store. Store it as bytes."),
        (int, True, "result", "does not fit its annotation: Expected `int`, got `bool`."),
        (int, "1", "result", "does not fit its annotation: Expected `int`, got `str`."),
        (float, 10**400, "result", "does not fit its annotation: Number out of range."),
        (Order, Order("o", [Item("a", "free")]), "result.items[0].price", "Expected `float`, got `str`."),  # type: ignore[arg-type]
        (Annotated[int, msgspec.Meta(ge=0)], -1, "result", "does not fit its annotation: Expected `int` >= 0."),
        (dict[str, int], {"a": "b"}, "result[...]", "does not fit its annotation: Expected `int`, got `str`."),
        (Model, Plain(), "result", "is a Plain, which cannot be stored."),
    ],
    ids=[str(number) for number in range(20)],
)
def test_what_cannot_be_stored_is_refused_by_place(annotation: Any, value: Any, path: str, problem: str) -> None:
    error = refused(annotation, value)
    assert error.path == path
    assert str(error).startswith(f"shop.f: {path} ")
    assert problem in str(error)


@pytest.mark.parametrize(
    ("annotation", "value", "path", "problem"),
    [
        (Any, (1, 2), "result", "a tuple came back as a list. Annotate it as tuple[int, ...]."),
        (Any, {"a": [(1, "x")]}, "result['a'][0]", "a tuple came back as a list. Annotate it as tuple[Any, ...]."),
        (Any, (), "result", "a tuple came back as a list. Annotate it as tuple[Any, ...]."),
        (Any, {1}, "result", "a set came back as a list. Annotate it as set[int]."),
        (Any, frozenset(), "result", "a frozenset came back as a list. Annotate it as frozenset[Any]."),
        (Any, b"x", "result", "a bytes came back as a str. Annotate it as bytes."),
        (Any, dt.date(2026, 1, 1), "result", "a date came back as a str. Annotate it as date."),
        (Any, decimal.Decimal(1), "result", "a Decimal came back as a str. Annotate it as Decimal."),
        (Any, Item("s", 1.0), "result", "an Item came back as a dict. Annotate it as Item."),
        (Any, Point(1, 2), "result", "a Point came back as a list. Annotate it as Point."),
        (Any, Model(when=dt.datetime(2026, 1, 1)), "result", "a Model came back as a dict. Annotate it as Model."),  # noqa: DTZ001
        (Any, Colour.RED, "result", "a Colour came back as a str. Annotate it as Colour."),
        (list[int], (1,), "result", "a tuple came back as a list. Annotate it as tuple[int, ...]."),
        (Any, {1: 2}, "result", "the key 1 (int) came back as text. Annotate the dict as dict[int, …]."),
        (
            Any,
            {"a": {1.5: 2}},
            "result['a']",
            "the key 1.5 (float) came back as text. Annotate the dict as dict[float, …].",
        ),
        (Address, {"street": "s", "number": 1, "zip": "z"}, "result", "the key 'zip' did not come back. Add it to the"),
        (float, 2**53 + 1, "result", "an int came back as a float. Annotate it as int."),
        (decimal.Decimal, decimal.Decimal("NaN"), "result", "<Decimal> came back as <Decimal>."),
    ],
    ids=[str(number) for number in range(18)],
)
def test_what_does_not_come_back_equal_is_refused_with_the_annotation_it_needs(
    annotation: Any, value: Any, path: str, problem: str
) -> None:
    error = refused(annotation, value)
    assert error.path == path
    assert str(error).startswith(f"shop.f: {path} does not come back equal: ")
    assert problem in str(error)


def test_a_subclass_is_not_silently_cut_down_to_its_annotation() -> None:
    @dataclasses.dataclass
    class Gift(Item):
        note: str = ""

    assert "a Gift came back as an Item. Annotate it as" in str(refused(Item, Gift("s", 1.0, "hi")))


@dataclasses.dataclass
class Loud:
    text: str

    def __post_init__(self) -> None:
        if self.text == "quiet":
            self.text = "quiet!"


def test_a_part_that_the_class_changes_is_found() -> None:
    loud = Loud("")
    loud.text = "quiet"
    error = refused(Loud, loud)
    assert str(error) == "shop.f: result.text does not come back equal: 'quiet' came back as 'quiet!'."


@dataclasses.dataclass
class Grumpy:  # noqa: PLW1641 it is not hashed
    x: int

    def __eq__(self, other: object) -> NoReturn:
        raise RuntimeError("do not compare me")


def test_a_class_that_cannot_be_compared_is_refused() -> None:
    error = refused(Grumpy, Grumpy(1))
    assert str(error) == "shop.f: result cannot be stored: RuntimeError: do not compare me."


@dataclasses.dataclass
class Fragile:
    x: int

    def __post_init__(self) -> None:
        if self.x == 2:
            raise ValueError("two is not allowed")


def test_what_a_class_says_when_it_is_read_back_is_passed_on() -> None:
    fragile = Fragile(1)
    fragile.x = 2
    assert "does not fit its annotation: two is not allowed." in str(refused(Fragile, fragile))
    with pytest.raises(NotDecodable, match="two is not allowed"):
        Shape[Fragile](Fragile, what="x").decode(b'{"x":2}')


def test_without_a_path_it_is_the_value() -> None:
    with pytest.raises(NotEncodable, match=r"^shop\.f: the value is nan, ") as caught:
        Shape[float](float, what="shop.f").encode(float("nan"))
    assert caught.value.path == ""


# -- depth and size ----------------------------------------------------------------------------------------------------


def test_sixty_four_levels_are_stored_and_one_more_is_not() -> None:
    assert MAX_DEPTH == 64
    shape: Shape[Any] = Shape(Any, what="shop.f")
    data = shape.encode(nested(64))
    assert shape.decode(data) == nested(64)
    error = refused(Any, nested(65))
    assert error.path == "result" + "[0]" * 64
    assert "is nested more than 64 levels deep. Flatten it, or store it as text." in str(error)
    with pytest.raises(NotDecodable, match=r"^shop\.f: the stored data is nested more than 64 levels deep"):
        shape.decode(b"[" + data + b"]")


def test_a_long_path_is_shortened_in_the_message_only() -> None:
    value = {"k" * 40: {"l" * 40: {"m" * 40: {"n" * 40: {"o" * 40: float("nan")}}}}}
    error = refused(Any, value)
    assert len(error.path) > 200
    assert f"shop.f: {error.path[:100]} … {error.path[-60:]} is nan" in str(error)
    short = refused(Any, {"k" * 40: {"l" * 40: {"m" * 40: {"n" * 40: float("nan")}}}}, "r" * 16)
    assert len(short.path) == 192
    assert short.path in str(short)


def test_width_is_not_depth() -> None:
    wide = [{"a": "]}[{", "b": ['"', "\\"]} for _ in range(500)]
    assert Shape[Any](Any, what="x").round_trip(wide)[1] == wide
    deep_text = "[" * 1000 + '"' + "{" * 1000
    assert Shape[Any](Any, what="x").round_trip([deep_text])[1] == [deep_text]


def test_a_type_that_contains_itself_is_bounded_too() -> None:
    chain = Chain()
    for _ in range(63):
        chain = Chain(chain)
    assert Shape[Chain](Chain, what="x").round_trip(chain)[1] == chain
    error = refused(Chain, Chain(chain))
    assert error.path == "result" + ".next" * 64
    assert "is nested more than 64 levels deep" in str(error)


@pytest.mark.parametrize("annotation", [Any, list[Any], Chain])
def test_absurd_depth_is_a_bounded_error(annotation: Any) -> None:
    assert "is nested more than 64 levels deep" in str(refused(annotation, nested(100_000)))
    for junk in (b"[" * 100_000, b'{"next":' * 100_000, b"[" * 100_000 + b"]" * 100_000):
        with pytest.raises(NotDecodable, match="levels deep"):
            Shape[Any](annotation, what="x").decode(junk)


def test_junk_depth_under_a_closed_annotation_is_a_bounded_error() -> None:
    with pytest.raises(NotDecodable):
        Shape[Item](Item, what="x").decode(b'{"unknown":' + b"[" * 100_000)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = [1]
    loop.append({"me": loop})
    assert str(refused(Any, loop)) == ("shop.f: result[1]['me'] refers to itself. Store ids instead of references.")
    chain = Chain()
    chain.next = chain
    assert refused(Chain, chain).path == "result.next"


def test_a_value_shared_by_two_places_is_no_circle() -> None:
    shared = [1]
    assert Shape[Any](Any, what="x").round_trip([shared, shared])[1] == [[1], [1]]


def test_limits_are_what_the_documentation_says() -> None:
    assert MAX_INLINE == 128 * 1024
    assert MAX_PAYLOAD == 64 * 1024 * 1024


def test_a_payload_above_the_limit_is_refused_with_its_size() -> None:
    shape: Shape[str] = Shape(str, what="shop.f")
    at_limit = "x" * (MAX_PAYLOAD - 2)
    assert len(shape.encode(at_limit)) == MAX_PAYLOAD
    with pytest.raises(PayloadTooLarge) as caught:
        shape.encode(at_limit + "x", "report")
    assert (caught.value.size, caught.value.limit) == (MAX_PAYLOAD + 1, MAX_PAYLOAD)
    assert str(caught.value) == (
        "shop.f: report takes 67108865 bytes, more than the limit of 67108864 (max_payload). "
        "Store it elsewhere and pass a reference to it."
    )
    with pytest.raises(PayloadTooLarge, match=r"^shop\.f: the value takes"):
        shape.encode(at_limit + "x")


def test_a_million_keys_are_no_problem() -> None:
    value = {str(number): number for number in range(200_000)}
    assert Shape[Any](Any, what="x").round_trip(value)[1] == value


# -- decoding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "data", "path", "problem"),
    [
        (int, b'"x"', "", "the stored data does not fit the annotation: Expected `int`, got `str`."),
        (
            Order,
            b'{"id":"o","items":[{"sku":"s"}]}',
            "items[0]",
            (
                "does not fit the annotation at items[0]: Object missing required field `price`. "
                "Was the type changed since it was stored? Give new fields a default, and keep the old ones."
            ),
        ),
        (
            Order,
            b'{"id":"o","items":[{"sku":"s","price":"x"}]}',
            "items[0].price",
            "at items[0].price: Expected `float`",
        ),
        (dict[int, int], b'{"a":1}', "", "Expected `int`, got `str`"),
        (int, b"", "", "DecodeError: Input data was truncated."),
        (int, b"1 2", "", "DecodeError: JSON is malformed: trailing characters"),
        (Any, b"NaN", "", "DecodeError: JSON is malformed"),
        (Any, b"\xff", "", "DecodeError: JSON is malformed"),
        (Any, b'"\xff"', "", "UnicodeDecodeError: "),
        (Any, b'"\\ud800"', "", "DecodeError: "),
        (Any, b"1e400", "", "Number out of range"),
        (Colour, b'"green"', "", "Invalid enum value 'green'"),
        (Model, b'{"when":"soon"}', "", "validation error"),
    ],
    ids=[str(number) for number in range(13)],
)
def test_data_that_does_not_fit_is_refused_by_place(annotation: Any, data: bytes, path: str, problem: str) -> None:
    with pytest.raises(NotDecodable) as caught:
        Shape(annotation, what="shop.f").decode(data)
    assert caught.value.path == path
    assert str(caught.value).startswith("shop.f: the stored data does not fit the annotation")
    assert problem in str(caught.value)


def test_of_two_equal_keys_the_last_one_counts() -> None:
    assert Shape[Any](Any, what="x").decode(b'{"a":1,"a":2}') == {"a": 2}


def test_a_field_added_later_takes_its_default() -> None:
    assert Shape[Order](Order, what="x").decode(b'{"id":"o","items":[],"gone":1}') == Order("o", [])


@given(st.binary(max_size=60))
def test_foreign_bytes_never_crash(data: bytes) -> None:
    for annotation in (Any, Order, dict[str, int], set[int]):
        try:
            Shape[Any](annotation, what="x").decode(data)
        except NotDecodable:
            continue


# -- definitions -------------------------------------------------------------------------------------------------------

ADVICE = (
    "Use None, bool, int, float, str, bytes, datetime, date, time, timedelta, Decimal, UUID, enums, lists, tuples, "
    "sets, dicts, dataclasses, TypedDict, NamedTuple, attrs, msgspec or Pydantic classes."
)


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        (Plain, f"{__name__}.Plain cannot be stored. {ADVICE}"),
        (list[Plain], f"{__name__}.Plain cannot be stored."),
        (complex, f"complex cannot be stored. {ADVICE}"),
        (range, "range cannot be stored."),
        (type[int], "type cannot be stored."),
        (Callable[[], int], "collections.abc.Callable cannot be stored."),
        (collections.deque[int], "collections.deque cannot be stored."),
        (5, "5 cannot be stored."),
        (
            dict[tuple[int, int], int],
            (
                "the keys of dict[tuple[int, int], int] cannot be JSON keys. "
                "Use str, int, float, an enum, datetime or UUID, or a list of pairs instead of the dict."
            ),
        ),
        (dict[None, int], "the keys of dict[None, int] cannot be JSON keys."),
        (dict[bool, int], "the keys of dict[bool, int] cannot be JSON keys."),
        ("Order", "the annotation 'Order' cannot be resolved. A class defined inside a function"),
    ],
    ids=[str(number) for number in range(12)],
)
def test_a_type_that_cannot_be_stored_is_refused_at_definition(annotation: Any, problem: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        Shape(annotation, what="result of shop.f").check()
    assert str(caught.value).startswith(f"result of shop.f: {problem}")
    with pytest.raises(DefinitionError):
        Shape(annotation, what="x").decode(b"1")


def test_a_class_local_to_a_function_cannot_be_found_and_the_error_says_why() -> None:
    @dataclasses.dataclass
    class Local:
        inner: Unseen  # type: ignore[name-defined]  # noqa: F821

    def function() -> Unknown:  # type: ignore[name-defined]  # noqa: F821
        ...

    with pytest.raises(DefinitionError) as caught:
        result_shape(function, "result of f").check()
    assert str(caught.value) == (
        "result of f: its annotations cannot be read: name 'Unknown' is not defined. "
        "A class defined inside a function, or imported only under TYPE_CHECKING, cannot be found by its name: "
        "define or import it at the top of the module."
    )
    with pytest.raises(
        DefinitionError, match=r"Local: its annotations cannot be read: name 'Unseen' is not defined\. A"
    ):
        Shape(Local, what="x").check()


def test_an_annotation_that_raises_is_reported() -> None:
    def function(): ...  # type: ignore[no-untyped-def]

    function.__annotations__["return"] = "1 / 0"
    with pytest.raises(
        DefinitionError, match=r"^x: its annotations cannot be read: ZeroDivisionError: division by zero$"
    ):
        result_shape(function, "x").check()


# -- results, hashes, imports ------------------------------------------------------------------------------------------


def test_a_result_is_read_by_the_return_annotation() -> None:
    async def answer() -> Order:
        raise NotImplementedError

    def plain() -> tuple[int, ...]:
        raise NotImplementedError

    def unsaid(): ...  # type: ignore[no-untyped-def]

    def nothing() -> None: ...

    assert result_shape(answer, "x").annotation is Order
    assert result_shape(plain, "x").round_trip((1,))[1] == (1,)
    assert result_shape(unsaid, "x").annotation is Any
    assert result_shape(nothing, "x").encode(None) == b"null"


def test_annotations_are_read_when_first_needed() -> None:
    def function() -> Later:  # type: ignore[name-defined]  # noqa: F821
        ...

    shape = result_shape(function, "result of f")
    assert shape.what == "result of f"
    globals()["Later"] = int
    try:
        assert shape.encode(5) == b"5"
    finally:
        del globals()["Later"]


def test_partials_and_callable_objects_have_annotations_too() -> None:
    import functools

    def function(a: int, b: int) -> tuple[int, int]:
        raise NotImplementedError

    class Caller:
        def __call__(self) -> tuple[int, int]:
            raise NotImplementedError

    assert result_shape(functools.partial(function, 1), "x").annotation == tuple[int, int]
    assert result_shape(Caller(), "x").annotation == tuple[int, int]


def test_a_hash_is_the_sha256_of_the_bytes() -> None:
    assert hash_of(b"") == hashlib.sha256(b"").hexdigest()
    assert hash_of(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_canonical_json_sorts_keys_and_drops_blanks() -> None:
    assert canonical(b'{"b": [1, {"d": 1, "c": 2}], "a": 1.0}') == b'{"a":1.0,"b":[1,{"c":2,"d":1}]}'
    assert canonical(b"[2, 1]") == b"[2,1]"


@pytest.mark.parametrize("data", [b"", b"{", b"NaN", b'"\xff"'])
def test_canonical_refuses_what_is_not_json(data: bytes) -> None:
    with pytest.raises(NotDecodable, match=r"^the data is not JSON: "):
        canonical(data)


def test_canonical_is_bounded_in_depth_arguments_included() -> None:
    assert canonical(b"[" * 65 + b"]" * 65) == b"[" * 65 + b"]" * 65
    with pytest.raises(NotDecodable, match=r"^the data is nested more than 64 levels deep\.$"):
        canonical(b"[" * 66 + b"]" * 66)


@given(plain)
def test_equal_values_have_equal_canonical_bytes(value: Any) -> None:
    data = Shape[Any](Any, what="x").encode(value)
    assert json.loads(canonical(data)) == value
    assert canonical(canonical(data)) == canonical(data)


def test_pydantic_is_not_imported_by_us() -> None:
    code = (
        "import sys; from typing import Any; from holdfast.core.payload import Shape; "
        "Shape(list[int], what='x').encode([1]); Shape(Any, what='x').encode({'a': 1}); "
        "assert not {'pydantic', 'attr', 'attrs'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": "src"})
