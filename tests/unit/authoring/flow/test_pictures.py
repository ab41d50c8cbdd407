"""Flows as pictures, and the schema of their format."""

from __future__ import annotations

import json
from importlib.resources import files
from random import Random
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema_rs
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.authoring.flow.diagram import mermaid, svg
from holdfast.authoring.flow.flow_definition import Definition
from holdfast.authoring.flow.format import definition_plain
from holdfast.authoring.flow.loader import check_text
from holdfast.authoring.flow.schema import flow_schema
from tests.support.examples import examples
from tests.unit.authoring.flow.definitions import definitions
from tests.unit.authoring.flow.test_fuzzing import flow_of
from tests.unit.authoring.flow.test_loading import ORDER


def test_a_flow_as_mermaid() -> None:
    """Contract: every step with what it does, an arrow for every reference, a dotted one where there is a fallback."""
    text = (
        'holdfast: 1\nname: x\nsteps:\n  a: {call: m.f}\n  "b <1>": {wait: {signal: s}}\n'
        "  c: {each: {in: '${steps.a}'}, call: m.g, if: '${steps[\"b <1>\"] > 1}'}\n"
        "  d: {approve: {by: ann}}\n  e: {sleep: 1h, needs: [d]}\n"
        "output: ['${steps.c ?? 1}', '${steps.e}']\n"
    )
    assert mermaid(check_text(text, "f").required()).splitlines() == [
        "flowchart TD",
        '    s0["a<br/>m.f"]',
        '    s1(["b #lt;1#gt;<br/>wait for s"])',
        '    s2[["c<br/>each · m.g · if steps[#quot;b #lt;1#gt;#quot;] #gt; 1"]]',
        '    s3{{"d<br/>approval by ann"}}',
        '    s4(["e<br/>sleep 1h"])',
        '    output(("output"))',
        "    s1 --> s2",
        "    s0 --> s2",
        "    s3 --> s4",
        "    s4 --> output",
        "    s2 -.-> output",
    ]


def test_a_flow_as_svg() -> None:
    """Contract: one box for each step and one for the output, no two of them over each other."""
    flow = check_text(ORDER, "f").required()
    root = ET.fromstring(svg(flow))  # noqa: S314
    boxes = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if each.get("rx")]
    places = [(float(x.get("x", 0)), float(x.get("y", 0)), float(x.get("width", 0))) for x in boxes]
    assert len(boxes) == len(flow.steps) + 1
    for number, (x, y, width) in enumerate(places):
        for other_x, other_y, other_width in places[number + 1 :]:
            assert y != other_y or x + width <= other_x or other_x + other_width <= x
    names = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text") if each.get("class") == "name"]
    assert names == [*flow.by_name, "output"]


def test_the_schema_is_shipped() -> None:
    """Contract: the file in the package is what the table of keys says."""
    shipped = files("holdfast.authoring.flow").joinpath("flow.schema.json").read_text(encoding="utf-8")
    assert json.loads(shipped) == flow_schema(), "holdfast flow schema > src/…/flow.schema.json"


@given(definitions())
@examples(1000)
def test_the_schema_takes_every_flow(definition: Definition) -> None:
    """Contract: what the model can say, the schema allows."""
    validator = jsonschema_rs.validator_for(flow_schema())
    assert [error.message for error in validator.iter_errors(definition_plain(definition))] == []


@given(st.integers(0, 2**64))
@examples(1000)
def test_what_the_loader_takes_the_schema_takes(seed: int) -> None:
    """Contract: an editor never marks a file that `check` has nothing against."""
    plain = flow_of(Random(seed))
    if check_text(msgspec.json.encode(plain).decode(), "f", "json").definition is not None:
        assert jsonschema_rs.validator_for(flow_schema()).is_valid(plain)


def test_the_schema_refuses_what_people_mistype() -> None:
    """Contract: unknown keys, two actions and missing ones are marked in the editor already."""
    validator = jsonschema_rs.validator_for(flow_schema())
    head: dict[str, Any] = {"holdfast": 1, "name": "x"}
    wrongs: list[dict[str, Any]] = [
        {"name": "x"},
        {**head, "stepz": {}},
        {**head, "steps": {"a": {}}},
        {**head, "steps": {"a": {"call": "f", "sleep": "1s"}}},
        {**head, "steps": {"a": {"call": "f", "else": 1}}},
        {**head, "steps": {"a": {"approve": {"by": "x", "timeout": "1d", "then": "escalate"}}}},
        {**head, "steps": {"a": {"call": "f", "if": "input.x"}}},
    ]
    for wrong in wrongs:
        assert not validator.is_valid(wrong), wrong
