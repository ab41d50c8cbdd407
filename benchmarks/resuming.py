"""A process that takes back one long run: `python -m benchmarks.resuming URL ID`. Says when it got how far (W6)."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence

from benchmarks.process import Gate, peak_bytes, resident_bytes, say
from benchmarks.program import app_at
from holdfast.core.turn import Row
from holdfast.engine.engine import Engine
from holdfast.ports.runs import RunRow

_imported_at = time.monotonic()


async def resume(url: str, name: str) -> None:
    """Works until the gate is reached."""
    claimed_at: list[float] = []
    take_on = Engine.take_on

    async def noted(engine: Engine, rows: Sequence[RunRow], known: Mapping[str, Row] | None = None) -> None:
        claimed_at.append(time.monotonic())
        await take_on(engine, rows, known)

    setattr(Engine, "take_on", noted)  # noqa: B010 to know when the claim came
    before = resident_bytes()
    async with app_at(url).worker(id=name, grace=0):
        while not Gate.entered:  # noqa: ASYNC110 the step does nothing but note the time
            await asyncio.sleep(0.001)
        say(
            imported=_imported_at,
            claimed=claimed_at[0],
            body=Gate.body_entered_at,
            step=Gate.reached_at,
            peak=peak_bytes(),
            grown=peak_bytes() - before,
        )


if __name__ == "__main__":
    asyncio.run(resume(*sys.argv[1:]))
