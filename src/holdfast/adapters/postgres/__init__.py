"""The PostgreSQL store: one schema of a database, any number of processes and machines, spoken through psycopg.

::

    commit            ──▶ lane of turns   ── one connection, one call of a server-side function for all that wait
    create · send     ──▶ lane of entries ── likewise; a lone request of either kind bypasses its lane
    claim, reads, …   ──▶ threads with a connection each, as many as `max_connections` leaves
    heartbeat thread  ──▶ PostgresHeart   ── a connection of its own
    hints             ──▶ Notices         ── LISTEN and NOTIFY on a connection of their own, never waited for

`schema/` holds the tables and functions, `statements` what is asked from here, `migrating` brings a schema up to date.
A connection needs no state between two transactions, so any of them may go through a transaction pooler; a direct one
also keeps prepared statements.
"""

from holdfast.errors import StoreRefused
from holdfast.extras import lack_of

if _lack := lack_of("postgres", "a postgresql:// address needs", psycopg="psycopg"):
    raise StoreRefused(_lack)

from holdfast.adapters.postgres.store import PostgresStore, open_postgres

__all__ = ["PostgresStore", "open_postgres"]
