"""The SQLite store: one file, any number of threads and processes on one host, spoken through apsw.

::

    verbs that write ──▶ Writer ── one connection, one transaction and one fsync for all that wait
    verbs that read  ──▶ Readers ── read-only connections, short snapshots, on the caller's thread
    heartbeat thread ──▶ SqliteHeart ── a connection of its own

`statements` holds all SQL, `migrations` the schema, `location` decides whether a path may be used at all. Nothing here
opens the file in any other way: closing a foreign handle would drop our locks (`audit` refuses the library
that is most likely to do it).
"""

from holdfast.adapters.sqlite.store import SqliteStore, open_sqlite

__all__ = ["SqliteStore", "open_sqlite"]
