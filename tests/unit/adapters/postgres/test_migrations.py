"""A store of the first number, filled, is brought up to date: nothing that its runs had is lost."""

from __future__ import annotations

from datetime import timedelta

import psycopg
from psycopg import sql as quoting

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.postgres import open_postgres
from holdfast.adapters.postgres.address import parse_address
from holdfast.adapters.postgres.connections import Dialler
from holdfast.adapters.postgres.migrations import Migration, bring_up_to_date, functions, migrations
from holdfast.adapters.postgres.store import schema_of
from holdfast.core import events as e
from holdfast.core.payload import hash_of
from holdfast.ports.inbox import Accepted, message
from holdfast.testing.conformance.references import HIDDEN, compacted, kept
from holdfast.testing.conformance.world import START, World
from tests.support.postgres import new_schema, server_url

INNER = b"a step's own data"

# The tables and columns of the first number.
COLUMNS = """
SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position)
FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = %s AND table_name <> 'meta' AND table_type = 'BASE TABLE' AND is_generated = 'NEVER'
GROUP BY table_name ORDER BY table_name <> 'runs', table_name
"""
COPY = "INSERT INTO {old}.{table} ({columns}) OVERRIDING SYSTEM VALUE SELECT DISTINCT {columns} FROM {new}.{table}"
REFER = "INSERT INTO {old}.run_blobs (run, blob) VALUES (%s, %s)"
NUMBERED = "SELECT setval(pg_get_serial_sequence(%s, 'no'), 1000)"


async def test_a_filled_store_of_the_first_number_is_brought_up_to_date() -> None:
    """Promise: ended runs are as they were, the checksums of all rows hold, open runs continue, messages are there, and
    every blob stays that a run refers to, although rows of that number do not say so."""
    clock = VirtualClock(START)
    new, old = new_schema(), new_schema()
    world = World(await open_postgres(server_url(new), clock=clock), clock)
    await world.store.put_blob(INNER)
    await world.ended_run("ended")
    holder = await world.held_run("open", workflow="parcel")
    await holder.commits(e.StepCompleted(key="s", value=HIDDEN))
    await holder.commits()
    await holder.commits()
    signal = message("open", "m", "signal", e.SignalReceived(message="m", name="go"))
    assert isinstance(await world.store.send(signal), Accepted)
    before = [await world.store.history(name) for name in ("ended", "open")]
    await world.store.close()
    _make_first(old)
    _copy(new, old, holder.no)
    world = World(await open_postgres(server_url(old), clock=clock), clock)
    holder.world = world
    assert schema_of(server_url(old)).pending == 0
    assert [await world.store.history(name) for name in ("ended", "open")] == before
    assert [[one.id for one in found] for found in (await world.store.unread({holder.no: 0})).values()] == [["m"]]
    assert await compacted(world, holder, 2) == 1
    await holder.commits(e.StepCompleted(key="t"))
    await world.make("next")
    clock.advance(timedelta(days=40))
    assert await kept(world, hash_of(INNER)) == {hash_of(INNER)}
    await world.store.close()


def _make_first(schema: str) -> None:
    """A store of the first number, without rows. Its functions are those of today: they are replaced in any case."""
    texts = ("SET LOCAL check_function_bodies = off", *migrations()[0].pre, *functions())
    address = parse_address(server_url(schema))
    connection = Dialler(address).dial(patience=10)
    try:
        bring_up_to_date(connection, address, auto_migrate=True, steps=[Migration(texts)])
    finally:
        connection.close()


def _copy(new: str, old: str, run: int) -> None:
    """What the first number knows of a store; and that the run refers to the blob, which its row does not say."""
    with psycopg.connect(server_url(), autocommit=True) as connection:
        for table, columns in connection.execute(COLUMNS, (old,)).fetchall():
            listed = quoting.SQL(", ").join(map(quoting.Identifier, columns))
            names = {"old": quoting.Identifier(old), "new": quoting.Identifier(new), "table": quoting.Identifier(table)}
            connection.execute(quoting.SQL(COPY).format(columns=listed, **names))
        connection.execute(NUMBERED, (f'"{old}".runs',))
        refer = quoting.SQL(REFER).format(old=quoting.Identifier(old))
        connection.execute(refer, (run, bytes.fromhex(hash_of(INNER))))
