"""Group commit: concurrent runs of one worker share a transaction and an fsync.

There is no timer. Turns that are ready in the same pass of the event loop, and those that queue while the last
transaction is under way, go together. A turn whose outcome is unknown is sent again unchanged, for as long as it
takes: the store says whether it was ours.

While the store is away all wait for it, in their order. If it answers but refuses a turn, because of a lock on its run
or of the turn's contents, that turn is retried separately, so that one run never stops the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from holdfast.errors import StoreError
from holdfast.ports.facts import Trouble, TurnsCommitted, TurnsGivenUp
from holdfast.ports.journal import Answer, Commit, Journal, Refused, Verdict, is_away
from holdfast.ports.telemetry import Telemetry

MOST = 500
"""Maximum turns in one transaction."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

Turn: TypeAlias = tuple[Commit, Callable[[Verdict], None]]


class Committer:
    """The one way from a session to the journal."""

    def __init__(self, journal: Journal, telemetry: Telemetry, is_alone: Callable[[], bool] = lambda: False) -> None:
        self._journal = journal
        self._telemetry = telemetry
        self._is_alone = is_alone
        self._queue: list[Turn] = []
        self._task: asyncio.Task[None] | None = None
        self._aside: set[asyncio.Task[None]] = set()

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
        """Commits a lone turn at once, which saves a task and a pass of the event loop. Errors are retried in the
        queue."""
        began = time.perf_counter() if TurnsCommitted in self._telemetry.wanted else 0.0
        try:
            verdict = self._journal.commit_now(commit)
        except StoreError:
            return None
        if began and verdict is not None:
            self._tell_size((commit,), began)
        return verdict

    async def _drain(self) -> None:
        try:
            while self._queue:
                for turn in await self._send(self._next_batch()):
                    self._put_aside(turn)
        finally:
            self._task = None

    def _next_batch(self) -> list[Turn]:
        """The next turns to commit together: one per run. A worker that claimed a run twice while the store did not
        answer may have two turns of it in the queue."""
        runs: set[str] = set()
        size = 0
        for commit, _ in self._queue[:MOST]:
            if commit.row.run in runs:
                break
            runs.add(commit.row.run)
            size += 1
        batch, self._queue = self._queue[:size], self._queue[size:]
        return batch

    def _put_aside(self, turn: Turn) -> None:
        again = asyncio.get_running_loop().create_task(self._send_until_taken(turn))
        self._aside.add(again)
        again.add_done_callback(self._aside.discard)

    async def _send_until_taken(self, turn: Turn) -> None:
        pause = FIRST_PAUSE
        refused: Sequence[Turn] = (turn,)
        while refused:
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            refused = await self._send(refused)

    async def _send(self, batch: Sequence[Turn]) -> Sequence[Turn]:
        """Commits turns and reports each verdict. Returns those that the store did not accept although it answers."""
        refused: list[Turn] = []
        answers = await self._answers([commit for commit, _ in batch])
        for turn, verdict in zip(batch, answers, strict=True):
            if isinstance(verdict, Refused):
                self._report(turn[0], verdict.error)
                refused.append(turn)
            else:
                self._tell(turn, verdict)
        return refused

    async def _answers(self, commits: Sequence[Commit]) -> Sequence[Answer]:
        """The store's answers, once it is reachable."""
        pause = FIRST_PAUSE
        while True:
            began = time.perf_counter() if TurnsCommitted in self._telemetry.wanted else 0.0
            try:
                answers = await self._journal.commit(commits)
            except Exception as error:  # noqa: BLE001 - a bug of an adapter must stop no other run
                if not is_away(error):
                    return [Refused(error)] * len(commits)
                which = f"run {commits[0].row.run}: its turn" if len(commits) == 1 else f"{len(commits)} turns"
                self._telemetry.tell(Trouble(f"{which} not accepted, trying again in {pause:.2f} s", error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                if began:
                    self._tell_size(commits, began)
                return answers

    def _tell_size(self, commits: Sequence[Commit], began: float) -> None:
        size = sum(len(commit.row.body) for commit in commits)
        self._telemetry.tell(TurnsCommitted(len(commits), size, time.perf_counter() - began))

    async def settle(self, limit: float) -> None:
        """Waits until everything submitted so far has its verdict, but not forever: a store that accepts nothing must
        not keep a worker from stopping. Turns that were not accepted run again elsewhere."""
        deadline = asyncio.get_running_loop().time() + limit
        while under_way := [task for task in (self._task, *self._aside) if task is not None]:
            left = deadline - asyncio.get_running_loop().time()
            done, unsettled = await asyncio.wait(under_way, timeout=max(0.0, left))
            if done or not unsettled:
                continue
            self._telemetry.tell(TurnsGivenUp(limit))
            for task in unsettled:
                task.cancel()
            await asyncio.wait(unsettled)
            return

    def _tell(self, turn: Turn, verdict: Verdict) -> None:
        commit, answer = turn
        try:
            answer(verdict)
        except Exception as error:  # noqa: BLE001 the others hear their verdicts
            run = commit.row.run
            self._telemetry.tell(Trouble("its session broke on a verdict", error, run=run, is_known=False, is_bug=True))

    def _report(self, commit: Commit, error: Exception) -> None:
        what, is_known = "its turn not accepted, tried apart from others", isinstance(error, StoreError)
        self._telemetry.tell(Trouble(what, error, run=commit.row.run, is_known=is_known))
