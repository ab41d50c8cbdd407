"""Starts a run for each of many unique values, when told to: `python -m tests.integration.unique_starter URL`."""

from __future__ import annotations

import asyncio
import json
import sys

from holdfast import App
from tests.integration.test_unique_starts import is_new, resync

VALUES = 50


async def main(url: str) -> None:
    """Prints what became of each: the run, and whether this process made it."""
    async with App(url, workflows=[resync]) as app:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        answers: dict[str, tuple[str, bool]] = {}
        for count in range(VALUES):
            run = await app.start(resync("a"), unique=f"u{count}")
            answers[f"u{count}"] = run.id, is_new(run)
        sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
