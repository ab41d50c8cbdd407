"""Opens a store in a process that kills itself at the n-th statement: `python -m tests.golden.opening FILE N`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import apsw

from holdfast.adapters.sqlite import open_sqlite


def main(path: str, number: int) -> None:
    """Ends well if there are fewer statements."""
    seen = 0

    def traced(_: dict[str, Any]) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    apsw.connection_hooks.append(lambda connection: connection.trace_v2(apsw.SQLITE_TRACE_STMT, traced))

    async def opened() -> None:
        await (await open_sqlite(path)).close()

    asyncio.run(opened())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
