"""Group commit: concurrent runs of one worker share a transaction and an fsync.

There is no timer. Turns that are ready in the same pass of the event loop, and those that queue while the last
transaction is under way, go together. A turn whose outcome is unknown is sent again unchanged, for as long as it
takes: the store says whether it was ours.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from holdfast.errors import StoreError
from holdfast.ports.journal import Commit, Journal, Verdict

LOG = logging.getLogger("holdfast.worker")
MOST = 500
"""Turns in one transaction."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0


class Committer:
    """The one way from a session to the journal."""

    def __init__(self, journal: Journal, is_alone: Callable[[], bool] = lambda: False) -> None:
        self._journal = journal
        self._is_alone = is_alone
        self._queue: list[tuple[Commit, Callable[[Verdict], None]]] = []
        self._task: asyncio.Task[None] | None = None

    def submit(self, commit: Commit, answer: Callable[[Verdict], None]) -> None:
        """Queues a turn; `answer` is called with its verdict, at once if no other run could share the transaction."""
        if self._task is None and self._is_alone():
            verdict = self._commit_now(commit)
            if verdict is not None:
                answer(verdict)
                return
        self._queue.append((commit, answer))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drain())

    def _commit_now(self, commit: Commit) -> Verdict | None:
        """A lone turn saves a task and a pass of the event loop. What goes wrong here is tried again in the queue."""
        try:
            return self._journal.commit_now(commit)
        except StoreError:
            return None

    async def _drain(self) -> None:
        try:
            while self._queue:
                batch = self._next_batch()
                verdicts = await self._commit([commit for commit, _ in batch])
                for (commit, answer), verdict in zip(batch, verdicts, strict=True):
                    try:
                        answer(verdict)
                    except Exception:
                        LOG.exception("run %s: its session broke on a verdict", commit.row.run)
        finally:
            self._task = None

    def _next_batch(self) -> list[tuple[Commit, Callable[[Verdict], None]]]:
        """What goes together: of each run one turn. A worker that took a run a second time, while the store did not
        answer, may have a turn of each time in the queue."""
        runs: set[str] = set()
        size = 0
        for commit, _ in self._queue[:MOST]:
            if commit.row.run in runs:
                break
            runs.add(commit.row.run)
            size += 1
        batch, self._queue = self._queue[:size], self._queue[size:]
        return batch

    async def _commit(self, commits: list[Commit]) -> list[Verdict]:
        pause = FIRST_PAUSE
        while True:
            try:
                return list(await self._journal.commit(commits))
            except StoreError as error:
                LOG.warning("commit of %d turn(s) not accepted, trying again in %.2f s: %s", len(commits), pause, error)
            except Exception:
                LOG.exception("commit of %d turn(s) broke, trying again in %.2f s", len(commits), pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def settle(self, limit: float) -> None:
        """Waits until everything submitted so far has its verdict, but not for ever: a store that accepts nothing
        must not keep a worker from stopping. What was not accepted never happened, and runs again elsewhere."""
        if self._task is None:
            return
        _, unsettled = await asyncio.wait([self._task], timeout=limit)
        for task in unsettled:
            LOG.warning("turns not accepted within %.1f s are given up; their runs go on elsewhere", limit)
            task.cancel()
            await asyncio.wait([task])
