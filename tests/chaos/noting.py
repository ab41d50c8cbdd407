"""A workflow whose steps write to a table beside the journal, and its worker process, with a fuse at every boundary.

Run as a module: ``python -m tests.chaos.noting URL POINT N``. Ends itself with SIGKILL in its n-th transaction: in the
``body`` after it wrote, ``before`` the turn, ``between`` the turn and COMMIT, ``after`` COMMIT. Prints ``ready``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any, cast

import apsw
import psycopg

from holdfast import App, current, step, transaction, workflow
from holdfast.adapters.postgres import lent_transaction as on_postgres
from holdfast.adapters.sqlite import lent_transaction as on_sqlite
from holdfast.app import open_store
from holdfast.ports.journal import Commit
from holdfast.ports.transactions import OpenTransaction

OWNER = "HOLDFAST_TEST_TABLE_OF"
TABLE = f"noted_{os.environ.get(OWNER, os.getpid())}"
MAKE = f"CREATE TABLE IF NOT EXISTS {TABLE} (text text)"
INSERT = f"INSERT INTO {TABLE} VALUES ('%s')"  # noqa: S608 - a name of the test's own
SELECT = f"SELECT text FROM {TABLE} ORDER BY text"  # noqa: S608
DROP = f"DROP TABLE IF EXISTS {TABLE}"
EXPECTED = ["a", "b", "c", "plain"]


class Fuse:
    """Ends the process at one point of one transaction."""

    def __init__(self) -> None:
        self.point = ""
        self.left = 0

    def burn(self, now: str) -> None:
        if now == self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


FUSE = Fuse()


async def write() -> None:
    line = INSERT % f"{current().key} {current().attempt}"
    connection = transaction(object)
    if isinstance(connection, apsw.Connection):
        cast("Any", connection).execute(line)
    else:
        assert isinstance(connection, psycopg.AsyncConnection)
        await connection.execute(line.encode())
    FUSE.burn("body")


@step(tx=True)
async def a() -> str:
    await write()
    return "a"


@step(tx=True)
async def b() -> str:
    await write()
    return "b"


@step(tx=True)
async def c() -> str:
    await write()
    return "c"


@step
async def plain() -> str:
    return "plain"


@workflow
async def noting() -> list[str]:
    first, (second, third), last = await a(), await asyncio.gather(b(), plain()), await c()
    return [first, second, last, third]


class _Burning:
    """A transaction with the fuse before and after its commit."""

    def __init__(self, inner: OpenTransaction) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def commit(self, turn: Commit | None = None) -> Any:
        FUSE.burn("before")
        settled = await self._inner.commit(turn)
        FUSE.burn("after")
        return settled


def burning(work: Any) -> Any:
    """The same, with the fuse behind it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        answer = work(*args, **kwargs)
        FUSE.burn("between")
        return answer

    return call


async def main() -> None:
    url, FUSE.point, number = sys.argv[1:]
    FUSE.left = int(number)
    store = await open_store(url)
    begin = store.transact

    async def transact(*, is_async: bool) -> Any:
        return _Burning(await begin(is_async=is_async))

    store.transact = transact  # type: ignore[method-assign]
    for home, name in ((on_sqlite, "commit_turn"), (on_postgres, "ask_knowing")):
        vars(home)[name] = burning(vars(home)[name])
    app = App(store=store, workflows=[noting])
    async with app.worker(id="w1", poll="100ms"):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
