"""Payloads in detail: where exactly something is wrong, how members are named, and how models are asked."""

from __future__ import annotations

import dataclasses
import enum
import pathlib
import typing
from collections.abc import Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
import pydantic
import pytest

from holdfast.core import codec
from holdfast.core.codec import is_too_deep
from holdfast.core.payload import Shape
from holdfast.errors import NotDecodable, NotEncodable


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


@dataclasses.dataclass
class Shortened:
    """Loses an item, and a name, whenever it is read back."""

    items: list[int]
    names: list[str]

    def __post_init__(self) -> None:
        del self.items[1:]


@dataclasses.dataclass
class Forgetful:
    table: dict[int, str]
    seen: set[str]

    def __post_init__(self) -> None:
        self.table.pop(1, None)
        self.seen.discard("x")


@dataclasses.dataclass
class Grumpy:
    x: int

    def __post_init__(self) -> None:
        self.x = abs(self.x)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not compare me")

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass(eq=False)
class Holder:
    inner: Grumpy


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Switch(enum.Enum):
    ON = True
    OFF = False


class File(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    path: pathlib.Path

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def suffix(self) -> str:
        return self.path.suffix


class Line(msgspec.Struct, array_like=True):
    a: int
    b: Card | Cash


def refused(annotation: Any, value: Any, path: str = "v") -> NotEncodable:
    with pytest.raises(NotEncodable) as caught:
        Shape(annotation, what="f").encode(value, path)
    return caught.value


def unread(annotation: Any, data: bytes) -> NotDecodable:
    with pytest.raises(NotDecodable) as caught:
        Shape(annotation, what="f").decode(data)
    return caught.value


# -- places ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "data", "path"),
    [
        (list[Switch], b'["ON","MAYBE"]', "[1]"),
        (list[tuple[int, Card | Cash]], b"[[1]]", "[0]"),
        (list[tuple[int, Card | Cash]], b'[["x",null]]', "[0][0]"),
        (list[tuple[int, Card | Cash]], b'[[1,"x"]]', "[0][1]"),
        (list[int | list[Card | Cash]], b'["x"]', "[0]"),
        (list[int | list[Card | Cash]], b'[1,["x"]]', "[1][0]"),
        (list[Card | Cash], b'[{"$Card":{"number":"x"}}]', "[0].number"),
        (list[dict[str, Card | Cash]], b"[1]", "[0]"),
        (list[dict[str, Card | Cash]], b'[{"a":1}]', "[0]['a']"),
        (dict[str, set[int]], b'{"a":["x"]}', "['a'][0]"),
        (dict[str, set[int]], b'{"a":"x"}', "['a']"),
        (list[set[int] | None], b"[1]", "[0]"),
    ],
    ids=[str(number) for number in range(12)],
)
def test_the_place_of_data_that_does_not_fit_is_exact(annotation: Any, data: bytes, path: str) -> None:
    error = unread(annotation, data)
    assert error.path == path
    assert f" at {path}: " in str(error)


def test_a_list_that_came_back_shorter_is_named() -> None:
    short = Shortened([1], ["a"])
    short.items.append(2)
    error = refused(Shortened, short)
    assert str(error) == "f: v.items does not come back equal: 2 parts came back as 1."
    assert error.path == "v.items"


def test_a_key_or_an_item_that_did_not_come_back_is_named() -> None:
    forgetful = Forgetful({}, set())
    forgetful.table[1] = "a"
    error = refused(Forgetful, forgetful)
    assert str(error) == "f: v.table does not come back equal: the key 1 did not come back. Add it to the annotation."
    forgetful = Forgetful({}, set())
    forgetful.seen.add("x")
    assert str(refused(Forgetful, forgetful)) == "f: v.seen does not come back equal: <set> came back as <set>."


def test_a_change_inside_what_cannot_be_compared_is_found() -> None:
    grumpy = Grumpy(1)
    assert Shape[Holder](Holder, what="f").encode(Holder(grumpy)) == b'{"inner":{"x":1}}'
    grumpy.x = -1
    assert str(refused(Holder, Holder(grumpy))) == "f: v.inner.x does not come back equal: -1 came back as 1."


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("k" * 58, "'" + "k" * 58 + "'"),
        ("k" * 59, "'" + "k" * 49 + "…"),
        (2**256 - 1, str(2**256 - 1)[:50] + "…"),
        (2**256, "an int of 257 bits"),
        (None, "None"),
        (Card, "<type>"),
    ],
    ids=[str(number) for number in range(6)],
)
def test_keys_are_shown_shortened(key: Any, shown: str) -> None:
    if isinstance(key, str):
        assert refused(Any, {key: float("nan")}).path == f"v[{shown}]"
    elif isinstance(key, int):
        assert f"the key {shown} (int) came back as text" in str(refused(Any, {key: 1}))
    else:
        assert "has a key that is a" in str(refused(Any, {key: 1}))


@pytest.mark.parametrize(("length", "shown"), [(78, "'" + "x" * 78 + "'"), (79, "'" + "x" * 59 + "…")])
def test_data_is_shown_shortened(length: int, shown: str) -> None:
    assert f"got {shown}. Was" in str(unread(Card | Cash, f'"{"x" * length}"'.encode()))


def test_a_value_is_called_by_its_class_with_the_right_article() -> None:
    class Xylophone:
        pass

    assert "v is a Xylophone, which" in str(refused(Any, Xylophone()))
    assert "v is an object, which" in str(refused(Any, object()))


# -- members and tags --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "value", "data"),
    [
        (Annotated[Card | Cash, "paid"] | int, Card(1), b'{"$Card":{"number":1}}'),
        (Annotated[Card | Cash, "paid"] | int, 5, b"5"),
        (Annotated[int | str, "any"] | list[Card | Cash], "x", b'"x"'),
        (bool | list[Card | Cash], True, b"true"),
        (Literal["a", None] | list[Card | Cash], None, b"null"),  # noqa: PYI061 one member of two kinds
        (Literal["a", 1] | list[Card | Cash], 1, b"1"),
        (Level | int, Level.HIGH, b'{"$Level":2}'),
        (Level | int, 2, b'{"$int":2}'),
        (Level | str, Level.HIGH, b"2"),
        (Switch, Switch.OFF, b'"OFF"'),
        (Literal["a", True], "a", b"\"'a'\""),
        (Literal[b"x", True], b"x", b"\"b'x'\""),
        (Literal[True] | str, True, b'{"$Literal[True]":"True"}'),
        (Sequence[int] | tuple[int, ...], [1], b'{"$Sequence[int]":[1]}'),
        (typing.Sequence[int] | tuple[int, ...], [1], b'{"$Sequence[int]":[1]}'),
        (Line, Line(1, Card(2)), b'[1,{"$Card":{"number":2}}]'),
        (Line | Card, Line(1, Card(2)), b'[1,{"$Card":{"number":2}}]'),
    ],
    ids=[str(number) for number in range(17)],
)
def test_a_member_is_told_by_its_json_or_its_tag(annotation: Any, value: Any, data: bytes) -> None:
    shape: Shape[Any] = Shape(annotation, what="f")
    assert shape.round_trip(value) == (data, value)
    assert type(shape.decode(data)) is type(value)


def test_a_class_named_like_a_builtin_is_told_apart() -> None:
    other = dataclasses.make_dataclass("dict", [("number", int)])
    other.__module__ = "elsewhere"
    shape: Shape[Any] = Shape(other | dict, what="f")
    assert shape.encode(other(1)) == b'{"$elsewhere.dict":{"number":1}}'
    assert shape.encode({"a": 1}) == b'{"$dict":{"a":1}}'


K = TypeVar("K")
V = TypeVar("V")


@dataclasses.dataclass
class Table(Generic[K, V]):
    rows: dict[K, V | Card | Cash]
    first: tuple[V, Card | Cash] | None = None


def test_the_arguments_of_a_generic_class_reach_its_parts() -> None:
    shape: Shape[Any] = Shape(Table[int, str], what="f")
    table = Table({1: "a", 2: Cash(2)}, ("x", Card(1)))
    assert shape.round_trip(table)[1] == table
    assert refused(Table[int, str], Table({1: 1})).path == "v.rows[1]"
    assert refused(Table[int, str], Table({}, (1, Card(1)))).path == "v.first[0]"
    assert unread(Table[int, str], b'{"rows":{"a":{"$str":"x"}}}').path == ".rows['a']".removeprefix(".")


@pytest.mark.parametrize("length", [195, 196, 197])
def test_a_path_of_two_hundred_characters_is_shown_whole(length: int) -> None:
    error = refused(list[float], [float("nan")], "p" * length)
    whole = "p" * length + "[0]"
    assert error.path == whole
    assert (f"f: {whole} is nan" in str(error)) == (length <= 197)
    assert f"f: {'p' * 100} … " in str(refused(list[float], [float("nan")], "p" * 198))


# -- models ------------------------------------------------------------------------------------------------------------


def test_a_model_is_stored_in_its_own_json_without_what_it_computes() -> None:
    data, back = Shape[File](File, what="f").round_trip(File(path=pathlib.Path("a.txt")))
    assert data == b'{"path":"a.txt"}'
    assert back.suffix == ".txt"


def test_a_model_that_was_not_validated_is_refused_without_a_warning() -> None:
    error = refused(File, File.model_construct(path=5))
    assert error.path == "v"
    assert "does not fit its annotation: 1 validation error for File" in str(error)


def test_a_number_inside_a_model_is_named() -> None:
    class Price(pydantic.BaseModel):
        amount: float

    assert refused(Price, Price(amount=float("nan"))).path == "v.amount"


# -- depth -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "depth"),
    [
        (b"1", 0),
        (b"[]", 1),
        (b"[[],[]]", 2),
        (b'{"a":[{}]}', 3),
        (b'["[[[["]', 1),
        (b'["\\"[[[["]', 1),
        (b'["\\\\",[]]', 2),
        (b'["\\\\\\"[",{"[":"]"}]', 2),
        (b'["a\n[",[]]', 2),
    ],
)
def test_depth_counts_brackets_outside_strings(data: bytes, depth: int) -> None:
    assert not is_too_deep(data, depth)
    if depth:
        assert is_too_deep(data, depth - 1)


def test_what_does_not_close_is_too_deep_rather_than_endless() -> None:
    assert is_too_deep(b"[" * 10, 5)
    assert is_too_deep(b"]" + b"[" * 10, 5)
