"""Schemas on the PostgreSQL server of the tests, which the benchmark shares: started for it, gone with it, fsync on."""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql

from benchmarks.counting import counted_questions
from benchmarks.places import YEAR
from benchmarks.raw import RawTable
from tests.support.postgres import server_url

RUN = "PYTEST_XDIST_TESTRUNUID"
"""By which processes that belong together find their server."""


def share_server() -> str:
    """Starts the server for this process and all it starts; the server's version."""
    os.environ.setdefault(RUN, f"bench-{os.getpid()}")
    with psycopg.connect(server_url()) as connection:
        return str(connection.info.parameter_status("server_version"))


_SCHEDULES = """
INSERT INTO {} (name, revision, next_at, workflow, body)
SELECT 'schedule-' || n, 1, %s + n, 'one', '{{}}'::bytea FROM generate_series(1, %s) AS n
"""
_KEYS = """
INSERT INTO {} (name, key, tat, quiet_until) SELECT 'customer', 'key-' || n, 0, 0 FROM generate_series(1, %s) AS n
"""
_PLACES = """
INSERT INTO {} (name, key, slot, run, step, epoch)
SELECT 'customer', 'key-' || n, 0, 1000000000 + n, 'price', 1 FROM generate_series(1, %s) AS n
"""


class Schemas:
    """See `places`. A schema for each store; dropped at the end."""

    def __init__(self) -> None:
        self._prefix = f"bench_{secrets.token_hex(4)}"
        self._made: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for schema in self._made:
            with _connected() as connection:
                connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))

    def url(self, name: str) -> str:
        """See `places`."""
        return server_url(self._schema(name))

    def raw(self) -> RawTable:
        """See `places`."""
        return RawTable(server_url(), self._schema("raw"))

    def lease_left(self, name: str, worker: str) -> float:
        """See `places`."""
        query = sql.SQL("SELECT expires / 1e6 - extract(epoch FROM clock_timestamp()) FROM {} WHERE worker = %s")
        return max(0.0, float(self._value(query.format(self._table(name, "workers")), worker)))

    def stored_bytes(self, name: str) -> int:
        """See `places`: tables and indexes, vacuumed, without the server's log of all stores."""
        tables = ("runs", "events", "attributes", "inbox", "watchers", "adoptions", "exposed", "blobs", "snapshots")
        with _connected() as connection:
            for table in tables:
                connection.execute(sql.SQL("VACUUM {}").format(self._table(name, table)))
        return int(self._value(sql.SQL(_BYTES), self._schema(name)))

    def multiply(self, name: str, rows: int) -> None:
        """See `places`."""
        columns = str(self._value(sql.SQL(_COLUMNS), self._schema(name))).split(",")
        listed = sql.SQL(", ").join(map(sql.Identifier, columns))
        table = self._table(name, "runs")
        copying = sql.SQL(
            "INSERT INTO {table} (id, {listed}) SELECT 'run-' || n, {listed} "
            "FROM generate_series(1, %s) AS n, {table} WHERE id = 'pattern'"
        )
        with _connected() as connection:
            connection.execute(copying.format(table=table, listed=listed), (rows,))
            connection.execute(sql.SQL("VACUUM ANALYZE {}").format(table))

    def crowd(self, name: str, schedules: int, keys: int) -> None:
        """See `places`."""
        later = int((time.time() + YEAR) * 1e6)
        with _connected() as connection:
            for table, statement, values in (
                ("schedules", _SCHEDULES, (later, schedules)),
                ("rates", _KEYS, (keys,)),
                ("places", _PLACES, (keys,)),
            ):
                into = self._table(name, table)
                connection.execute(sql.SQL(statement).format(into), values)
                connection.execute(sql.SQL("VACUUM ANALYZE {}").format(into))

    @contextmanager
    def counted(self) -> Iterator[_Counts]:
        """See `places`: every statement of a store is a transaction of its own."""
        with counted_questions() as asked:
            yield _Counts(asked)

    def _schema(self, name: str) -> str:
        schema = f"{self._prefix}_{name}"
        self._made.add(schema)
        return schema

    def _table(self, name: str, table: str) -> sql.Identifier:
        return sql.Identifier(self._schema(name), table)

    def _value(self, query: sql.SQL | sql.Composed, *values: object) -> Any:
        with _connected() as connection:
            ((value,),) = connection.execute(query, values).fetchall()
        return value


class _Counts:
    def __init__(self, asked: Counter[str]) -> None:
        self._asked = asked

    @contextmanager
    def during(self) -> Iterator[dict[str, int]]:
        found: dict[str, int] = {}
        before = self._asked.total()
        yield found
        found["writes"] = self._asked.total() - before


def _connected() -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(server_url(), autocommit=True)


_BYTES = """
SELECT coalesce(sum(pg_table_size(c.oid) + pg_indexes_size(c.oid)), 0)::bigint FROM pg_class AS c
WHERE c.relnamespace = to_regnamespace(%s) AND c.relkind = 'r'
"""
_COLUMNS = """
SELECT string_agg(attname, ',') FROM pg_attribute
WHERE attrelid = to_regclass(%s || '.runs') AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('no', 'id')
"""
