"""The server's time, as leases and timers are judged by it: it goes on while a transaction is open."""

from __future__ import annotations

import psycopg
from psycopg import sql as quoting

from holdfast.adapters.postgres import open_postgres
from tests.support.postgres import new_schema, server_url


async def test_time_goes_on_inside_a_transaction() -> None:
    """Contract (R3): a statement that waited for a lock is judged by when it got it, not by when it began to wait."""
    url, schema = server_url(), new_schema()
    store = await open_postgres(f"{url}?schema={schema}&notices=off")
    try:
        async with await psycopg.AsyncConnection.connect(url) as connection, connection.transaction():
            now = quoting.SQL("SELECT {}._now(NULL)").format(quoting.Identifier(schema))
            first = await (await connection.execute(now)).fetchone()
            second = await (await connection.execute(now)).fetchone()
        assert first is not None
        assert second is not None
        assert second[0] > first[0]
    finally:
        await store.close()
