"""How PostgreSQL finds who may begin among many runs and shares that wait."""

from __future__ import annotations

import psycopg
from psycopg import sql as quoting

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.postgres import open_postgres
from holdfast.core.gate import CATCH_UP, Gate
from holdfast.core.turn import micros
from holdfast.ports.queues import QueueChange
from holdfast.testing.conformance.transactions import begun, within
from holdfast.testing.conformance.world import START, World
from tests.support.postgres import clean_url, server_url

RUNS, SHARES, CLAIMS = 20_000, 10_000, 20
FILL = """
INSERT INTO runs (id, epoch, next_ordinal, status, workflow, version, claims, instance, available_at, ready, queue,
    priority, worker, key, input_hash, parent, parent_key, root, code, codec, created_at, updated_at, doing, gated,
    share)
SELECT 'run-' || n, 0, 2, 'pending', 'order', '', 0, '', %(at)s - n, 2, 'mail', 0, '', '', '', '', '', '', '', '', n, n,
    '', 1, 'share-' || n %% %(shares)s FROM generate_series(1, %(runs)s) AS n
"""
READ = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE schemaname = %s AND relname = ANY (%s)"


AWAY = """
INSERT INTO shares (queue, share, time, is_away)
SELECT 'mail', 'away-' || n, %s, true FROM generate_series(1, %s) AS n
"""
COUNTED = "SELECT count(*) FILTER (WHERE NOT is_away), count(*) FILTER (WHERE is_away) FROM shares"


async def test_a_claim_reads_few_rows_among_ten_thousand_shares() -> None:
    """Contract: what claims read does not grow with what waits or is away: some rows for each run that begins."""
    url, clock = clean_url("&notices=off"), VirtualClock(START)
    store = await open_postgres(url, clock=clock)
    world = World(store, clock)
    worker = await world.worker("i1", queues=("mail",), definitions=(("order", ""),))
    gate = Gate(at_once=100, share_at_once=2)
    assert await store.change_queue(QueueChange(name="mail", revision=0, body=b"", gate=gate))
    schema = store._address.schema
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(quoting.SQL("SET search_path = {}").format(quoting.Identifier(schema)))
        connection.execute(FILL, {"at": micros(clock.now()), "shares": SHARES, "runs": RUNS})
        connection.execute(AWAY, (10**9, SHARES))
        connection.execute("ANALYZE runs, shares")

        def read() -> int:
            connection.execute("SELECT pg_stat_clear_snapshot()")
            rows = connection.execute(READ, (schema, ["runs", "shares"])).fetchall()
            return sum(int(row[0]) for row in rows)

        await store.close()
        store = await open_postgres(url, clock=clock)
        world = World(store, clock)
        before = read()
        taken = [run for _ in range(CLAIMS) for run in (await world.claim(worker, limit=5)).runs]
        assert len({run.id for run in taken}) == 100
        await store.close()  # the server counts what a session read when it ends
        for _ in range(200):
            if read() - before > 100:
                break
        assert 100 < read() - before < 20_000


async def test_shares_leave_the_line_and_are_forgotten() -> None:
    """Contract: while few are in line they stay until they are met; among many, a share leaves with its last run. Each
    run that begins removes two shares at most that would come back where any new one does."""
    url, clock = clean_url("&notices=off"), VirtualClock(START)
    store = await open_postgres(url, clock=clock)
    world = World(store, clock)
    worker = await world.worker("i1", queues=("mail",), definitions=(("order", ""),))
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(quoting.SQL("SET search_path = {}").format(quoting.Identifier(store._address.schema)))

        def counted() -> tuple[int, int]:
            ((in_line, away),) = connection.execute(COUNTED).fetchall()
            return in_line, away

        await world.make("first", queue="mail", share="a")
        assert len(await world.claimed_ids(worker)) == 1
        assert counted() == (1, 0)
        for number in range(110):
            await world.make(f"r{number}", queue="mail", share=f"s{number:03}")
        assert len(await world.claimed_ids(worker, limit=5)) == 5
        assert counted() == (106, 5)
        connection.execute(AWAY, (1, 20))
        assert len(await world.claimed_ids(worker, limit=5)) == 5
        assert counted() == (101, 20)
    await store.close()


async def test_a_share_does_not_leave_the_line_past_a_run_that_is_just_coming() -> None:
    """Promise: a run whose start is not committed yet, while a claim takes the last run of its share, is let in later:
    no share is lost."""
    url, clock = clean_url("&notices=off"), VirtualClock(START)
    store = await open_postgres(url, clock=clock)
    world = World(store, clock)
    worker = await world.worker("i1", queues=("mail",), definitions=(("order", ""),))
    for number in range(120):
        await world.make(f"r{number}", queue="mail", share=f"s{number:03}")
    transaction = await begun(world)
    await within(world, transaction, "coming", queue="mail", share="s000")
    assert await world.claimed_ids(worker, limit=2) == ["r0", "r1"]
    await transaction.commit()
    taken: list[str] = []
    while len(taken) < 119:
        taken += (found := await world.claimed_ids(worker, limit=20))
        assert found
    assert "coming" in taken
    await store.close()


async def test_a_share_comes_back_to_a_long_line_where_it_was() -> None:
    """Contract: leaving the line with each run gains nothing, also where shares leave at once."""
    url, clock = clean_url("&notices=off"), VirtualClock(START)
    store = await open_postgres(url, clock=clock)
    world = World(store, clock)
    worker = await world.worker("i1", queues=("mail",), definitions=(("order", ""),))
    await world.worker("i2", queues=("mail",), definitions=(("parcel", ""),))
    for number in range(101):
        await world.make(f"p{number}", "parcel", queue="mail", share=f"p{number:03}")
    for number in range(40):
        await world.make(f"a{number:02}", queue="mail", share="a")
    await world.claim(worker, limit=20)
    taken = ""
    for number in range(CATCH_UP + 11):
        await world.make(f"b{number:02}", queue="mail", share="b")
        (run,) = await world.claimed_ids(worker, limit=1)
        taken += run[0]
    assert taken.startswith("b" * (CATCH_UP + 1)), taken
    assert taken[CATCH_UP + 1 :].count("b") == 5, taken
    await store.close()
