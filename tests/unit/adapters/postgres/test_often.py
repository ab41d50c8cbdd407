"""What is asked often: values in binary, statements prepared where the session is ours, and nowhere else."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.adapters.postgres.address import parse_address
from holdfast.adapters.postgres.binary import Statement
from holdfast.adapters.postgres.connections import Dialler, TimedConnection
from holdfast.adapters.postgres.statements import OFTEN, Texts
from holdfast.errors import InvalidInput
from holdfast.ports.journal import Committed
from holdfast.testing.conformance.world import DONE, World
from tests.support.pooler import Pooler
from tests.support.postgres import server_port, server_url

bigints = st.integers(-(2**63), 2**63 - 1)
integers = st.integers(-(2**31), 2**31 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "bytea": st.binary(),
    "bigint": bigints,
    "integer": integers,
    "text": texts,
}
ECHO = Statement("echo", "SELECT %b::boolean, %b::bytea, %b::bigint, %b::integer, %b::text", "")
ECHO_MANY = Statement("many", "SELECT %b::boolean[], %b::bytea[], %b::bigint[], %b::integer[], %b::text[]", "")


@pytest.fixture(scope="module")
def connection() -> Any:
    dialled = Dialler(parse_address(server_url())).dial(10)
    yield dialled
    dialled.close()


@given(st.tuples(*(st.none() | one for one in SCALARS.values())))
def test_values_arrive_as_they_are(connection: TimedConnection, values: tuple[Any, ...]) -> None:
    assert connection.ask(ECHO, values) == [values]


@given(st.tuples(*(st.none() | st.lists(st.none() | one) for one in SCALARS.values())))
def test_lists_of_values_arrive_as_they_are(connection: TimedConnection, values: tuple[Any, ...]) -> None:
    assert connection.ask(ECHO_MANY, values) == [values]


@pytest.mark.parametrize(
    "values", [(True, b"", 2**63, 1, ""), (True, b"", 1, 2**31, ""), (True, b"", 1, 1, "NUL \0"), (True, b"", 1, 1)]
)
def test_what_a_type_cannot_hold_is_refused_before_it_is_sent(connection: TimedConnection, values: Any) -> None:
    with pytest.raises((psycopg.DataError, ValueError)):
        connection.ask(ECHO, values)
    assert connection.ask(ECHO, (None,) * 5) == [(None,) * 5]


@pytest.mark.parametrize("statement", OFTEN, ids=list(OFTEN.values()))
def test_every_value_of_what_is_asked_often_is_cast(statement: str) -> None:
    """Promise: under one name there is one text, and another schema has another name."""
    ready, other = Texts('"one"').often(statement), Texts('"an%%other"').often(statement)
    assert ready is not None
    assert other is not None
    assert len(ready.formats) == (statement.count("%b") or max(map(int, re.findall(r"\$(\d+)", statement))))
    assert b"%" not in ready.text
    assert b'"an%other"' in other.text
    assert ready.name != other.name


async def test_a_session_of_ours_keeps_statements(world: World) -> None:
    """Promise: the commonest turn is prepared after a few times, and what somebody throws away is prepared again."""
    holder = await world.held_run("r")
    for _ in range(5):
        await holder.commits()
    turns = [link for link in world.store._links if link.takes_plain]  # type: ignore[attr-defined]
    kept = [name for link in turns for (name,) in link.connected().execute(_PREPARED).fetchall()]
    assert any(name.startswith("commit_plain(") for name in kept)
    for link in turns:
        link.connected().execute("DEALLOCATE ALL")
    assert isinstance(await holder.commit(DONE), Committed)
    await world.verify()


def test_a_session_that_a_pooler_lends_keeps_nothing() -> None:
    """Promise: no statement stays in a session that somebody else is given next; none is needed there."""
    with Pooler(server_port()) as pooler:
        dialled = Dialler(parse_address(server_url(port=pooler.port))).dial(10)
        assert not dialled.is_ours
        for number in range(10):
            assert dialled.ask(ECHO, (True, b"", number, 1, "")) == [(True, b"", number, 1, "")]
        assert dialled.execute(_PREPARED).fetchall() == []
        dialled.close()
    assert pooler.switches > 5


async def test_a_value_that_no_store_can_hold_is_said(world: World) -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        await world.store.get("a\0b")


_PREPARED = "SELECT name FROM pg_prepared_statements"
