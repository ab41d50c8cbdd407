"""Random definitions of flows, as a file or a builder could make them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from holdfast.authoring.flow.expressions import ROOTS, Binary, Expression, Fields, Items, Path, Text, Unary, Value
from holdfast.authoring.flow.flow_definition import (
    Approve,
    Definition,
    Each,
    FlowStep,
    Invoke,
    Sleep,
    Variable,
    Wait,
)
from holdfast.core.retry import Retry

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
names = st.text("abc-_.é", min_size=1, max_size=5)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
jsons: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2), max_leaves=4
)
paths = st.builds(Path, st.sampled_from(ROOTS), st.lists(names | st.integers(0, 3), max_size=3).map(tuple))
operators = st.sampled_from(["+", "-", "*", "/", "==", "!=", "<", "<=", ">", ">=", "and", "or", "??"])
conditions: st.SearchStrategy[Expression] = (
    paths | st.builds(Binary, operators, paths, paths | scalars.map(Value)) | st.builds(Unary, st.just("not"), paths)
)
mixed = st.tuples(st.text("ab$ {", min_size=1, max_size=3), paths).map(Text)


def _larger(trees: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    fields = st.dictionaries(texts, trees, max_size=2).map(lambda found: Fields(tuple(found.items())))
    return st.lists(trees, max_size=2).map(lambda found: Items(tuple(found))) | fields


values: st.SearchStrategy[Expression] = st.recursive(scalars.map(Value) | conditions | mixed, _larger, max_leaves=4)
durations = st.timedeltas(timedelta(0), timedelta(days=9999))
given = st.dictionaries(names, values, max_size=2).map(lambda found: Fields(tuple(found.items())))
waits = st.builds(Wait, names, durations, st.none() | values) | st.builds(Wait, names)
sleeps = st.builds(Sleep, paths | st.sampled_from(["1h", "3d"]).map(Value))
last_gates = st.builds(
    Approve, values, st.none() | conditions, st.none() | values, durations, st.sampled_from(["approve", "deny"])
)
gates = last_gates | st.builds(Approve, values, st.none(), st.none(), durations, last_gates)
retries = st.builds(
    Retry,
    st.none() | st.integers(1, 9),
    first=st.sampled_from(["0s", "1s", "1.5s"]),
    factor=st.floats(1, 9),
    ceiling=st.just("1d"),
)


@st.composite
def steps(draw: st.DrawFn, name: str) -> FlowStep:
    """A step of any kind."""
    when = draw(st.none() | conditions)
    calls = draw(st.booleans())
    return FlowStep(
        name=name,
        does=draw(st.builds(Invoke, names, given) if calls else waits | sleeps | gates),
        when=when,
        otherwise=draw(st.none() | values) if when is not None else None,
        needs=tuple(draw(st.lists(names, max_size=2))),
        each=draw(st.none() | st.builds(Each, values, st.none() | st.integers(1, 9))) if calls else None,
        retry=draw(st.none() | retries) if calls else None,
        timeout=draw(st.none() | durations) if calls else None,
        fallback=draw(st.none() | values),
        always=draw(st.booleans()),
        description=draw(texts),
        metadata=draw(jsons),
    )


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    """A flow that can be written down; it need not make sense."""
    variables = draw(st.lists(names, unique=True, max_size=2))
    defaults = draw(st.lists(st.booleans(), min_size=2, max_size=2))
    return Definition(
        name=draw(names),
        steps=tuple(draw(steps(name)) for name in draw(st.lists(names, unique=True, max_size=3))),
        output=draw(values),
        version=draw(texts),
        description=draw(texts),
        saga=draw(st.booleans()),
        input_schema=draw(st.none() | st.dictionaries(texts, jsons, max_size=2)),
        output_schema=draw(st.none() | st.booleans()),
        variables=tuple(
            Variable(name, draw(jsons) if has else None, has, draw(st.booleans()), draw(texts))
            for name, has in zip(variables, defaults, strict=False)
        ),
        metadata=draw(jsons),
    )
