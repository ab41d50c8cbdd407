"""A state that fails once, standing in for a crash: `run` raises, `resume` finishes.

    python -m examples.machine_recovery

The log shows what was recorded: Start, Process, Process again after the resume, Finalize, Done.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass

from examples.file_log import FileLog
from holdfast import Machine, Retry, StateFailed


@dataclass
class Start: ...


@dataclass
class Process: ...


@dataclass
class Finalize: ...


@dataclass
class Done: ...


recovery = Machine[Start, Done]("recovery")
attempts: list[str] = []


@recovery.state
async def start(s: Start) -> Process:
    return Process()


@recovery.state(retry=Retry.none)  # the first failure leaves `run`, like a real crash
async def process(s: Process) -> Finalize:
    attempts.append("process")
    if len(attempts) == 1:
        raise RuntimeError("simulated crash")
    return Finalize()


@recovery.state
async def finalize(s: Finalize) -> Done:
    return Done()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = FileLog(folder)
        try:
            await recovery.run(Start(), store=store, id="demo-run")
        except StateFailed as error:
            print(f"run failed: {error.__cause__}")
        end = await recovery.resume("demo-run", store=store, keep_log=True)
        print(f"resumed to {end}")
        for row in store.load("demo-run"):
            print(f"#{row.sequence} {row.kind} {row.state} {row.task}".rstrip())


if __name__ == "__main__":
    asyncio.run(main())
