"""Definitions as bytes: equal definitions give equal bytes, and the bytes give the equal definition."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from holdfast.authoring.flow.expressions import Path
from holdfast.authoring.flow.flow_definition import Definition, FlowStep, Invoke
from holdfast.authoring.flow.format import definition_bytes, definition_from
from holdfast.errors import InvalidFlow, NotDecodable
from tests.support.examples import examples
from tests.unit.authoring.flow.definitions import definitions


@pytest.mark.slow
@given(definitions())
@examples(1000, few=150)
def test_a_definition_comes_back_exactly(definition: Definition) -> None:
    """Contract: what is stored is what was checked, whatever the file says later."""
    data = definition_bytes(definition)
    assert definition_from(data) == definition
    assert definition_bytes(definition_from(data)) == data


def test_the_bytes_are_a_flow_file() -> None:
    """Contract: the stored form is the format itself, defaults left out, so people can read it."""
    step = FlowStep("price", Invoke("shop.price"), when=Path("input", ("id",)))
    data = definition_bytes(Definition("order", (step,), output=Path("steps", ("price",))))
    assert msgspec.json.decode(data) == {
        "holdfast": 1,
        "name": "order",
        "steps": {"price": {"call": "shop.price", "if": "${input.id}"}},
        "output": "${steps.price}",
    }


def test_bytes_that_are_no_flow_are_refused() -> None:
    """Contract: damage is an error, never another flow."""
    with pytest.raises(NotDecodable):
        definition_from(b"{")
    with pytest.raises(InvalidFlow, match="holdfast"):
        definition_from(b'{"name": "x"}')
    with pytest.raises(InvalidFlow):
        definition_from(b"[]")
