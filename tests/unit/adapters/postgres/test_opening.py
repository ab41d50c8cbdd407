"""Opening: whose schema it is, how it is brought up to date, and who is refused."""

from __future__ import annotations

import asyncio
import re
import threading
from datetime import timedelta
from typing import LiteralString
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql as quoting

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.postgres import open_postgres
from holdfast.adapters.postgres.address import parse_address
from holdfast.adapters.postgres.connections import Dialler, TimedConnection
from holdfast.adapters.postgres.migrations import Migration, bring_up_to_date, functions, migrations
from holdfast.adapters.postgres.problems import advice
from holdfast.adapters.postgres.store import schema_of
from holdfast.errors import StoreRefused
from holdfast.ports.runs import Lacking, Made
from holdfast.testing.conformance.snapshots import long_run, snapshot_of, stand_in_for
from holdfast.testing.conformance.world import DONE, START, World
from tests.support.pooler import Pooler
from tests.support.postgres import new_schema, server_port, server_url


def admin() -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(server_url(), autocommit=True)


async def test_any_number_of_processes_may_start_at_once() -> None:
    """Contract: they meet at a lock; one makes the schema, and all find it made."""
    url = server_url(new_schema())
    stores = await asyncio.gather(*(open_postgres(url) for _ in range(4)))
    for store in stores:
        assert await store.get("nobody") is None
        await store.close()
    assert schema_of(url).pending == 0


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE {}.theirs (a int)",
        "CREATE TABLE {}.meta (key text, content text)",
        "CREATE TABLE {}.meta (name text, value bigint)",
        "CREATE TABLE {}.meta AS SELECT 'version' AS name, '2.1' AS value",
    ],
)
async def test_a_schema_of_another_program_is_refused(table: LiteralString) -> None:
    """Contract: nothing is written where something else lives, whatever it calls its tables; those who only ask are
    told so too."""
    schema = new_schema()
    with admin() as connection:
        connection.execute(quoting.SQL("CREATE SCHEMA {}").format(quoting.Identifier(schema)))
        connection.execute(quoting.SQL(table).format(quoting.Identifier(schema)))
    with pytest.raises(StoreRefused, match="another program"):
        await open_postgres(server_url(schema))
    with pytest.raises(StoreRefused, match="another program"):
        schema_of(server_url(schema))


async def test_without_automatic_migration_a_missing_schema_is_refused() -> None:
    """Contract: `auto_migrate=False` writes nothing, and says what to do."""
    url = server_url(new_schema())
    with pytest.raises(StoreRefused, match="holdfast migrate"):
        await open_postgres(url, auto_migrate=False)
    assert schema_of(url).version == 0


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_a_role_may_prefer_another_isolation(level: str) -> None:
    """Contract: whatever isolation the role has by default, any number of processes start at once, and one key makes
    one run: each statement sees what was committed while it waited for its turn."""
    chosen = quote(f"-c default_transaction_isolation={level.replace(' ', chr(92) + ' ')}")
    url = f"{server_url(new_schema())}&notices=off&options={chosen}"
    worlds = [
        World(store, VirtualClock(START)) for store in await asyncio.gather(*(open_postgres(url) for _ in range(4)))
    ]
    for number in range(15):
        creations = await asyncio.gather(
            *(world.create(world.new(f"{number}-{place}", key=f"k{number}")) for place, world in enumerate(worlds))
        )
        assert [isinstance(creation, Made) for creation in creations].count(True) == 1
        assert len({creation.run.id for creation in creations if not isinstance(creation, Lacking)}) == 1
    for world in worlds:
        await world.store.close()


async def test_behind_a_pooler_another_isolation_is_refused() -> None:
    """Contract: nothing can be set in a session that a pooler lends, so the store is not opened, and the error says
    what to do; done, it is."""
    role = new_schema()
    name = quoting.Identifier(role)
    setting = quoting.SQL("ALTER ROLE {} SET default_transaction_isolation = {}")
    with admin() as connection:
        connection.execute(quoting.SQL("CREATE ROLE {} LOGIN SUPERUSER").format(name))
        connection.execute(setting.format(name, "repeatable read"))
        with Pooler(server_port(), user=role) as pooler:
            url = server_url(new_schema(), port=pooler.port).replace("postgres@", f"{role}@")
            with pytest.raises(StoreRefused, match=rf"ALTER ROLE {role} SET default_transaction_isolation"):
                await open_postgres(url)
        connection.execute(setting.format(name, "read committed"))
    with Pooler(server_port(), user=role) as pooler:
        await (await open_postgres(server_url(new_schema(), port=pooler.port))).close()


async def test_a_role_without_rights_is_told_so() -> None:
    """Contract: a clear error, not a stack of SQL."""
    role = new_schema()
    with admin() as connection:
        connection.execute(quoting.SQL("CREATE ROLE {} LOGIN").format(quoting.Identifier(role)))
    with pytest.raises(StoreRefused, match=r"may not make the schema.*holdfast migrate"):
        await open_postgres(server_url(new_schema()).replace("postgres@", f"{role}@"))


async def test_a_role_that_may_not_use_a_schema_is_told_what_to_grant() -> None:
    """Contract: where the schema is there already, to open it once more as its owner would change nothing. What the
    error says to grant is enough for everything that clients and workers do."""
    schema, role = new_schema(), f'{new_schema()} "x"'
    await (await open_postgres(server_url(schema))).close()
    url = server_url(schema).replace("postgres@", f"{quote(role)}@")
    with admin() as connection:
        connection.execute(quoting.SQL("CREATE ROLE {} LOGIN").format(quoting.Identifier(role)))
        with pytest.raises(StoreRefused, match="may not use the schema"):
            schema_of(url)
        with pytest.raises(StoreRefused, match="may not use the schema") as refused:
            await open_postgres(url)
        told = re.findall("GRANT[^;.]*", str(refused.value))
        assert len(told) == 2
        for grant in told:
            connection.execute(grant.encode())
    world = World(await open_postgres(url, clock=(clock := VirtualClock(START))), clock)
    holder = await long_run(world)
    await world.put_snapshot(holder.no, *(await snapshot_of(world, "r", 4)))
    await world.compact(holder.no, await stand_in_for(world, "r", 4))
    await holder.commits(DONE)
    clock.advance(timedelta(days=1))
    assert (await world.store.remove(["r"], timedelta(0))).runs == 1
    await world.store.collect(timedelta(0))
    await world.store.close()


def test_code_before_a_migration_goes_on_until_its_second_half() -> None:
    """Contract: `pre` leaves what older code uses, so a rolling deploy works; `post`, which takes it away, runs with
    the next number, and from then on older code is refused before it writes."""
    address = parse_address(server_url(new_schema()))
    first = Migration(tuple(text for known in migrations() for text in known.pre))
    second = Migration(("CREATE TABLE newer (a int)",), ("DROP TABLE newer",))
    third = Migration(("CREATE TABLE newest (a int)",))
    connection = Dialler(address).dial(patience=10)
    try:
        for steps in ([first], [first, second], [first], [first, second, third]):
            bring_up_to_date(connection, address, auto_migrate=True, steps=steps)
        with pytest.raises(StoreRefused, match="upgrade this one"):
            bring_up_to_date(connection, address, auto_migrate=True, steps=[first])
        bring_up_to_date(connection, address, auto_migrate=True, steps=[first, second])
    finally:
        connection.close()


async def test_a_store_of_an_earlier_number_is_brought_up_to_date() -> None:
    """Contract: opening it takes the steps it lacks, and then it has what the newest number has."""
    known = migrations()
    unchecked = "SET LOCAL check_function_bodies = off"  # they are those of today, and replaced
    for number in range(2, len(known)):
        url = server_url(new_schema())
        earlier = (*known[: number - 1], Migration((*known[number - 1].pre, unchecked, *functions())))
        connection = Dialler(parse_address(url)).dial(patience=10)
        try:
            bring_up_to_date(connection, parse_address(url), auto_migrate=True, steps=earlier)
            assert schema_of(url).version == number
        finally:
            connection.close()
        world = World(await open_postgres(url, clock=(clock := VirtualClock(START))), clock)
        assert schema_of(url).version == len(known)
        await world.ended_run("r", unique="u")
        await world.make("r2", unique="u")
        await world.store.close()


def test_a_migration_that_breaks_leaves_nothing_behind() -> None:
    """Contract: a migration is one transaction."""
    address = parse_address(server_url(new_schema()))
    broken = Migration(("CREATE TABLE half (a int)", "SELECT 1 / 0"))
    connection = Dialler(address).dial(patience=10)
    try:
        with pytest.raises(Exception, match="division by zero"):
            bring_up_to_date(connection, address, auto_migrate=True, steps=[broken])
        bring_up_to_date(connection, address, auto_migrate=True)
    finally:
        connection.close()


async def test_an_opening_that_is_cancelled_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: a connection that arrives after its caller gave up is closed."""
    dial, close, loop = Dialler.dial, TimedConnection.close, asyncio.get_running_loop()
    begun, may_end, closed = asyncio.Event(), threading.Event(), asyncio.Event()

    def slowly(dialler: Dialler, patience: float) -> TimedConnection:
        loop.call_soon_threadsafe(begun.set)
        assert may_end.wait(60)
        return dial(dialler, patience)

    def close_and_tell(connection: TimedConnection) -> None:
        close(connection)
        loop.call_soon_threadsafe(closed.set)

    monkeypatch.setattr(Dialler, "dial", slowly)
    monkeypatch.setattr(TimedConnection, "close", close_and_tell)
    opening = asyncio.create_task(open_postgres(server_url(new_schema())))
    await begun.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    may_end.set()
    await asyncio.wait_for(closed.wait(), 60)


async def test_a_copy_in_another_cluster_counts_on() -> None:
    """Contract: after a restore into a server whose transactions have smaller numbers, seq still rises."""
    schema = new_schema()
    store = await open_postgres(server_url(schema))
    await store.close()
    with admin() as connection:
        events = quoting.Identifier(schema, "events")
        meta = quoting.Identifier(schema, "meta")
        old = 1 << 50
        connection.execute(
            quoting.SQL(
                "INSERT INTO {} (seq, run, ordinal, epoch, at, format, checksum, body) "
                "VALUES ({}, 1, 1, 0, 0, 1, '', '')"
            ).format(events, old)
        )
        connection.execute(quoting.SQL("UPDATE {} SET value = 1 WHERE name = 'cluster'").format(meta))
        store = await open_postgres(server_url(schema))
        await store.close()
        connection.execute(quoting.SQL("SET search_path = {}").format(quoting.Identifier(schema)))
        found = connection.execute("SELECT _next_seq(), _horizon()").fetchone()
    assert found is not None
    assert all(isinstance(each, int) and each > old for each in found)


async def test_two_stores_joined_in_one_transaction_count_each_for_itself() -> None:
    """Contract: one of them was copied from another cluster and counts from far beyond. A transaction that starts a run
    in both, in turns, leaves each with rows in its own order."""
    far, near = server_url(new_schema()), server_url(new_schema())
    await (await open_postgres(far)).close()
    with admin() as connection:
        meta = quoting.Identifier(parse_address(far).schema, "meta")
        connection.execute(
            quoting.SQL("UPDATE {} SET value = value + {} WHERE name = 'first_seq'").format(meta, 1 << 30)
        )
    worlds = [World(await open_postgres(f"{url}&notices=off"), VirtualClock(START)) for url in (far, near)]
    async with await psycopg.AsyncConnection.connect(server_url()) as connection:
        for name in ("a", "b"):
            for world in worlds:
                await world.store.create_within(connection, world.new(name), key_since=START)
    for world in worlds:
        for name in ("a", "b"):
            await (await world.holder(name)).commits()
        await world.verify()
        await world.store.close()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('connection to server at "127.0.0.1", port 1 failed: Connection refused', "Is the server running"),
        ("failed to resolve host 'x': [Errno -2] Name or service not known", "Is the name of the host right"),
        ("connection timeout expired", "Is the host reachable"),
        ("fe_sendauth: no password supplied", "PGPASSWORD"),
        ('FATAL: password authentication failed for user "me"', "Check the user and the password"),
        ('FATAL: no pg_hba.conf entry for host "h", user "u", database "d"', "pg_hba.conf"),
        ('FATAL: role "me" does not exist', "createuser"),
        ('FATAL: database "x" does not exist', "createdb"),
        ("FATAL: the database system is starting up", ""),
    ],
)
def test_a_connection_that_is_not_made_says_what_to_do(said: str, told: str) -> None:
    """Promise: what, where and what next; nothing is made up where nobody knows."""
    assert told in advice(said)
    assert bool(advice(said)) == bool(told)
