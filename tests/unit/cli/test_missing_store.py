"""Commands that only ask: a store that is not there is said to be missing, and not made; one that is old stays old."""

from __future__ import annotations

import apsw
import psycopg
import pytest
from psycopg import sql

from holdfast.adapters.sqlite.migrations import MIGRATIONS
from tests.golden.make_stores import FOLDER
from tests.support.postgres import new_schema, server_url
from tests.unit.cli.conftest import Cli

ASKING = [
    ["runs"],
    ["show", "r"],
    ["follow", "r"],
    ["cancel", "r"],
    ["publish", "t", "1"],
    ["workers"],
    ["verify"],
    ["export", "r"],
    ["space"],
    ["gc", "--dry-run"],
    ["gc"],
    ["compact"],
]


def tables_of(schema: str) -> list[str] | None:
    """None if there is no such schema."""
    with psycopg.connect(server_url()) as connection:
        if connection.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,):
            return None
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,))
        return sorted(name for (name,) in rows)


@pytest.fixture(params=[False, True], ids=["no schema", "an empty schema"])
def schema(request: pytest.FixtureRequest) -> str:
    """Where no store is."""
    name = new_schema()
    if request.param:
        with psycopg.connect(server_url(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    return name


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_what_only_asks_makes_no_store_on_postgresql(cli: Cli, schema: str, words: list[str]) -> None:
    """Contract: it says where none is, and leaves the database as it was."""
    before = tables_of(schema)
    answer = cli(*words, "--url", server_url(schema))
    assert answer.code == 1
    assert f"there is no store in schema {schema!r} of postgresql://" in answer.error
    assert tables_of(schema) == before


def test_doctor_makes_no_store_on_postgresql(cli: Cli, schema: str) -> None:
    """Contract: the store is missing, which is the one problem; no migration is advised."""
    before = tables_of(schema)
    answer = cli("doctor", "--json", "--url", server_url(schema))
    [problem] = [one for one in answer.json["findings"] if one["state"] == "problem"]
    assert (answer.code, problem["check"]) == (1, "store")
    assert "there is no store in schema" in problem["text"]
    assert tables_of(schema) == before


@pytest.mark.server
def test_what_an_app_can_run_is_said_without_a_store(cli: Cli, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: `manifest` needs none, and makes none."""
    before = tables_of(schema)
    monkeypatch.setenv("HOLDFAST_URL", server_url(schema))
    assert "hello" in cli.ok("manifest", "shop:app")
    assert tables_of(schema) == before


@pytest.mark.server
def test_a_store_that_is_there_is_asked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: on PostgreSQL too, by a command of its own process."""
    monkeypatch.setenv("HOLDFAST_URL", server_url(new_schema()))
    cli.start("hello", "name=x", "--id", "r")
    assert "hello" in cli.ok("runs")
    assert cli("doctor").code == 1  # no worker


def test_doctor_leaves_an_old_store_as_it_is(cli: Cli) -> None:
    """Contract: a missing migration is a problem, and is not made; what cannot be asked without it is not asked."""
    connection = apsw.Connection(str(cli.folder / "store.db"))
    connection.execute((FOLDER / "sqlite-1.sql").read_text(encoding="utf-8"))
    answer = cli("doctor", "--json")
    assert answer.code == 1
    assert [one["text"] for one in answer.json["findings"] if one["check"] == "schema"] == [
        f"version 1, and {len(MIGRATIONS)} is needed. Run: holdfast migrate"
    ]
    assert connection.execute("PRAGMA user_version").fetchall() == [(1,)]
    connection.close()
