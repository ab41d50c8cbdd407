"""Annotations: which are refused at definition, and when and how the rest are read."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core import codec
from holdfast.core.payload import Shape, result_shape
from holdfast.errors import DefinitionError
from tests.unit.core.values import (
    Order,
    Plain,
)


@pytest.fixture(autouse=True)
def fresh_codecs() -> None:
    """Each test compiles what it uses: none leans on what another one left in the cache."""
    codec._compiled.cache_clear()


ADVICE = (
    "Use None, bool, int, float, str, bytes, datetime, date, time, timedelta, Decimal, UUID, enums, lists, tuples, "
    "sets, dicts, dataclasses, TypedDict, NamedTuple, attrs, msgspec or Pydantic classes."
)


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        (Plain, f"{Plain.__module__}.Plain cannot be stored. {ADVICE}"),
        (list[Plain], f"{Plain.__module__}.Plain cannot be stored."),
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


@dataclasses.dataclass
class Loose:
    """Annotated as type checkers like it best for values that are passed on."""

    what: object
    many: list[object]
    maybe: object | None = None


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (object, {"a": 1}),
        (object | None, [1]),
        (list[object], [1, "a", {"x": [1]}, None]),
        (dict[str, object], {"a": 1, "b": [1, 2], "c": None}),
        (dict[str, object | None], {"a": None, "b": [1]}),
        (tuple[object, ...], (1, "a")),
        (list[tuple[object, int]], [("a", 1)]),
        (dict[str, list[object] | int], {"a": [1], "b": 2}),
        (Loose, Loose({"a": 1}, [1, "b"])),
    ],
    ids=str,
)
def test_object_stands_for_any_value_also_inside_other_annotations(annotation: Any, value: Any) -> None:
    """Promise: `object` is `Any` for what is stored, wherever it stands; the value comes back equal."""
    shape = Shape[Any](annotation, what="it")
    assert shape.decode(shape.encode(value)) == value
    assert isinstance(shape.schema(), dict)


def test_object_in_a_union_with_more_than_none_is_refused() -> None:
    """Promise: it says what to write instead."""
    with pytest.raises(DefinitionError, match="object already stands for every value"):
        Shape[Any](list[object | int], what="it").check()
