"""The PostgreSQL server of the tests: one per run, shared by its workers, a schema for each test.

The first who asks starts it; whoever uses it holds a shared lock on a file, and `postgres_guard` stops it when the last
one is gone. A server that cannot be started is an error, never a skipped test.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any

import psycopg
from psycopg import sql as quoting

_GUARD = Path(__file__).with_name("postgres_guard.py")
_held: list[IO[bytes]] = []
_numbers = count(1)


def server_port() -> int:
    """The port of the server of this run, started if it is not there. It stays while this process lives."""
    global _port  # noqa: PLW0603 - one server for the process
    if _port == 0:
        _port = _shared_port()
    return _port


_port = 0


def new_schema() -> str:
    """A name that no other test of this run uses."""
    return f"test_{os.getpid()}_{next(_numbers)}"


def clean_url(options: str = "") -> str:
    """The address of an empty store: a schema of this process, emptied of what the last test left in it.

    Emptying takes a few milliseconds, making a schema some fifty. If somebody still uses it, there is another.
    """
    global _schema  # noqa: PLW0603 - one schema for the process, as long as nobody is in the way
    if not _schema or not _emptied(_schema):
        _schema = new_schema()
    return server_url(_schema) + options


_schema = ""


def _emptied(schema: str) -> bool:
    with psycopg.connect(server_url(), autocommit=True) as connection:
        tables = [name for (name,) in connection.execute(_TABLES, (schema,)).fetchall()]
        names = [quoting.SQL("DELETE FROM {}").format(quoting.Identifier(schema, name)) for name in tables]
        try:
            connection.execute("SET lock_timeout = '1s'")
            connection.execute(quoting.SQL(";").join(names) if names else "SELECT")
        except psycopg.errors.LockNotAvailable:
            return False
    return True


_TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r' AND relname <> 'meta'
"""


def waiting_for(connection: psycopg.Connection[Any]) -> int:
    """How many sessions wait for a lock of this one, or of one that does."""
    ((count,),) = connection.execute(_WAITING).fetchall()
    return int(count)


_WAITING = """
WITH RECURSIVE behind (pid) AS (
    SELECT pg_backend_pid()
    UNION SELECT a.pid FROM pg_stat_activity AS a, behind WHERE behind.pid = ANY (pg_blocking_pids(a.pid)))
SELECT count(*) - 1 FROM behind
"""


def server_url(schema: str = "", *, port: int | None = None) -> str:
    """The address of the server, or of a schema in it."""
    base = f"postgresql://postgres@127.0.0.1:{port or server_port()}/postgres"
    return f"{base}?schema={schema}" if schema else base


def _shared_port() -> int:
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}"
    place = Path(tempfile.gettempdir()) / f"holdfast-pg-{os.getuid()}-{run}"
    # One lock for all runs of this user: it stays where it is, so nobody can hold one that was just removed.
    with _alone(place.with_name(f"holdfast-pg-{os.getuid()}.lock")):
        return _join(place) or _start(place)


def _join(folder: Path) -> int | None:
    try:
        users = (folder / "users").open("rb")
        fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
        port = int((folder / "port").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None  # there is none, or it is being stopped
    _held.append(users)
    return port


def _start(folder: Path) -> int:
    deadline, looking = time.monotonic() + 60, threading.Event()
    while folder.exists():  # the one before is being stopped
        if time.monotonic() > deadline:
            raise RuntimeError(f"the PostgreSQL server in {folder} does not end")
        looking.wait(0.02)
    folder.mkdir(mode=0o700)
    (folder / "users").touch()
    with (folder / "log").open("wb") as log:
        guard = subprocess.Popen(
            [sys.executable, str(_GUARD), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert guard.stdout is not None
    assert guard.stdin is not None
    line = guard.stdout.readline()
    if not line:
        guard.wait()
        raise RuntimeError("no PostgreSQL server for the tests; see what the guard wrote to its standard error")
    users = (folder / "users").open("rb")
    fcntl.flock(users, fcntl.LOCK_SH)
    _held.append(users)
    (folder / "port").write_bytes(line)
    guard.stdin.close()
    guard.stdout.close()
    _guards.append(guard)
    return int(line)


_guards: list[subprocess.Popen[bytes]] = []  # kept, or collecting one would warn that it still runs


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
