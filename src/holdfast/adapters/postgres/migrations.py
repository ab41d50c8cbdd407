"""The schema, as the sum of its migrations. Forward only, each number in two halves.

`pre` adds what the new code needs and leaves everything the code before it uses: it runs when the new code first opens
the store, while workers of the old one continue. `post` takes away what is no longer used: it runs with the next
number, when the old workers are gone. `meta` holds the number of the last `pre`, and `oldest`, the lowest number that
code must know to use the store: older code is refused before it writes.

Any number of processes may start at once: they meet at a lock that ends with the transaction, and the second finds the
work done.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec
import psycopg
from psycopg import errors as pg

from holdfast.adapters.postgres.address import Address
from holdfast.adapters.postgres.connections import OLDEST_SERVER, TimedConnection
from holdfast.adapters.postgres.problems import first_line, translated
from holdfast.errors import StoreRefused
from holdfast.ports.condition import Schema

PATIENCE = 60.0


class Migration(msgspec.Struct, frozen=True):
    """One number: the SQL of both halves. A published one never changes."""

    pre: tuple[str, ...]
    post: tuple[str, ...] = ()


def _texts(*names: str) -> tuple[str, ...]:
    folder = files("holdfast.adapters.postgres") / "schema"
    return tuple((folder / name).read_text(encoding="utf-8") for name in names)


def functions() -> tuple[str, ...]:
    """The functions that all numbers share. They hold no data: the last number replaces all of them."""
    return _texts(*(f"0001_pre_{part}.sql" for part in ("turns", "transactions", "leases", "upkeep")))


def migrations() -> tuple[Migration, ...]:
    """All of them, in order; the first has number 1."""
    return (
        Migration(_texts("0001_pre_tables.sql")),
        Migration(_texts("0002_pre_tables.sql", "0002_pre_schedules.sql")),
        Migration(_texts("0003_pre_tables.sql")),
        Migration(
            (
                *_texts("0004_pre_limits.sql", "0004_pre_streams.sql", "0004_pre_tables.sql", "0004_pre_updates.sql"),
                *_texts("0004_pre_gates.sql", "0004_pre_gathering.sql"),
                *functions(),
                *_texts("0004_pre_queues.sql", "0004_pre_successions.sql"),
            )
        ),
        Migration(_texts("0005_pre_redaction.sql")),
        Migration(_texts("0006_pre_shares.sql", "0004_pre_queues.sql")),
    )


# state: what is there. Locks nothing. A schema without `meta` and `settle` is new, or belongs to other software, which
# may have a table of that name.
_STATE = b"""
SELECT to_regclass(format('%%I.meta', %s::text)) IS NOT NULL
        AND to_regprocedure(format('%%I.settle()', %s::text)) IS NOT NULL,
    EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(%s)))
"""
# asking: who we are to the server, and whether the schema is there. Needs no rights.
_ASKING = b"SELECT quote_ident(current_user), quote_ident(%s), to_regnamespace(quote_ident(%s)) IS NOT NULL"
_NUMBERS = b"SELECT name, value FROM {s}.meta"
# alone: a second migration of this schema waits here for the first. Ends with the transaction.
_ALONE = b"SELECT pg_advisory_xact_lock(%s)"
_PATH = b"SELECT set_config('search_path', quote_ident(%s) || ', pg_temp', true)"
_MAKE_SCHEMA = b"CREATE SCHEMA IF NOT EXISTS {s}"
# settle: restarts the count of transactions after the store was copied to another cluster. Locks events, if it was.
_SETTLE = b"SELECT {s}.settle()"
_REMEMBER = b"""
INSERT INTO {s}.meta (name, value) VALUES ('version', %s), ('oldest', %s)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""


def bring_up_to_date(
    connection: TimedConnection, address: Address, *, auto_migrate: bool, steps: Sequence[Migration] | None = None
) -> None:
    """Migrates the schema if necessary. Raises `StoreRefused` if this code must not touch it."""
    known = migrations() if steps is None else tuple(steps)
    connection.patience = PATIENCE
    with _explained(connection, address):
        _check_server(connection, address)
        version, _ = _check(connection, address, len(known))
        if version >= len(known):
            connection.execute(_named(_SETTLE, address))
            return
        if not auto_migrate:
            raise StoreRefused(
                f"cannot open the store {address.url}: its schema has version {version}, this Holdfast needs "
                f"{len(known)}, and automatic migration is off. Migrate it first (holdfast migrate), or open it with "
                "auto_migrate=True."
            )
        with connection.transaction():
            connection.execute(_ALONE, (_lock_number(address.schema),))
            version, oldest = _check(connection, address, len(known))
            if version < len(known):
                _migrate(connection, address, known, version, oldest)
            connection.execute(_named(_SETTLE, address))


def schema_version(connection: TimedConnection, address: Address) -> Schema:
    """The number of the schema. Raises `StoreRefused` if this code must not touch it. Writes nothing."""
    latest = len(migrations())
    connection.patience = PATIENCE
    with _explained(connection, address):
        version, _ = _check(connection, address, latest)
    return Schema(min(version, latest), latest)


def _migrate(
    connection: TimedConnection, address: Address, known: Sequence[Migration], version: int, oldest: int
) -> None:
    connection.execute(_named(_MAKE_SCHEMA, address))
    connection.execute(_PATH, (address.schema,))
    for number in range(version, len(known)):
        if number:  # the half that waited until nobody runs the code before it
            _run_all(connection, known[number - 1].post)
            oldest = max(oldest, number)
        _run_all(connection, known[number].pre)
    connection.execute(_named(_REMEMBER, address), (len(known), max(oldest, 1)))


def _run_all(connection: TimedConnection, texts: Sequence[str]) -> None:
    for text in texts:
        connection.execute(text.encode())


def _check(connection: TimedConnection, address: Address, latest: int) -> tuple[int, int]:
    """The numbers of the schema; zeros if it is new."""
    ((is_ours, has_tables),) = connection.execute(_STATE, (address.schema,) * 3).fetchall()
    if not is_ours:
        if has_tables:
            raise StoreRefused(
                f"cannot open the store {address.url}: the schema {address.schema!r} belongs to another program. "
                "Use a schema of its own: ?schema=NAME."
            )
        return 0, 0
    numbers: dict[str, Any] = dict(connection.execute(_named(_NUMBERS, address)).fetchall())
    version, oldest = int(numbers["version"]), int(numbers["oldest"])
    if oldest > latest:
        raise StoreRefused(
            f"cannot open the store {address.url}: its schema has version {version} and needs a Holdfast that knows "
            f"{oldest}, this one knows up to {latest}. A newer Holdfast migrated it: upgrade this one."
        )
    return version, oldest


@contextmanager
def _explained(connection: TimedConnection, address: Address) -> Generator[None]:
    """Turns what the server refuses into our errors."""
    try:
        try:
            yield
        except pg.InsufficientPrivilege as error:
            asking = connection.execute(_ASKING, (address.schema,) * 2).fetchall()
            raise _without_rights(address, first_line(error), *asking[0]) from error
    except psycopg.Error as error:
        raise translated(error) from error


def _without_rights(address: Address, problem: str, role: str, schema: str, is_there: bool) -> StoreRefused:
    if not is_there:
        return StoreRefused(
            f"cannot open the store {address.url}: this role may not make the schema {address.schema!r} ({problem}). "
            "Let a role that may make it run `holdfast migrate` once, or grant CREATE on the database."
        )
    return StoreRefused(
        f"cannot open the store {address.url}: this role may not use the schema {address.schema!r}, or not change it "
        f"({problem}). Let its owner run `holdfast migrate` and grant this role its rights: "
        f"GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}."
    )


def _check_server(connection: TimedConnection, address: Address) -> None:
    number = connection.info.server_version
    if number < OLDEST_SERVER:
        raise StoreRefused(
            f"cannot open the store {address.url}: the server is PostgreSQL {number // 10000}, Holdfast needs "
            f"{OLDEST_SERVER // 10000} or newer."
        )


def _named(statement: bytes, address: Address) -> bytes:
    return (
        statement.replace(b"{s}", address.quoted.replace("%%", "%").encode())
        if b"%s" not in statement
        else (statement.replace(b"{s}", address.quoted.encode()))
    )


def _lock_number(schema: str) -> int:
    return int.from_bytes(sha256(f"holdfast:{schema}".encode()).digest()[:8], "big", signed=True)
