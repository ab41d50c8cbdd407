"""Types msgspec cannot tell apart or order by itself: tagged from the annotation, never from names found in data."""

from __future__ import annotations

import builtins
import dataclasses
import datetime as dt
import decimal
import enum
import os
import subprocess
import sys
import typing
from collections.abc import Iterable, Mapping
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NoReturn,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
)

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import codec
from holdfast.core.payload import Shape
from holdfast.errors import NotDecodable, NotEncodable

T = TypeVar("T")


@pytest.fixture(autouse=True)
def fresh_codecs() -> None:
    """Each test compiles what it uses: none leans on what another one left in the cache."""
    codec._compiled.cache_clear()


@dataclasses.dataclass
class Card:
    number: int


@dataclasses.dataclass
class Cash:
    number: int


@dataclasses.dataclass(frozen=True)
class Leaf:
    n: int


@dataclasses.dataclass(frozen=True)
class Tree:
    kids: tuple[Tree | Leaf, ...] = ()


@dataclasses.dataclass
class Payment:
    by: Card | Cash
    note: str = "none"
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Checked:
    by: Card | Cash

    def __post_init__(self) -> None:
        if self.by.number < 0:
            raise ValueError("a negative number")


@dataclasses.dataclass
class Pair(Generic[T]):
    first: T | Card | Cash


class IntPair(Pair[int]):
    pass


class Loose(TypedDict, total=False):
    by: Required[Card | Cash]
    note: str


class Firm(TypedDict):
    by: Card | Cash
    note: NotRequired[str]


class Row(NamedTuple):
    by: Card | Cash
    note: str = "none"


@attrs.define
class Sent:
    by: Card | Cash
    note: str = "none"
    tags: list[str] = attrs.Factory(list)
    size: int = attrs.field(default=attrs.Factory(lambda self: len(self.note), takes_self=True))

    def __attrs_post_init__(self) -> None:
        self.note = self.note.strip()


class Record(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    paid_by: Card | Cash
    note: str = "none"
    tags: list[str] = []


class Cat(msgspec.Struct, tag=True):
    n: int


class Dog(msgspec.Struct, tag=True):
    n: int


class Bird(pydantic.BaseModel):
    n: int


class Fish(pydantic.BaseModel):
    n: int


class Odd(enum.Enum):
    A = (1, 2)
    B = 1.5
    C = None


class Colour(enum.Enum):
    RED = "red"


NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
CASES: list[tuple[Any, Any, bytes]] = [
    (Card | Cash, Cash(1), b'{"$Cash":{"number":1}}'),
    (Card | Cash | None, None, b"null"),
    (list[Card | Cash | None], [Card(1), None], b'[{"$Card":{"number":1}},null]'),
    (tuple[int, Card | Cash], (1, Card(2)), b'[1,{"$Card":{"number":2}}]'),
    (tuple[Card | Cash, ...], (Card(2),), b'[{"$Card":{"number":2}}]'),
    (dict[int, Card | Cash], {1: Card(2)}, b'{"1":{"$Card":{"number":2}}}'),
    (dict[Colour, Card | Cash], {Colour.RED: Card(2)}, b'{"red":{"$Card":{"number":2}}}'),
    (
        Mapping[str, Card | Cash],
        {"b": Card(2), "a": Cash(1)},
        b'{"b":{"$Card":{"number":2}},"a":{"$Cash":{"number":1}}}',
    ),
    (Iterable[Card | Cash], [Card(2)], b'[{"$Card":{"number":2}}]'),
    (Tree, Tree((Leaf(1), Tree())), b'{"kids":[{"$Leaf":{"n":1}},{"$Tree":{"kids":[]}}]}'),
    (Payment, Payment(Cash(1)), b'{"by":{"$Cash":{"number":1}},"note":"none","tags":[]}'),
    (Pair[str], Pair("x"), b'{"first":{"$str":"x"}}'),
    (Pair[str], Pair(Card(1)), b'{"first":{"$Card":{"number":1}}}'),
    (IntPair, IntPair(5), b'{"first":{"$int":5}}'),
    (Pair, Pair([1]), b'{"first":[1]}'),
    (Loose, {"by": Cash(1)}, b'{"by":{"$Cash":{"number":1}}}'),
    (Firm, {"by": Cash(1), "note": "x"}, b'{"by":{"$Cash":{"number":1}},"note":"x"}'),
    (Firm, {"by": Cash(1)}, b'{"by":{"$Cash":{"number":1}}}'),
    (Row, Row(Cash(1), "x"), b'[{"$Cash":{"number":1}},"x"]'),
    (Sent, Sent(Cash(1), "x", ["t"]), b'{"by":{"$Cash":{"number":1}},"note":"x","tags":["t"],"size":1}'),
    (Record, Record(Cash(1), "x"), b'{"paidBy":{"$Cash":{"number":1}},"note":"x","tags":[]}'),
    (Cat | Dog, Dog(1), b'{"type":"Dog","n":1}'),
    (Cat | Dog | Card, Dog(1), b'{"$Dog":{"type":"Dog","n":1}}'),
    (Bird | Fish, Fish(n=1), b'{"$Fish":{"n":1}}'),
    (Bird | int, 5, b'{"$int":5}'),
    (Bird | int | None, Bird(n=1), b'{"$Bird":{"n":1}}'),
    (list[Bird | Card], [Card(1), Bird(n=2)], b'[{"$Card":{"number":1}},{"$Bird":{"n":2}}]'),
    (str | dt.datetime, NOW, b'{"$datetime":"2026-01-02T00:00:00Z"}'),
    (str | dt.datetime, "x", b'{"$str":"x"}'),
    (bytes | str, b"x", b'{"$bytes":"eA=="}'),
    (dt.date | dt.datetime, dt.date(2026, 1, 2), b'{"$date":"2026-01-02"}'),
    (list[int] | tuple[int, ...], (1, 2), b'{"$tuple[int, ...]":[1,2]}'),
    (list[int] | list[str], ["a"], b'{"$list[str]":["a"]}'),
    (list[int] | list[str], [1], b'{"$list[int]":[1]}'),
    (list[Card] | list[Cash], [Cash(1)], f'{{"$list[{__name__}.Cash]":[{{"number":1}}]}}'.encode()),
    (dict[str, int] | Card, {"number": 1}, b'{"$dict[str, int]":{"number":1}}'),
    (int | decimal.Decimal, decimal.Decimal("1.50"), b'"1.50"'),
    (float | str | list[Card | Cash], 1, b"1"),
    (float | str | list[Card | Cash], 1.5, b"1.5"),
    (int | float | list[Card | Cash], 1, b"1"),
    (int | str | list[Card | Cash] | None, [Card(1)], b'[{"$Card":{"number":1}}]'),
    (Literal["a"] | str, "a", b'{"$Literal[\'a\']":"a"}'),  # noqa: PYI051 users do write it
    (Literal["a"] | str, "b", b'{"$str":"b"}'),  # noqa: PYI051
    (Literal["a"] | Colour, Colour.RED, b'{"$Colour":"red"}'),
    (Literal[True, "a", 1], 1, b'"1"'),
    (Literal[True, "a", 1], True, b'"True"'),
    (Literal[Colour.RED, b"x"], Colour.RED, b'"Colour.RED"'),
    (Odd, Odd.A, b'"A"'),
    (Odd | None, Odd.C, b'"C"'),
    (list[Odd], [Odd.B, Odd.C], b'["B","C"]'),
    (Odd | int, 5, b"5"),
    (Odd | str, Odd.A, b'{"$Odd":"A"}'),
    (set[str], {"b", "a", "c"}, b'["a","b","c"]'),
    (frozenset[int | str], frozenset([1, "a"]), b'["a",1]'),
    (dict[str, set[int]], {"b": {3, 1}, "a": set()}, b'{"b":[1,3],"a":[]}'),
    (set[Leaf | Tree], {Leaf(2), Tree(), Leaf(1)}, b'[{"$Leaf":{"n":1}},{"$Leaf":{"n":2}},{"$Tree":{"kids":[]}}]'),
    (typing.Tuple | set[int], (1,), b'{"$Tuple":[1]}'),  # noqa: UP006 the older spelling
    (Annotated[set[int], "any"] | None, {1}, b"[1]"),
]


@pytest.mark.parametrize(("annotation", "value", "data"), CASES, ids=[str(number) for number in range(len(CASES))])
def test_a_value_is_stored_as_this_json_and_comes_back_equal(annotation: Any, value: Any, data: bytes) -> None:
    shape: Shape[Any] = Shape(annotation, what="x")
    written, back = shape.round_trip(value, "value")
    assert written == data
    assert back == value
    assert shape.decode(data) == value
    assert type(shape.decode(data)) is type(value) or isinstance(value, int)


def test_two_members_of_one_name_are_told_apart_by_their_modules() -> None:
    other = dataclasses.make_dataclass("Card", [("number", int)])
    other.__module__ = "elsewhere"
    shape: Shape[Any] = Shape(Card | other, what="x")
    assert shape.encode(other(1)) == b'{"$elsewhere.Card":{"number":1}}'
    assert shape.encode(Card(1)) == f'{{"${__name__}.Card":{{"number":1}}}}'.encode()
    assert shape.decode(shape.encode(Card(1))) == Card(1)


class Meters(float):
    pass


@pytest.mark.parametrize(
    ("annotation", "value", "path", "problem"),
    [
        (Card | Cash, 5, "v", "does not fit its annotation: Expected Card or Cash, got `int`."),
        (Card | Cash | None, 5, "v", "Expected Card or Cash or None, got `int`."),
        (Payment, Payment(None), "v.by", "Expected Card or Cash, got `NoneType`."),  # type: ignore[arg-type]
        (list[Payment], [Payment(Cash(1)), Payment(Card("x"))], "v[1].by.number", "Expected `int`, got `str`."),  # type: ignore[arg-type]
        (Payment, Card(1), "v", "Expected `Payment`, got `Card`."),
        (Row, Card(1), "v", "Expected `Row`, got `Card`."),
        (Firm, {"note": "x"}, "v", "Expected `Firm`, got `dict`."),
        (Firm, {"by": Card(1), "other": 1}, "v", "Expected `Firm`, got `dict`."),
        (list[Card | Cash], 5, "v", "Expected `list`, got `int`."),
        (set[int], 5, "v", "Expected `set`, got `int`."),
        (tuple[int, Card | Cash], (1,), "v", "Expected a tuple of 2, got `tuple`."),
        (tuple[int, Card | Cash], (1, 2), "v[1]", "Expected Card or Cash, got `int`."),
        (dict[str, Card | Cash], 5, "v", "Expected `dict`, got `int`."),
        (dict[str, Card | Cash], {"a": 5}, "v['a']", "Expected Card or Cash, got `int`."),
        (Odd, 5, "v", "Expected one of A, B, C, got `int`."),
        (list[Card | Cash], (Card(1),), "v", "does not come back equal: a tuple came back as a list."),
        (list[Card | Cash | float], [float("nan")], "v[0]", "is nan, which JSON cannot hold."),
        (set[Card | Cash | float], {float("inf")}, "v[inf]", "is inf, which JSON cannot hold."),
        (set[int], {"x"}, "v[0]", "Expected `int`, got `str`"),
        (Cash | Bird, Fish(n=1), "v", "Expected Cash or Bird, got `Fish`."),
    ],
    ids=[str(number) for number in range(20)],
)
def test_a_value_that_does_not_fit_is_refused_by_place(annotation: Any, value: Any, path: str, problem: str) -> None:
    with pytest.raises(NotEncodable) as caught:
        Shape(annotation, what="shop.f").encode(value, "v")
    assert (caught.value.path, str(caught.value).startswith(f"shop.f: {path} ")) == (path, True)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "data", "path", "problem"),
    [
        (Card | Cash, b'{"number":1}', "", "Expected Card or Cash under its tag ($Card, $Cash), got `object`"),
        (Card | Cash, b'{"$Other":{"number":1}}', "", "under its tag"),
        (Card | Cash, b'{"$Card":{"number":1},"$Cash":{}}', "", "under its tag"),
        (Card | Cash, b'"text"', "", "under its tag ($Card, $Cash), got 'text'"),
        (Card | Cash, b"null", "", "got None"),
        (Card | Cash | None, b"[]", "", "Expected Card or Cash or None under its tag ($Card, $Cash), got `array`"),
        (Card | Cash, b'{"$Card":{"number":"x"}}', "number", "at number: Expected `int`, got `str`"),
        (list[Payment], b'[{"by":{"$Card":{"number":"x"}}}]', "[0].by.number", "Expected `int`, got `str`"),
        (list[Payment], b'[{"note":"x"}]', "[0]", "Object missing required field `by`"),
        (list[Payment], b"[5]", "[0]", "Expected `object`, got 5"),
        (list[Payment], b"{}", "", "Expected `array`, got `object`"),
        (tuple[int, Card | Cash], b"[1]", "", "Expected `array` of length 2, got `array`"),
        (tuple[int, Card | Cash], b"5", "", "Expected `array` of length 2, got 5"),
        (tuple[int, Card | Cash], b'["x",null]', "[0]", "Expected `int`, got `str`"),
        (dict[int, Card | Cash], b"[]", "", "Expected `object`, got `array`"),
        (dict[int, Card | Cash], b'{"x":null}', "['x']", "Expected `int`, got `str`"),
        (dict[int, Card | Cash], b'{"1":true}', "['1']", "got True"),
        (Row, b"{}", "", "Expected `array`, got `object`"),
        (Row, b"[]", "", "Object missing required field `by`"),
        (Record, b'{"paidBy":{"$Card":{"number":1}},"z":1,"b":2}', "", "Object contains unknown field `b`"),
        (Odd, b'"D"', "", "Expected one of A, B, C, got 'D'"),
        (Odd, b"1", "", "Expected one of A, B, C, got 1"),
        (Odd, b"[]", "", "got `array`"),
        (int | list[Card | Cash], b'"x"', "", "Expected int or list["),
        (int | list[Card | Cash], b"1.5", "", "got 1.5"),
        (Checked, b'{"by":{"$Card":{"number":-1}}}', "", "a negative number"),
        (Sent, b'{"by":{"$Card":{"number":1}}}', "", "Object missing required field `size`"),
        (Card | Cash, f'"{"x" * 100}"'.encode(), "", f"got '{'x' * 59}…"),
    ],
    ids=[str(number) for number in range(28)],
)
def test_data_that_does_not_fit_is_refused_by_place(annotation: Any, data: bytes, path: str, problem: str) -> None:
    with pytest.raises(NotDecodable) as caught:
        Shape(annotation, what="shop.f").decode(data)
    assert caught.value.path == path
    assert problem in str(caught.value)
    assert str(caught.value).startswith("shop.f: the stored data does not fit the annotation")


@pytest.mark.parametrize(
    ("annotation", "data", "expected"),
    [
        (Payment, b'{"by":{"$Card":{"number":1}}}', Payment(Card(1))),
        (Payment, b'{"by":{"$Card":{"number":1}},"gone":1}', Payment(Card(1))),
        (Record, b'{"paidBy":{"$Card":{"number":1}}}', Record(Card(1))),
        (Row, b'[{"$Card":{"number":1}}]', Row(Card(1))),
        (Row, b'[{"$Card":{"number":1}},"x","more"]', Row(Card(1), "x")),
        (Sent, b'{"by":{"$Card":{"number":1}},"size":4}', Sent(Card(1))),
        (Sent, b'{"by":{"$Card":{"number":1}},"note":" x ","size":3}', Sent(Card(1), " x ")),
        (Firm, b'{"by":{"$Card":{"number":1}},"gone":1}', {"by": Card(1)}),
        (int | float | list[Card | Cash], b"2", 2),
        (float | list[Card | Cash], b"2", 2.0),
        (int | Bird | list[Card | Cash], b'{"$Bird":{"n":2}}', Bird(n=2)),
    ],
    ids=[str(number) for number in range(11)],
)
def test_missing_parts_take_their_defaults_and_unknown_ones_are_ignored(
    annotation: Any, data: bytes, expected: Any
) -> None:
    assert Shape[Any](annotation, what="x").decode(data) == expected


def test_defaults_are_made_anew_each_time() -> None:
    shape: Shape[Payment] = Shape(Payment, what="x")
    data = b'{"by":{"$Card":{"number":1}}}'
    shape.decode(data).tags.append("mine")
    assert shape.decode(data).tags == []


def test_no_class_is_imported_by_a_name_in_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("imported")

    shape: Shape[Any] = Shape(Card | Cash, what="x")
    shape.decode(b'{"$Cash":{"number":1}}')  # decoders import what they need when they first meet a class
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", refuse)
        assert shape.decode(b'{"$Cash":{"number":1}}') == Cash(1)
        with pytest.raises(NotDecodable):
            shape.decode(b'{"$os.system":"true"}')


def test_a_set_gives_the_same_bytes_whatever_the_hash_seed() -> None:
    code = (
        "from holdfast.core.payload import Shape; "
        "print(Shape(dict[str, set[str]], what='x').encode({'k': {'ant', 'bee', 'cat', 'dog', 'eel', 'fox'}}).decode())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": "src"},
        ).stdout
        for seed in range(3)
    }
    assert outputs == {b'{"k":["ant","bee","cat","dog","eel","fox"]}\n'}


def test_a_tree_of_classes_is_bounded_in_depth() -> None:
    tree: Tree | Leaf = Leaf(1)
    for _ in range(10):
        tree = Tree((tree,))
    shape: Shape[Any] = Shape(Tree, what="shop.f")
    assert shape.round_trip(tree)[1] == tree
    for _ in range(100):
        tree = Tree((tree,))
    with pytest.raises(NotEncodable, match="is nested more than 64 levels deep"):
        shape.encode(tree)
    with pytest.raises(NotDecodable, match="is nested more than 64 levels deep"):
        shape.decode(b'{"kids":[{"$Tree":' * 40 + b'{"kids":[]}' + b"}]}" * 40)


trees = st.recursive(
    st.builds(Leaf, st.integers()), lambda inner: st.builds(Tree, st.lists(inner, max_size=3).map(tuple)), max_leaves=10
)


@given(trees.filter(lambda tree: isinstance(tree, Tree)))
def test_trees_come_back_equal(tree: Tree) -> None:
    data, back = Shape[Tree](Tree, what="x").round_trip(tree)
    assert back == tree
    assert Shape[Tree](Tree, what="x").encode(back) == data


@given(st.sets(st.integers() | st.text()), st.dictionaries(st.integers(), st.builds(Card, st.integers()), max_size=4))
def test_sets_and_maps_come_back_equal(items: set[Any], cards: dict[int, Card]) -> None:
    assert Shape[Any](set[int | str], what="x").round_trip(items)[1] == items
    assert Shape[Any](dict[int, Card | Cash], what="x").round_trip(cards)[1] == cards
