"""How deep and how large a payload may be."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from holdfast.core import codec
from holdfast.core.payload import MAX_DEPTH, MAX_INLINE, MAX_PAYLOAD, Shape
from holdfast.errors import NotDecodable, PayloadTooLarge
from tests.unit.core.values import (
    Item,
    refused,
)


@pytest.fixture(autouse=True)
def fresh_codecs() -> None:
    """Each test compiles what it uses: none leans on what another one left in the cache."""
    codec._compiled.cache_clear()


@dataclasses.dataclass
class Chain:
    next: Chain | None = None


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


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
