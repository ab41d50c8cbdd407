"""Whatever is in a file: no crash, no hang, and every refusal has a place.

With those of expressions, ten thousand cases.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.authoring.flow.format import definition_bytes, definition_from
from holdfast.authoring.flow.format_table import FLOW, TABLES
from holdfast.authoring.flow.loader import Checked, Syntax, check_text
from tests.support.examples import examples
from tests.unit.authoring.flow.test_loading import ORDER

LINES = ORDER.count("\n") + 1
PIECES = [
    "{", "}", "[", "]", ":", ",", "-", "&a ", "*a", "!!str ", "|", ">", "'", '"', "#", "\n", "\n  ", "\t", "${", "}",
    "$${", " ", "null", "1e999", "steps", "input.", "each: ", "? ", "<<: ", "---\n", "...", "%YAML 9\n", "\x00",
    "\u2028", "é", "\ud800", "not ", "?? ", "((", "0x", "~",
]  # fmt: skip


def hold(checked: Checked, text: str) -> None:
    """What is promised of every file."""
    lines = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + text.count("\u2029") + 1
    for problem in checked.problems:
        assert 1 <= problem.line <= lines
        assert problem.column >= 1
        assert problem.message
    wrong = [problem for problem in checked.problems if not problem.is_warning]
    assert bool(wrong) == (checked.definition is None)
    if checked.definition is not None:
        assert definition_from(definition_bytes(checked.definition)) == checked.definition


edits = st.lists(
    st.tuples(st.integers(0, len(ORDER)), st.integers(0, 9), st.sampled_from(PIECES)), min_size=1, max_size=4
)


@given(edits)
@examples(2000, few=150)
def test_a_damaged_file(changes: list[tuple[int, int, str]]) -> None:
    """Contract: pieces of YAML put into, and taken out of, a good file."""
    text = ORDER
    for at, cut, piece in changes:
        text = text[:at] + piece + text[at + cut :]
    hold(check_text(text, "f"), text)


@given(
    st.text(max_size=80) | st.text("abc:-[]{},&*!|>'\"#%@`\n\t ?~<=$", max_size=80), st.sampled_from(["yaml", "json"])
)
@examples(2500, few=150)
def test_any_text(text: str, syntax: Syntax) -> None:
    """Contract: any text at all, as YAML and as JSON."""
    hold(check_text(text, "f", syntax), text)


KEYS = sorted({key.name for table in (FLOW, *TABLES.values()) for key in table.keys} | {"a", "b", "x"})
SCALARS: list[Any] = [
    "a", "b", "${steps.a}", "${steps.b.x ?? 1}", "${item.y}", "${input}", "${", "1h", "deny", "fail", "", "shop.f",
    "${vars.a}", "x ${steps.c} y", -1, 0, 1, 3, 1.5, None, True, False, [], {},
]  # fmt: skip


def anything(random: Random, depth: int = 0) -> Any:
    """A value made of the format's own words."""
    kind = random.randrange(6) if depth < 4 else 0
    if kind == 4:
        return [anything(random, depth + 1) for _ in range(random.randrange(3))]
    if kind == 5:
        return {random.choice(KEYS): anything(random, depth + 1) for _ in range(random.randrange(4))}
    return random.choice(SCALARS)


def likely(random: Random, table: str) -> Any:
    """A mapping with keys of a table, most of them holding what they should."""
    if random.random() < 0.1:
        return anything(random)
    found: dict[str, Any] = {}
    for key in TABLES[table].keys:
        if key.required or random.random() < 0.2:
            nested = getattr(key.kind, "table", None)
            found[key.name] = likely(random, nested) if nested and random.random() < 0.7 else anything(random, 2)
    return found


def flow_of(random: Random) -> Any:
    """A file that looks like a flow."""
    if random.random() < 0.05:
        return anything(random)
    found: dict[str, Any] = {"holdfast": 1, "name": "f"}
    found |= {key.name: anything(random) for key in FLOW.keys[2:] if random.random() < 0.2}
    names = random.sample("abc", random.randrange(4))
    found["steps"] = {
        name: likely(random, "step") if random.random() < 0.5 else {"call": "m.f", "with": {"x": anything(random, 3)}}
        for name in names
    }
    return found


@given(st.integers(0, 2**64), st.sampled_from(["yaml", "json"]))
@examples(2500, few=150)
def test_the_right_keys_with_anything_in_them(seed: int, syntax: Syntax) -> None:
    """Contract: files that look like flows; those that pass are stored and come back."""
    text = msgspec.json.format(msgspec.json.encode(flow_of(Random(seed)))).decode()
    hold(check_text(text, "f", syntax), text)
