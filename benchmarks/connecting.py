"""A process that does nothing but connect: `python -m benchmarks.connecting URL`. Says when it had an answer (W6).

What it takes from launch to there no engine on that driver can go below: the interpreter, asyncio, the driver.
"""

from __future__ import annotations

import asyncio
import sys
import time


async def ask(url: str) -> None:
    """One question to the database, by its plain driver."""
    if url.startswith("sqlite:"):
        import apsw

        apsw.Connection(url.removeprefix("sqlite:///")).execute("SELECT 1").fetchall()
    else:
        import psycopg

        with psycopg.connect(url.partition("?")[0]) as connection:
            connection.execute("SELECT 1").fetchall()
    # not by `process.say`, whose imports would be counted too
    print(f'{{"answered": {time.monotonic()}}}', flush=True)


if __name__ == "__main__":
    asyncio.run(ask(*sys.argv[1:]))
