"""How PostgreSQL finds who may begin among many runs and shares that wait."""

from __future__ import annotations

import psycopg
from psycopg import sql as quoting

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.postgres import open_postgres
from holdfast.core.gate import Gate
from holdfast.core.turn import micros
from holdfast.ports.queues import QueueChange
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


async def test_a_claim_reads_few_rows_among_ten_thousand_shares() -> None:
    """Contract: what claims read does not grow with what waits: some rows for each run that begins."""
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
