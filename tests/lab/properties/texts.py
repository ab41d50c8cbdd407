"""A flow's file and an expression, edited by somebody who cannot type: each text is read, or refused with a place."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.authoring.flow.evaluation import evaluate
from holdfast.authoring.flow.loader import check_text
from holdfast.authoring.flow.parser import parse_expression
from holdfast.authoring.flow.written import written
from holdfast.errors import ExpressionFailed, InvalidExpression
from tests.unit.authoring.flow.test_expressions import KNOWN
from tests.unit.authoring.flow.test_fuzzing import PIECES, hold
from tests.unit.authoring.flow.test_loading import ORDER

WORDS = (
    "input", ".", "steps", "[", "]", "(", ")", "??", "+", "-", "*", "/", "==", "<", "and", "or", "not", "1", "1e9",
    "'x'", "null", "{", "}", ":", ",", "__class__", "mro", '"', " ", "item", "vars", "\x00", "é", "0x", "true", "%s",
    "{0}", "**",
)  # fmt: skip
LONGEST = 4000
places = st.integers(0, LONGEST)


class Texts(RuleBasedStateMachine):
    """The loader of flows and the parser of expressions."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ORDER
        self.expression = "input.lines[0].sku"

    @rule(at=places, piece=st.sampled_from(PIECES))
    def insert(self, at: int, piece: str) -> None:
        at %= len(self.text) + 1
        self.text = (self.text[:at] + piece + self.text[at:])[:LONGEST]

    @rule(at=places, count=st.integers(1, 9))
    def delete(self, at: int, count: int) -> None:
        at %= len(self.text) + 1
        self.text = self.text[:at] + self.text[at + count :]

    @rule(at=places, to=places)
    def move_a_line(self, at: int, to: int) -> None:
        lines = self.text.splitlines(keepends=True) or [""]
        line = lines.pop(at % len(lines))
        lines.insert(to % (len(lines) + 1), line)
        self.text = "".join(lines)

    @rule()
    def begin_again(self) -> None:
        self.text = ORDER

    @rule(at=places, word=st.sampled_from(WORDS))
    def write(self, at: int, word: str) -> None:
        at %= len(self.expression) + 1
        self.expression = (self.expression[:at] + word + self.expression[at:])[:200]

    @rule(at=places, count=st.integers(1, 5))
    def rub_out(self, at: int, count: int) -> None:
        at %= len(self.expression) + 1
        self.expression = self.expression[:at] + self.expression[at + count :]

    @invariant()
    def the_file_is_read_or_refused(self) -> None:
        hold(check_text(self.text, "f"), self.text)

    @invariant()
    def the_expression_has_a_value_or_says_why_not(self) -> None:
        try:
            tree = parse_expression(self.expression)
        except InvalidExpression:
            return
        assert parse_expression(written(tree)) == tree
        try:
            value: Any = evaluate(tree, KNOWN)
        except ExpressionFailed:
            return
        assert value is None or isinstance(value, bool | int | float | str | list | dict)
