"""Shapes: a value comes back equal from the bytes that stand for it, or is refused with its place and the cure."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import codec
from holdfast.core.payload import Shape
from holdfast.errors import NotDecodable, NotEncodable
from tests.unit.core.values import (
    CASES,
    UTC,
    Address,
    Colour,
    Item,
    Model,
    Order,
    Parcel,
    Plain,
    Point,
    plain,
    refused,
)


@pytest.fixture(autouse=True)
def fresh_codecs() -> None:
    """Each test compiles what it uses: none leans on what another one left in the cache."""
    codec._compiled.cache_clear()


@dataclasses.dataclass(eq=False)
class Identity:
    x: int
    inner: Identity | None = None


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


# -- results, hashes, imports ------------------------------------------------------------------------------------------


def test_pydantic_is_not_imported_by_us() -> None:
    code = (
        "import sys; from typing import Any; from holdfast.core.payload import Shape; "
        "Shape(list[int], what='x').encode([1]); Shape(Any, what='x').encode({'a': 1}); "
        "assert not {'pydantic', 'attr', 'attrs'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": "src"})
