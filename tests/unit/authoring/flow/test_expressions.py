"""Expressions of flows: parsed to a tree, written back, evaluated; typed, bounded, and never `eval`."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.authoring.flow.evaluation import evaluate, is_true
from holdfast.authoring.flow.expressions import (
    ROOTS,
    Binary,
    Expression,
    Fields,
    Items,
    Path,
    Text,
    Unary,
    Value,
    references,
)
from holdfast.authoring.flow.parser import MAX_LENGTH, parse_expression, parse_text, parse_value
from holdfast.authoring.flow.written import plain, written
from holdfast.errors import ExpressionFailed, InvalidExpression
from tests.support.examples import examples

KNOWN: dict[str, Any] = {
    "input": {"id": 7, "name": "Ada", "lines": [{"sku": "a"}, {"sku": "b"}], "tax_free": False, "none": None, "a b": 1},
    "steps": {"price": {"cents": 1200}, "rate": 0.5},
    "vars": {"region": "eu"},
    "item": {"sku": "x"},
}


def value_of(text: str) -> Any:
    return evaluate(parse_expression(text), KNOWN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 / 2", 3.5),
        ("6 / 2", 3),
        ("-steps.price.cents + 1", -1199),
        ("10 - 2 - 3", 5),
        ("input.lines[1].sku", "b"),
        ("input.lines[-1].sku", "b"),
        ('input["a b"]', 1),
        ("input['a b']", 1),
        ("'it\\'s ' + \"x\"", "it's x"),
        ("steps.price.cents > 1000 and not input.tax_free", True),
        ("input.missing ?? 5 + 1", 6),
        ("1 + input.missing ?? 5", 6),
        ("input.none ?? input.missing ?? 'x'", "x"),
        ("input.missing.deeper ?? []", []),
        ("input.missing == null", True),
        ("input.none != null", False),
        ("not input.missing", True),
        ("input.missing or input.id", True),
        ("[1] + [2, input.id]", [1, 2, 7]),
        ('{a: input.id, "b": [true, null]}', {"a": 7, "b": [True, None]}),
        ("1 == 1.0", True),
        ("true == 1", False),
        ("[1, {a: true}] == [1, {a: 1}]", False),
        ("'a' < 'b'", True),
        ("not 1 == 2", True),
        ("2 * -3", -6),
        ("item.sku + vars.region", "xeu"),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_what_expressions_come_to(text: str, expected: Any) -> None:
    """Contract: usual precedence; `??` binds tightest; what is missing is null to ==, false to conditions."""
    found = value_of(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("input.missing", "input.missing is not there: input has no 'missing'"),
        ("input.lines[5].sku", "input.lines has 2 items"),
        ("input.id.x", "input.id is 7, not an object"),
        ("input.name[0]", "input.name is 'Ada', not a list"),
        ("input.missing + 1", "input.missing is not there"),
        ("[input.missing]", "input.missing is not there"),
        ("'1' + 1", "'+' needs two numbers, two texts or two lists, not '1' and 1"),
        ("true + 1", "not True and 1"),
        ("input.none > 1", "'>' needs two numbers or two texts, not None and 1"),
        ("1 / 0", "division by zero"),
        ("1 / (input.id - 7)", "division by zero"),
        ("18446744073709551615 + 1", "too large"),
        ("1e308 * 10", "too large"),
        ("-'a'", "needs a number"),
        ("{} - {}", "'-' needs two numbers, not an object and an object"),
    ],
)
def test_what_has_no_value_says_why(text: str, words: str) -> None:
    """Contract: a missing field or a type that does not fit is an error that names it, never a silent null."""
    with pytest.raises(ExpressionFailed) as caught:
        value_of(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "offset", "words"),
    [
        ("", 0, "it ends too early"),
        ("1 +", 3, "it ends too early"),
        ("1 1", 2, "'1' is not expected here"),
        ("imput.id", 0, "did you mean 'input'?"),
        ("__import__('os')", 0, "'__import__' is not known"),
        ("input.id && 1", 9, "write 'and'"),
        ("!input.id", 0, "write 'not'"),
        ("None", 0, "did you mean 'null'?"),
        ("input.id(1)", 8, "no calls"),
        ("input.", 6, "a name was expected"),
        ("input[x]", 6, "an index is"),
        ("input[1.5]", 6, "an index is"),
        ("'open", 0, "not closed"),
        ("1 < 2 < 3", 6, "do not chain"),
        ("99999999999999999999999", 0, "too large"),
        ("1e999", 0, "too large"),
        ("{a: 1, a: 2}", 7, "twice"),
        ("'\\x41'", 0, "as in JSON"),
        ("(1", 2, "')' was expected"),
        ("input.id ** 2", 10, "'*' is not expected"),
        ("1;2", 1, "';' is not part"),
    ],
)
def test_what_does_not_parse_says_where(text: str, offset: int, words: str) -> None:
    """Contract: every refusal has its place in the text and, where there is one, a hint."""
    with pytest.raises(InvalidExpression) as caught:
        parse_expression(text)
    assert words in str(caught.value)
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    "text", ["(" * 2000 + "1" + ")" * 1500, "-" * 3000 + "input", "not " * 900 + "1", "1" + "+1" * 1500, "[" * 3000]
)
def test_depth_is_bounded(text: str) -> None:
    """Contract: no expression is deep enough to exhaust a stack."""
    with pytest.raises(InvalidExpression, match="levels"):
        parse_expression(text)


def test_size_is_bounded() -> None:
    """Contract: an expression over the limit is refused, however it is built; plain text may be longer."""
    with pytest.raises(InvalidExpression, match="at most"):
        parse_expression("1" * (MAX_LENGTH + 1))
    with pytest.raises(InvalidExpression, match="at most"):
        parse_text("x" * MAX_LENGTH + "${1}")
    assert parse_text("x" * 100_000) == Value("x" * 100_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("${input.id}", 7),
        ("order ${input.id}", "order 7"),
        ("${input.id}!", "7!"),
        ("${input.name} ${vars.region}", "Ada eu"),
        ("$${input.id}", "${input.id}"),
        ("$$${input.id}", "$${input.id}"),
        ("${'$'}${input.id}", "$7"),
        ("${'}'}", "}"),
        ("${ {a: 1} }", {"a": 1}),
        ("t ${input.lines}", 't [{"sku":"a"},{"sku":"b"}]'),
        ("${true} ${null}", "true null"),
        ("5$ and {x}", "5$ and {x}"),
    ],
)
def test_text_with_expressions(text: str, expected: Any) -> None:
    """Contract: a whole ${…} keeps its type, inside text it is text, and $${ is how to write it."""
    found = evaluate(parse_text(text), KNOWN)
    assert found == expected
    assert parse_value(plain(parse_text(text))) == parse_text(text)


@pytest.mark.parametrize(("text", "offset"), [("a ${1 + }", 8), ("a ${input.id", 12), ("ab ${x}", 5)])
def test_the_place_within_text(text: str, offset: int) -> None:
    """Contract: the offset counts from the beginning of the text."""
    with pytest.raises(InvalidExpression) as caught:
        parse_text(text)
    assert caught.value.offset == offset


def test_references_tell_what_has_a_fallback() -> None:
    """Contract: what stands left of ?? is optional, everything else is needed."""
    found = references(parse_expression("steps.a.x + (steps.b ?? steps.c) + input.n"))
    assert found.firm_steps() == ("a", "c")
    assert found.steps() == ("a", "c", "b")


def test_conditions() -> None:
    """Contract: null, false, 0, empty and what is missing are false."""
    for text in ("null", "false", "0", "''", "[]", "{}", "input.missing", "item.none.x"):
        assert not is_true(parse_expression(text), KNOWN), text
    for text in ("1", "'0'", "[0]", "{a: 0}", "input"):
        assert is_true(parse_expression(text), KNOWN), text


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
paths = st.builds(Path, st.sampled_from(ROOTS), st.lists(names | st.integers(-9, 99), max_size=4).map(tuple))
operators = st.sampled_from(["+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">=", "and", "or", "??"])


def _larger(trees: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return (
        st.builds(Unary, st.sampled_from(["not", "-"]), trees)
        | st.builds(Binary, operators, trees, trees)
        | st.builds(Items, st.lists(trees, max_size=3).map(tuple))
        | st.builds(Fields, st.dictionaries(names, trees, max_size=3).map(lambda found: tuple(found.items())))
    )


trees: st.SearchStrategy[Expression] = st.recursive(scalars.map(Value) | paths, _larger, max_leaves=12)


@given(trees)
@example(Unary("-", Binary("??", Value(0), Value(None))))
@examples(1000, few=150)
def test_what_is_written_parses_to_the_same_tree(tree: Expression) -> None:
    """Contract: written and parse are inverse, with and without ${…} around, so stored flows keep their meaning."""
    assert parse_expression(written(tree)) == tree
    assert parse_value(plain(tree)) == tree
    mixed = Text(("a$", tree)) if not (isinstance(tree, Value) and isinstance(tree.value, str)) else tree
    assert parse_value(plain(mixed)) == mixed


@given(st.text("input.steps[]()+-*/<>=!?{}$'\"0a1 ,:ndort\\\n", max_size=60) | st.text(max_size=60))
@examples(3000, few=150)
def test_any_text_parses_or_is_refused_with_its_place(text: str) -> None:
    """Contract: no crash, no hang; a refusal points into the text."""
    places: list[int] = []
    for parse in (parse_expression, parse_text):
        try:
            tree = parse(text)
        except InvalidExpression as error:
            places.append(error.offset)
        else:
            with contextlib.suppress(ExpressionFailed):
                evaluate(tree, KNOWN)
    assert all(0 <= place <= len(text) for place in places)
