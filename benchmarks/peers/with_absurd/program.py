"""The same smallest workflows, written for Absurd."""

from __future__ import annotations

from typing import Any

import psycopg
from absurd_sdk import AsyncAbsurd, AsyncTaskContext
from absurdctl import BUNDLED_SCHEMA_SQL

QUEUE = "bench"
COMPLETED = f"SELECT count(*) FROM absurd.t_{QUEUE} WHERE state = 'completed'"  # noqa: S608 our own name


def prepare(url: str) -> None:
    """Its schema, as its own tool installs it, and a queue."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BUNDLED_SCHEMA_SQL)
        connection.execute("SELECT absurd.create_queue(%s)", (QUEUE,))


def connected(url: str) -> AsyncAbsurd:
    """A client, or a worker, with a connection of its own that knows the tasks."""
    client = AsyncAbsurd(url, queue_name=QUEUE)

    @client.register_task("one")
    async def one(params: Any, context: AsyncTaskContext) -> Any:
        return await context.step("work", lambda: work(params["n"]))

    @client.register_task("many")
    async def many(params: Any, context: AsyncTaskContext) -> Any:
        for n in range(params["steps"]):
            await context.step("work", lambda n=n: work(n))  # type: ignore[misc]
        return params["steps"]

    return client


async def work(n: int) -> dict[str, int]:
    """The step."""
    return {"n": n}
