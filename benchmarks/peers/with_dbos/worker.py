"""A process that runs DBOS: `python -m benchmarks.peers.with_dbos.worker URL MODE COUNT…`.

`start`: starts that many runs and says when all wait at their gate. `recover`: launches on what a killed process
left, and says when the bodies of that many runs have ended. `resume`: the same, until the gate of one long run is
reached. `serve`: works on its queue, which it polls that many times a second. Each ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
import time

from dbos import DBOS

from benchmarks.peers.with_dbos.program import QUEUE, blocked, launch
from benchmarks.process import Gate, peak_bytes, say

_imported_at = time.monotonic()


async def start(url: str, runs: int, steps: int, gate: int) -> None:
    """Runs that stand at their gate when it says so."""
    launch(url)
    await asyncio.gather(*(DBOS.start_workflow_async(blocked, steps, gate) for _ in range(runs)))
    while Gate.entered < runs:  # noqa: ASYNC110 the step does nothing but count
        await asyncio.sleep(0.01)
    say(blocked=Gate.entered)


async def recover(url: str, runs: int) -> None:
    """Until the bodies of all that was pending have ended. That the database knows it is for others to see."""
    launching_at = time.monotonic()
    launch(url)
    while Gate.ended < runs:  # noqa: ASYNC110 as above
        await asyncio.sleep(0.01)
    say(launching=launching_at)


async def resume(url: str) -> None:
    """Until the one step that is left begins."""
    launch(url)
    while not Gate.entered:  # noqa: ASYNC110 the step does nothing but note the time
        await asyncio.sleep(0.001)
    say(imported=_imported_at, body=Gate.body_entered_at, step=Gate.reached_at, peak=peak_bytes())


async def serve(url: str, polls: int) -> None:
    """Works on the queue."""
    launch(url)
    await DBOS.register_queue_async(QUEUE, polling_interval_sec=1 / polls)
    say(ready=True)


async def main(url: str, mode: str, numbers: list[int]) -> None:
    """One of them, then until no reader is left."""
    modes = {"start": start, "recover": recover, "resume": resume, "serve": serve}
    await modes[mode](url, *numbers)  # type: ignore[operator]
    await asyncio.to_thread(sys.stdin.read)
    DBOS.destroy(workflow_completion_timeout_sec=0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], [int(word) for word in sys.argv[3:]]))
