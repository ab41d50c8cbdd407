"""A worker in a process of its own, with a fuse: it can end itself with SIGKILL before or after its n-th commit.

Run as a module: ``python -m tests.chaos.worker_process URL ID [before|after N] [--ttl SECONDS]``. Prints ``ready`` when
it serves, and one line for each commit.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence

from holdfast import App
from holdfast.app import open_store
from holdfast.ports.journal import Answer, Commit, Verdict
from holdfast.ports.store import Store
from tests.chaos import orders


class Fuse:
    """Counts commits and ends the process at one of them."""

    def __init__(self, store: Store, when: str, at: int) -> None:
        self._commit = store.commit
        self._commit_now = store.commit_now
        self._when = when
        self._left = at

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Answer]:
        self._burn("before")
        verdicts = await self._commit(batch)
        self._burn("after")
        return verdicts

    def commit_now(self, commit: Commit) -> Verdict | None:
        """A lone turn: the same fuse."""
        self._burn("before")
        verdict = self._commit_now(commit)
        if verdict is None:
            self._left += self._when == "before"  # it was none: the turn goes the other way
            return None
        self._burn("after")
        return verdict

    def _burn(self, now: str) -> None:
        if now == "after":
            sys.stdout.write("commit\n")
            sys.stdout.flush()
        if now == self._when:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("id")
    parser.add_argument("when", nargs="?", default="never")
    parser.add_argument("at", nargs="?", type=int, default=0)
    parser.add_argument("--ttl", type=float, default=15)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
    store = await open_store(given.url)
    fuse = Fuse(store, given.when, given.at)
    store.commit = fuse.commit  # type: ignore[method-assign]
    store.commit_now = fuse.commit_now  # type: ignore[method-assign]
    app = App(store=store, workflows=[orders.fulfil, orders.ship])
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    async with app.worker(id=given.id, ttl=given.ttl, poll=min(0.2, given.ttl / 3)):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stopped.wait()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
