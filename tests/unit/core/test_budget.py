"""Values that multiply are refused before they take memory: each case runs in a process that may use 1 GB."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from holdfast.authoring.flow.builder_references import tree_of
from holdfast.authoring.flow.call_targets import encoded_arguments
from holdfast.authoring.flow.evaluation import evaluate
from holdfast.authoring.flow.expressions import Text, Value
from holdfast.core.budget import MAX_PAYLOAD
from holdfast.core.guards import is_dict, is_list
from holdfast.core.payload import Arguments, Shape
from holdfast.errors import DefinitionError, NotEncodable, PayloadTooLarge

ROOT = Path(__file__).resolve().parents[3]
ROOM = 1 << 30
LEVELS = 40
TEXT = "x" * (1 << 20)


@dataclass
class Pair:
    left: Pair | str
    right: Pair | str


@dataclass
class Other:
    name: str


@attrs.define
class AttrsPair:
    left: Any
    right: Any


class StructPair(msgspec.Struct):
    left: Any
    right: Any


class Named(NamedTuple):
    left: Any
    right: Any


class Typed(TypedDict):
    left: Any
    right: Any


class Model(pydantic.BaseModel):
    left: Any
    right: Any


class Open(pydantic.BaseModel, extra="allow"):
    name: str = ""


def doubled(make: Callable[[Any, Any], Any], levels: int = LEVELS, leaf: str = "lol" * 1000) -> Any:
    """A value with 2^levels parts that are one and the same."""
    value: Any = leaf
    for _ in range(levels):
        value = make(value, value)
    return value


def as_list(left: Any, right: Any) -> Any:
    return [left, right]


def as_dict(left: Any, right: Any) -> Any:
    return {"left": left, "right": right}


def called(a: Any, *rest: Any, **more: Any) -> None: ...


def _encoded(annotation: Any, value: Any) -> Callable[[], object]:
    return lambda: Shape[Any](annotation, what="x").encode(value)


def _cases() -> dict[str, Callable[[], object]]:
    arguments, laughs = Arguments(called, what="x"), doubled(as_list)
    return {
        "list": _encoded(Any, laughs),
        "list of short texts": _encoded(Any, doubled(as_list, leaf="lol")),
        "tuple": _encoded(Any, doubled(lambda left, right: (left, right))),
        "dict": _encoded(Any, doubled(as_dict)),
        "dict of anything": _encoded(dict[str, Any], {"a": laughs}),
        "dataclass": _encoded(Pair, doubled(Pair)),
        "attrs": _encoded(AttrsPair, doubled(AttrsPair)),
        "struct": _encoded(StructPair, doubled(StructPair)),
        "named tuple": _encoded(Named, doubled(Named)),
        "typed dict": _encoded(Typed, doubled(as_dict)),
        "model": _encoded(Model, doubled(lambda left, right: Model(left=left, right=right))),
        "extra fields of a model": _encoded(Open, Open.model_validate({"more": laughs})),
        "model in a union": _encoded(Model | Other, Model(left=laughs, right=1)),
        "union of classes": _encoded(Pair | Other, doubled(Pair)),
        "list beside a set": _encoded(tuple[set[int], Any], ({1}, laughs)),
        "one text many times": _encoded(list[str], [TEXT] * 100_000),
        "one number many times": _encoded(list[int], [10**400] * 1_000_000),
        "one row many times": _encoded(list[list[int]], [[7] * 20_000] * 20_000),
        "texts as values": _encoded(dict[str, str], dict.fromkeys(map(str, range(100_000)), TEXT)),
        "arguments": lambda: arguments.encode((laughs,), {}),
        "arguments of a replay": lambda: arguments.encode((laughs,), {}, b"{}"),
        "further arguments": lambda: arguments.encode((1, laughs), {}),
        "arguments by name": lambda: arguments.encode((1,), {"more": laughs}),
        "arguments of a flow's node": lambda: encoded_arguments(arguments, {"a": laughs, "rest": [], "more": {}}),
        "text of a flow": lambda: evaluate(Text((Value(laughs),)), {}),
        "value of a flow": lambda: tree_of(laughs),
    }


def refused() -> None:
    """The program of the test below."""
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    for name, case in _cases().items():
        with pytest.raises((PayloadTooLarge, DefinitionError)):
            case()
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()


@pytest.mark.slow
def test_what_multiplies_is_refused_before_it_takes_memory() -> None:
    """Promise: whatever kind of value refers to its parts again and again, it is refused with `PayloadTooLarge`."""
    code = "from tests.unit.core.test_budget import refused; refused()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == list(_cases()), done.stderr[-3000:]


@pytest.mark.parametrize("annotation", [Any, list[Any], Pair | Other | list[Any]], ids=str)
def test_the_limit_is_the_same_for_every_annotation(annotation: Any) -> None:
    """Promise: a payload of exactly the limit is taken, one byte more is not."""
    shape = Shape[Any](annotation, what="x")
    around = len(shape.encode([""]))
    assert len(shape.encode(["x" * (MAX_PAYLOAD - around)])) == MAX_PAYLOAD
    with pytest.raises(PayloadTooLarge, match="takes") as caught:
        shape.encode(["x" * (MAX_PAYLOAD - around + 1)])
    assert caught.value.limit == MAX_PAYLOAD < caught.value.size


@pytest.mark.parametrize("size", [1020, 1021, 1022, 1023, 1024, 1025, 32766, 32768, 32770, 1 << 20, (1 << 20) + 1])
def test_sizes_around_those_of_the_buffers(size: int) -> None:
    value = ["x" * size]
    assert Shape[Any](list[str], what="x").encode(value) == msgspec.json.encode(value)


@pytest.mark.parametrize("make", [as_list, as_dict, Pair, AttrsPair, StructPair], ids=lambda make: make.__name__)
def test_what_is_too_deep_is_refused_by_its_type(make: Callable[[Any, Any], Any]) -> None:
    """Promise: no depth is answered with a `RecursionError`."""
    value: Any = "end"
    for _ in range(50_000):
        value = make(value, "")
    with pytest.raises(NotEncodable, match="levels deep"):
        Shape[Any](Any, what="x").encode(value)
    while not isinstance(value, str):  # part by part: freeing it whole would recurse
        value = _left(value)


def _left(value: Any) -> Any:
    if is_list(value):
        return value[0]
    return value["left"] if is_dict(value) else value.left


def test_an_object_that_cannot_be_stored_is_not_looked_into() -> None:
    """Promise: it is named as what cannot be stored, however much hangs on it."""

    class Client:
        def __init__(self) -> None:
            self.cache = [TEXT] * 100_000

    with pytest.raises(NotEncodable, match="Client"):
        Shape[Any](Pair | Other | list[Any], what="x").encode([Client()])
