"""`FlowBuilder`: the same model from Python; operators on references build expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from typing import Any

import pytest

from holdfast import FlowBuilder, Retry, step
from holdfast.authoring.flow.builder_references import Ref
from holdfast.authoring.flow.format import definition_plain
from holdfast.authoring.flow.loader import check_text
from holdfast.errors import DefinitionError, InvalidFlow, InvalidInput
from tests.unit.authoring.flow.test_loading import ORDER


@dataclass
class Order:
    id: str
    cents: int


@step
async def charge(order: Order) -> str:
    return order.id


def test_a_builder_makes_what_a_file_makes() -> None:
    """Contract: one model, two ways to write it."""
    f = FlowBuilder("order", saga=True, input_schema={"type": "object", "required": ["id"]})
    region, token = f.var("region", "eu"), f.var("token", secret=True)
    price = f.call("price", "shop.price", {"id": f.input["id"], "region": region, "token": token}, retry=3)
    tax = f.call(
        "tax",
        "shop.tax",
        {"amount": price["cents"]},
        when=~f.input["tax_free"] & (price["cents"] > 1000),
        otherwise=0,
        on_error=0,
    )
    boxes = f.call(
        "boxes",
        "shop.pack",
        {"sku": f.item["sku"], "note": f.text("order ", f.input["id"])},
        each=f.input["lines"].otherwise([]),
        limit=8,
    )
    ok = f.wait("ok", "approved", timeout="3d", default=False)
    f.sleep("pause", "1h", needs=[ok], always=True)
    gate = f.approve(
        "gate",
        "finance",
        asked_when=price["cents"] > 100000,
        why=f.text("order ", f.input["id"]),
        timeout="2d",
        then=f.escalate(["ann", "bob"], timeout="1d", then="approve"),
    )
    built = f.build({"total": price["cents"] + tax, "boxes": boxes, "ok": ok, "by": gate["by"]})
    assert built.definition == check_text(ORDER, "order.yaml").required()


def test_operators_build_expressions() -> None:
    """Contract: what Python writes with operators is what files write with words."""
    f = FlowBuilder("x")
    a, b = f.input["a"], f.input["b"][0]
    cases: list[tuple[Ref, str]] = [
        (a + b * 2 - 1, "${input.a + input.b[0] * 2 - 1}"),
        ((a + b) / 2, "${(input.a + input.b[0]) / 2}"),
        (1 - a, "${1 - input.a}"),
        (2 * a, "${2 * input.a}"),
        (1 + a, "${1 + input.a}"),
        (1 / a, "${1 / input.a}"),
        (-a, "${-input.a}"),
        ((a < 1) | (b >= 2) & (a != b), "${input.a < 1 or input.b[0] >= 2 and input.a != input.b[0]}"),
        (True & (a <= 1), "${true and input.a <= 1}"),
        (False | ~(a == "x"), '${false or not input.a == "x"}'),
        (a.otherwise(b).otherwise({"k": [a]}), '${(input.a ?? input.b[0]) ?? {"k": [input.a]}}'),
        (f.input["a b"], '${input["a b"]}'),
    ]
    for reference, text in cases:
        plain = definition_plain(f.build(reference).definition)
        assert plain["output"] == text


def test_plain_values_are_taken_as_they_are() -> None:
    """Contract: text is text, ${…} and all; dataclasses are their data."""
    f = FlowBuilder("x")
    built = f.build({"a": "${input.b}", "order": Order("1", 5), "at": timedelta(seconds=1), "n": (1, None)})
    assert definition_plain(built.definition)["output"] == {
        "a": "$${input.b}",
        "order": {"id": "1", "cents": 5},
        "at": "PT1S",
        "n": [1, None],
    }


def test_a_step_object_is_called_by_its_name() -> None:
    """Contract: steps and workflows may be given as they are; they are served with the flow."""
    f = FlowBuilder("x")
    paid = f.call("pay", charge, {"order": f.input}, retry=Retry(2), timeout="5s")
    built = f.build(paid)
    assert built.definition.targets == ("charge",)
    assert built.spec.brings == (charge,)


def test_what_is_wrong_is_said_with_the_line_of_the_step() -> None:
    """Contract: the builder's checks are the file's, and a problem names the Python line."""
    f = FlowBuilder("x")
    f.call("a", "m.f", {"x": Ref(f.input.tree)["b"], "y": f.item})
    with pytest.raises(InvalidFlow, match=r"test_building\.py:\d+: step a: item is the current item of an 'each'"):
        f.build()


REFUSED: list[tuple[Callable[[Any], object], str]] = [
    (lambda f: f.call("a b\n", "m.f"), "control character"),
    (lambda f: (f.call("a", "m.f"), f.call("a", "m.f")), "appears twice"),
    (lambda f: f.call("a", "m.f", otherwise=1), "give when= too"),
    (lambda f: f.call("a", "m.f", when="yes"), "is a condition"),
    (lambda f: f.call("a", "m.f", limit=3), "limit= is for each="),
    (lambda f: f.call("a", "m.f", needs=[f.input]), "references to steps"),
    (lambda f: f.call("a", "m.f", {"x": object()}), "not a value for a flow"),
    (lambda f: f.call("a", "m.f", {"x": float("nan")}), "not a number"),
    (lambda f: f.call("a", "m.f", {"x": {1: 2}}), "is not text"),
    (lambda f: f.wait("a", "s", default=1), "give timeout= too"),
    (lambda f: f.escalate("a", then="approve"), "what happens at the timeout"),
    (lambda f: f.sleep("a", "1x"), "unknown unit"),
    (lambda f: f.text("a", "b"), "one of them is not text"),
    (lambda f: f.text("a", f.input) + "b", "give f.text(…) all its parts"),
    (lambda f: (f.input + 1)["x"], "is computed"),
    (lambda f: f.input[1.5], "named by text or a whole number"),
    (lambda f: (f.var("v"), f.var("v")), "declared twice"),
    (lambda f: sum([f.input] * 200, f.input), "at most 100 levels"),
    (lambda f: reduce(lambda a, _: a * a, range(60), f.input), "1000 parts"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_what_cannot_be_is_refused_at_once(make: Callable[[Any], object], words: str) -> None:
    """Contract: the line that is wrong is the line that fails."""
    with pytest.raises((DefinitionError, InvalidInput)) as caught:
        make(FlowBuilder("x"))
    assert words in str(caught.value)


def test_a_reference_has_no_value_in_python() -> None:
    """Contract: `if ref:`, `ref in …` and iteration are errors with the cure, never silently true or endless."""
    f = FlowBuilder("x")
    wrongs: list[Callable[[Any], object]] = [bool, list, len, lambda ref: 1 in ref, lambda ref: {ref: 1}]
    for wrong in wrongs:
        with pytest.raises(TypeError):
            wrong(f.input)
