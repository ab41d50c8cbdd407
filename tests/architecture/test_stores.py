"""The three stores have the same files for the same things: who knows one finds the way in the others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest

from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.postgres.store import PostgresStore
from holdfast.adapters.sqlite.store import SqliteStore
from holdfast.ports.condition import Diagnosable, FindsDamage
from holdfast.ports.store import Store
from tests.architecture.source import PACKAGE

STORES: dict[str, type] = {"memory": MemoryStore, "postgres": PostgresStore, "sqlite": SqliteStore}

PORTS = [port for port in (*Store.__mro__, Diagnosable, FindsDamage) if port.__module__.startswith("holdfast.ports.")]

DATABASES = {
    "caller_transaction": "a memory store has no database whose transactions could be shared",
    "connections": "a memory store has no connections",
    "lent_transaction": "a memory store has no transactions to lend",
    "limit_statements": "SQL",
    "link": "a memory store has no connections",
    "migrations": "a memory store has no schema",
    "statements": "SQL",
    "trees": "a memory store sorts the rows it has, in three lines of `store`",
    "upkeep_statements": "SQL",
}
"""Modules of SQLite and PostgreSQL, with the reason why the memory store has none."""

IN_PROCESS = {
    "answers": "PostgreSQL: 0004_pre_updates.sql",
    "blobs": "PostgreSQL: 0001_pre_turns.sql",
    "claims": "PostgreSQL: 0001_pre_leases.sql",
    "gate": "PostgreSQL: 0004_pre_queues.sql",
    "lease_operations": "PostgreSQL: 0001_pre_leases.sql",
    "messages": "PostgreSQL: 0001_pre_turns.sql",
    "rewrite": "PostgreSQL: 0005_pre_redaction.sql",
    "starts": "PostgreSQL: 0001_pre_turns.sql",
    "stream_rows": "PostgreSQL: 0004_pre_streams.sql",
    "transaction": "PostgreSQL: the transaction of a function",
    "uniques": "PostgreSQL: 0004_pre_successions.sql",
    "upkeep": "PostgreSQL: 0001_pre_upkeep.sql",
}
"""Modules of SQLite and the memory store: what they do in this process, PostgreSQL does in functions of its schema."""

ONE_ONLY = {
    "memory": {
        "grants": "a lease manager apart from any store; the others are adapters of their own (etcd, nats)",
        "tables": "the plain dicts; the others have a schema",
    },
    "postgres": {
        "address": "several hosts, a schema, libpq's parameters; SQLite's `location` is a path",
        "after_commit": "callers use drivers of their own, and wake workers after their commit",
        "asyncpg_connection": "a driver that callers may have beside psycopg; SQLite joins connections of apsw alone",
        "binary": "values in the server's binary format; apsw takes Python's",
        "fast_path": "a single caller, with a limit on the round trip; a file needs none",
        "lane": "one thread and connection that gather work; SQLite's `writer` is the only one, and lends itself too",
        "lent_session": "SQLAlchemy's session on a lent connection; SQLite lends a connection of apsw",
        "notices": "LISTEN and NOTIFY; processes on a file poll it",
        "problems": "the server's error codes; SQLite's are few, and in `connections`",
        "read_batches": "saves round trips; reading a file has none",
        "server_questions": "functions of the server that ask back; the others run in this process",
        "slots": "a pool of transactions to lend; SQLite lends its only one",
        "wire": "values as the server's functions take them; the others take them as they are",
    },
    "sqlite": {
        "attempt": "one transaction for several callers; PostgreSQL's lanes have `adapters.sql.batches`",
        "audit": "refuses a second SQLite library in this process",
        "board": "processes that wait for one file; a server has a queue of its own",
        "condition_statements": "SQL of the condition; PostgreSQL's is short, and in `statements`",
        "location": "where the file is; PostgreSQL's `address` is a URL",
        "open_checks": "a file can be unfit in many ways; a server checks its own",
        "outbox": "what a pass of the event loop asks of the writer; PostgreSQL's `lane` has it inside",
        "queue_statements": "SQL of queues; PostgreSQL's is in its schema",
        "queue_tables": "the text of a migration; PostgreSQL's are files",
        "raw_statements": "texts that are not UTF-8; a server stores none",
        "readers": "read-only connections; PostgreSQL reads over links",
        "stream_tables": "the text of a migration; PostgreSQL's are files",
        "suspect_statements": "SQL of suspects; PostgreSQL's is in its schema",
        "turn_statements": "SQL of turns; PostgreSQL's is in its schema, and in `statements`",
        "unique_statements": "SQL of unique values; PostgreSQL's is in its schema",
        "writer": "the one writer of this process; PostgreSQL has lanes",
    },
}
"""Modules that one store has, with the reason why the others have none."""

CLOCKS = {"clock": "the memory store's is moved by hand, PostgreSQL's follows the server; SQLite takes the host's"}
"""Modules of PostgreSQL and the memory store, with the reason why SQLite has none."""


def modules(store: str) -> set[str]:
    return {path.stem for path in (PACKAGE / "adapters" / store).glob("*.py")} - {"__init__"}


def verbs(port: type) -> Iterator[str]:
    """The methods and properties that a port declares."""
    return (
        name
        for name, value in vars(port).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
    )


def home(store: type, verb: str) -> str:
    """The module and class of a store that implement a verb. "" if none does; the store's own class counts as one."""
    for part in store.__mro__:
        found = vars(part).get(verb)
        if found is not None and part.__module__.startswith("holdfast.adapters."):
            return f"{part.__module__.rpartition('.')[2]}.{'Store' if part is store else part.__name__}"
    return ""


def homes(verb: str) -> dict[str, str]:
    """Where each store implements a verb, of those that do."""
    return {name: found for name, store in STORES.items() if (found := home(store, verb))}


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.__name__)
def test_a_verb_is_in_the_module_of_the_same_name(port: type) -> None:
    """Contract: all stores implement a verb in a module, and a class, of one name."""
    found = {verb: homes(verb) for verb in verbs(port)}
    assert all(found.values())
    assert {verb: where for verb, where in found.items() if len(set(where.values())) > 1} == {}


def test_the_ports_are_those_of_a_store() -> None:
    """Guards the test above: it looks at every verb of a store, and every store has almost all of them."""
    asked = set(chain.from_iterable(map(verbs, PORTS)))
    assert {"commit", "claim", "send", "put_blob", "transact", "question", "append", "backlog"} <= asked
    assert {verb for verb in asked if len(homes(verb)) < len(STORES)} == {"damaged"}


def test_a_module_that_not_every_store_has_is_listed() -> None:
    """Contract: each module has the same name in all stores, or there is a reason why one has none; and no reason is
    left over."""
    have: dict[str, set[str]] = {}
    for store in STORES:
        for module in modules(store):
            have.setdefault(module, set()).add(store)
    expected = [
        *((module, {"postgres", "sqlite"}) for module in DATABASES),
        *((module, {"memory", "sqlite"}) for module in IN_PROCESS),
        *((module, {"memory", "postgres"}) for module in CLOCKS),
        *((module, {store}) for store, only in ONE_ONLY.items() for module in only),
    ]
    assert {module: where for module, where in have.items() if where != STORES.keys()} == dict(expected)


def test_what_is_said_of_the_schema_is_there() -> None:
    """Contract: the files of PostgreSQL's schema that are named instead of a module exist."""
    named = {word for reason in IN_PROCESS.values() for word in reason.split() if word.endswith(".sql")}
    assert {name for name in named if not (PACKAGE / "adapters/postgres/schema" / name).is_file()} == set()
