"""Processes that work on one flow with parallel steps, a sub-flow and a map, and end themselves at a commit.

Run as a module it forks a process for each line of its input, a task as JSON, and answers with how that ended. Every
body writes to the ledger when it starts; `when` and `at` say at which commit the process ends itself with SIGKILL. With
`is_changed` the process is given another definition of the same name, as if the file had been edited meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from holdfast import App, Run, step
from holdfast.app import open_store
from tests.chaos.forks import serve
from tests.chaos.orders import LEDGER, note
from tests.chaos.worker_process import Fuse
from tests.support.flows import flow
from tests.support.zygote import load

ENDED, OTHERWISE = 0, 1
EXPECTED = {"left": "a", "right": "b", "packed": ["x!", "y!", "z!"], "inner": "a+b", "sum": "a+b x!"}


@step
async def say(text: str) -> str:
    note("start")
    await asyncio.sleep(0)
    return text


@step
def join(left: str, right: str, by: str = "+") -> str:
    note("start")
    return f"{left}{by}{right}"


INNER = flow(
    "inner",
    {
        "one": {"call": "say", "with": {"text": "${input.left}"}},
        "two": {"call": "join", "with": {"left": "${steps.one}", "right": "${input.right}"}},
    },
    "${steps.two}",
    brings=(say, join),
)


def outer(mark: str) -> Any:
    """The flow; `mark` is what its definition differs in."""
    steps = {
        "left": {"call": "say", "with": {"text": "${input.left}"}},
        "right": {"call": "say", "with": {"text": "${input.right}"}},
        "packed": {"each": {"in": ["x", "y", "z"], "limit": 2}, "call": "say", "with": {"text": f"${{item}}{mark}"}},
        "inner": {"call": "inner", "with": {"left": "${steps.left}", "right": "${steps.right}"}},
        "sum": {
            "call": "join",
            "with": {"left": "${steps.inner}", "right": "${steps.packed[0]}", "by": " "},
            "needs": ["right"],
        },
    }
    return flow("outer", steps, {name: f"${{steps.{name}}}" for name in steps}, brings=(INNER, say, join))


FIRST, EDITED = outer("!"), outer("?")


async def work(task: dict[str, Any]) -> int:
    """One process' share of the run."""
    store = await open_store(task["url"])
    fuse = Fuse(store, task["when"], task["at"])
    store.commit = fuse.commit  # type: ignore[method-assign]
    store.commit_now = fuse.commit_now  # type: ignore[method-assign]
    app = App(store=store, workflows=[EDITED if task["is_changed"] else FIRST])
    async with app.worker(id="w", poll="20ms"):
        run: Run[Any] = await app.get(task["run"])
        result = await run.result("60s")
    await store.close()
    return ENDED if result == EXPECTED else OTHERWISE


def child(task: dict[str, Any]) -> int:
    os.environ[LEDGER] = task["ledger"]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the fuse counts aloud
    return asyncio.run(work(task))


def main() -> None:
    """Forks for each line."""
    load()
    serve(child)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
