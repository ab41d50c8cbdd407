"""Arguments: calls are recorded bound to names with defaults applied, and come back as the same call."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TypedDict, Unpack

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import codec
from holdfast.core.payload import Arguments
from holdfast.errors import DefinitionError, InvalidArguments, NotDecodable, NotEncodable, PayloadTooLarge


@pytest.fixture(autouse=True)
def fresh_codecs() -> None:
    """Each test compiles what it uses: none leans on what another one left in the cache."""
    codec._compiled.cache_clear()


@dataclasses.dataclass
class Order:
    id: str
    cents: int


class Options(TypedDict, total=False):
    fast: bool


def nothing() -> None: ...
def simple(order: Order, note: str = "none") -> None: ...
def keywords(order: Order, note: str = "none", *, express: bool, copies: int = 1) -> None: ...
def positional(a: int, b: int = 2, /, c: int = 3) -> None: ...
def variadic(a: int, *rest: Order, flag: bool = False, **more: float) -> None: ...
def clash(a: int, /, **more: int) -> None: ...
def unpacked(**options: Unpack[Options]) -> None: ...
def bare(a, b=(1, 2)): ...  # type: ignore[no-untyped-def]
def mutable(items: list[int] = [], table: dict[str, int] = {"a": 1}) -> None: ...  # noqa: B006 what users write
def sets(names: set[str], pay: Order | dict[str, int] | None = None) -> None: ...
def undo(result: str, order: Order) -> None: ...


O1 = Order("o-1", 5)
J1 = b'{"id":"o-1","cents":5}'
CASES: list[tuple[Any, tuple[Any, ...], dict[str, Any], bytes, tuple[Any, ...], dict[str, Any]]] = [
    (nothing, (), {}, b"{}", (), {}),
    (simple, (O1,), {}, b'{"order":%s,"note":"none"}' % J1, (O1, "none"), {}),
    (simple, (O1, "x"), {}, b'{"order":%s,"note":"x"}' % J1, (O1, "x"), {}),
    (simple, (), {"note": "x", "order": O1}, b'{"order":%s,"note":"x"}' % J1, (O1, "x"), {}),
    (
        keywords,
        (O1,),
        {"express": True},
        b'{"order":%s,"note":"none","express":true,"copies":1}' % J1,
        (O1, "none"),
        {"express": True, "copies": 1},
    ),
    (positional, (1,), {}, b'{"a":1,"b":2,"c":3}', (1, 2, 3), {}),
    (positional, (1, 5), {"c": 6}, b'{"a":1,"b":5,"c":6}', (1, 5, 6), {}),
    (variadic, (1,), {}, b'{"a":1,"rest":[],"flag":false,"more":{}}', (1,), {"flag": False}),
    (
        variadic,
        (1, O1, O1),
        {"x": 1.5, "flag": True},
        b'{"a":1,"rest":[%s,%s],"flag":true,"more":{"x":1.5}}' % (J1, J1),
        (1, O1, O1),
        {"flag": True, "x": 1.5},
    ),
    (clash, (1,), {"a": 2}, b'{"a":1,"more":{"a":2}}', (1,), {"a": 2}),
    (unpacked, (), {"fast": True}, b'{"options":{"fast":true}}', (), {"fast": True}),
    (bare, ([1], [2]), {}, b'{"a":[1],"b":[2]}', ([1], [2]), {}),
    (mutable, (), {}, b'{"items":[],"table":{"a":1}}', ([], {"a": 1}), {}),
    (sets, ({"b", "a"}, O1), {}, b'{"names":["a","b"],"pay":{"$Order":%s}}' % J1, ({"a", "b"}, O1), {}),
    (sets, (set(),), {}, b'{"names":[],"pay":null}', (set(), None), {}),
]


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "data", "args_back", "kwargs_back"), CASES, ids=[str(n) for n in range(len(CASES))]
)
def test_a_call_is_stored_by_name_with_defaults_and_comes_back(
    function: Any, args: Any, kwargs: Any, data: bytes, args_back: Any, kwargs_back: Any
) -> None:
    arguments = Arguments(function, what="shop.f")
    assert arguments.encode(args, kwargs) == data
    assert arguments.round_trip(args, kwargs) == (data, args_back, kwargs_back)
    assert arguments.decode(data) == (args_back, kwargs_back)
    assert arguments.decode(msgspec.Raw(data)) == (args_back, kwargs_back)
    assert arguments.encode(*arguments.decode(data)) == data


def test_names_and_signature_are_the_functions_own() -> None:
    arguments = Arguments(keywords, what="x")
    assert arguments.what == "x"
    assert arguments.names == ("order", "note", "express", "copies")
    assert list(arguments.signature.parameters) == ["order", "note", "express", "copies"]


def test_the_first_parameter_may_be_left_out() -> None:
    arguments = Arguments(undo, what="shop.undo", skip_first=True)
    assert arguments.names == ("order",)
    assert arguments.encode((O1,), {}) == b'{"order":%s}' % J1
    with pytest.raises(InvalidArguments):
        arguments.encode(("r", O1), {})


def test_binding_names_every_parameter_and_changes_no_value() -> None:
    value = object()
    assert Arguments(keywords, what="x").bind((value,), {"express": 1}) == {
        "order": value,
        "note": "none",
        "express": 1,
        "copies": 1,
    }
    assert Arguments(variadic, what="x").bind((1, 2, 3), {"x": 4}) == {
        "a": 1,
        "rest": [2, 3],
        "flag": False,
        "more": {"x": 4},
    }
    assert Arguments(nothing, what="x").bind((), {}) == {}


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "problem"),
    [
        (simple, (), {}, "missing a required argument: 'order'. Its parameters are (order, note)."),
        (simple, (O1, "x", 3), {}, "too many positional arguments."),
        (simple, (O1,), {"order": O1}, "multiple values for argument 'order'."),
        (simple, (O1,), {"nope": 1}, "got an unexpected keyword argument 'nope'."),
        (keywords, (O1,), {}, "missing a required argument: 'express'."),
        (keywords, (O1, "x", True), {}, "too many positional arguments."),
        (positional, (), {"a": 1}, "positional"),  # the words differ by Python's version
        (variadic, (), {}, "missing a required argument: 'a'. Its parameters are (a, rest, flag, more)."),
        (nothing, (1,), {}, "too many positional arguments. Its parameters are ()."),
    ],
    ids=[str(number) for number in range(9)],
)
def test_arguments_that_do_not_fit_are_refused_in_pythons_words(
    function: Any, args: Any, kwargs: Any, problem: str
) -> None:
    arguments = Arguments(function, what="shop.f")
    for use in (arguments.bind, arguments.encode, arguments.round_trip):
        with pytest.raises(InvalidArguments) as caught:
            use(args, kwargs)
        assert str(caught.value).startswith("shop.f: ")
        assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "path", "problem"),
    [
        (simple, (Order("x", float("nan")),), {}, "order.cents", "is nan, which JSON cannot hold."),  # type: ignore[arg-type]
        (simple, (Order("x", "y"),), {}, "order.cents", "does not fit its annotation: Expected `int`, got `str`."),  # type: ignore[arg-type]
        (simple, (5,), {}, "order", "does not fit its annotation: Expected `object`, got `int`."),
        (bare, ((1,),), {}, "a", "does not come back equal: a tuple came back as a list."),
        (bare, (1,), {}, "b", "does not come back equal: a tuple came back as a list. Annotate it as tuple[int, ...]."),
        (variadic, (1, O1, 5), {}, "rest[1]", "Expected `object`, got `int`."),
        (variadic, (1,), {"x": object()}, "more['x']", "is an object, which cannot be stored."),
        (sets, ({1},), {}, "names[0]", "Expected `str`, got `int`."),
        (sets, (set(), 5), {}, "pay", "Expected Order or dict[str, int] or None, got `int`."),
    ],
    ids=[str(number) for number in range(9)],
)
def test_an_argument_that_does_not_encode_is_named(
    function: Any, args: Any, kwargs: Any, path: str, problem: str
) -> None:
    arguments = Arguments(function, what="shop.f")
    for use in (arguments.encode, arguments.round_trip):
        with pytest.raises(NotEncodable) as caught:
            use(args, kwargs)
        assert caught.value.path == path
        assert str(caught.value).startswith(f"shop.f: {path} ")
        assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("function", "data", "expected"),
    [
        (simple, b'{"order":%s}' % J1, ((O1, "none"), {})),
        (keywords, b'{"express":true,"order":%s}' % J1, ((O1, "none"), {"express": True, "copies": 1})),
        (variadic, b'{"a":1}', ((1,), {"flag": False})),
        (bare, b'{"a":1}', ((1, (1, 2)), {})),
        (sets, b'{"names":["a"]}', (({"a"}, None), {})),
    ],
)
def test_a_parameter_missing_in_the_data_gets_its_default(function: Any, data: bytes, expected: Any) -> None:
    assert Arguments(function, what="x").decode(data) == expected


@pytest.mark.parametrize(
    ("function", "data", "problem"),
    [
        (simple, b"{}", "Object missing required field `order`"),
        (simple, b'{"order":%s,"gone":1}' % J1, "Object contains unknown field `gone`"),
        (keywords, b'{"order":%s,"express":true,"gone":1}' % J1, "Object contains unknown field `gone`"),
        (sets, b'{"names":[],"gone":1}', "Object contains unknown field `gone`"),
        (simple, b"[]", "Expected `object`, got `array`"),
        (simple, b'{"order":{"id":1,"cents":1}}', "at order.id: Expected `str`, got `int`"),
        (simple, b"junk", "JSON is malformed"),
    ],
)
def test_data_that_does_not_fit_the_signature_is_refused(function: Any, data: bytes, problem: str) -> None:
    with pytest.raises(NotDecodable) as caught:
        Arguments(function, what="shop.f").decode(data)
    assert str(caught.value).startswith("shop.f: the stored data does not fit the annotation")
    assert problem in str(caught.value)


def test_the_call_that_comes_back_is_independent() -> None:
    items = [1]
    _, args, _ = Arguments(mutable, what="x").round_trip((items,), {})
    items.append(2)
    assert args[0] == [1]
    _, first, _ = Arguments(mutable, what="x").round_trip((), {})
    first[0].append(1)
    assert Arguments(mutable, what="x").round_trip((), {})[1][0] == []


def test_the_object_of_a_call_does_not_count_as_a_level() -> None:
    arguments = Arguments(bare, what="shop.f")
    value: Any = 1
    for _ in range(64):
        value = [value]
    data, args, _ = arguments.round_trip((value, 1), {})
    assert args == (value, 1)
    assert arguments.decode(data) == ((value, 1), {})
    assert arguments.encode((value, 1), {}) == data
    for use in (arguments.encode, arguments.round_trip):
        with pytest.raises(NotEncodable, match="levels deep") as caught:
            use(([value], 1), {})
        assert caught.value.path == "a" + "[0]" * 64
    with pytest.raises(NotDecodable, match="levels deep"):
        arguments.decode(b'{"a":' + b"[" * 65 + b"]" * 65 + b"}")


def test_a_call_above_the_limit_is_refused() -> None:
    with pytest.raises(PayloadTooLarge):
        Arguments(bare, what="shop.f").encode(("x" * 64 * 1024 * 1024, 1), {})


def test_a_parameter_that_cannot_be_stored_is_named() -> None:
    def function(a: int, handler: Arguments) -> None: ...

    with pytest.raises(
        DefinitionError, match=r"^shop\.f: argument handler: holdfast\.core\.payload\.Arguments cannot be"
    ):
        Arguments(function, what="shop.f").check()


def test_annotations_that_cannot_be_read_are_reported_at_first_use() -> None:
    def function(a: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821
        ...

    arguments = Arguments(function, what="shop.f")
    for use in (arguments.encode, arguments.bind, arguments.round_trip):
        with pytest.raises(
            DefinitionError, match=r"^shop\.f: its annotations cannot be read: name 'Missing' is not defined"
        ):
            use((1,), {})
    with pytest.raises(DefinitionError, match=r"^shop\.f: its annotations cannot be read"):
        arguments.decode(b"{}")


def test_what_has_no_parameters_to_read_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"^shop\.f: its parameters cannot be read: "):
        Arguments(5, what="shop.f")  # type: ignore[arg-type]


def test_partials_are_functions_of_what_is_left() -> None:
    arguments = Arguments(functools.partial(simple, O1), what="x")
    assert arguments.names == ("note",)
    assert arguments.encode(("x",), {}) == b'{"note":"x"}'


def test_parameters_may_have_any_name() -> None:
    def function(self: int, cls: int, name: int, struct: int, _x: int, args: int = 1, kwargs: int = 2) -> None: ...

    arguments = Arguments(function, what="x")
    assert arguments.decode(arguments.encode((1, 2, 3, 4, 5), {})) == ((1, 2, 3, 4, 5, 1, 2), {})


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(plain, max_size=3), st.dictionaries(st.from_regex("[a-z]{1,5}", fullmatch=True), plain, max_size=3))
def test_any_plain_call_comes_back(args: list[Any], kwargs: dict[str, Any]) -> None:
    def function(*rest: Any, **more: Any) -> None: ...

    arguments = Arguments(function, what="x")
    data, args_back, kwargs_back = arguments.round_trip(args, kwargs)
    assert (args_back, kwargs_back) == (tuple(args), kwargs)
    assert arguments.decode(data) == (tuple(args), kwargs)
