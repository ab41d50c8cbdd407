"""The one writer of this process: waiting callers share a transaction, and with it an fsync.

::

    await run(operation) ──▶ the loop's outbox ── one alone, writer idle ──▶ inline, on the caller's thread
                                    └──────────── else ──▶ queue ──▶ writer thread: one transaction for all

An outbox is emptied one pass of its event loop later, so concurrent requests share a transaction, and a lone one saves
the hops to the thread and back (0.1 ms). While requests keep coming one by one they do not even wait for that pass. The
inline path tries once and never waits: if another process writes, the request goes to the thread, which may wait. The
holder of `_lock` owns the connection. Answers are given only after COMMIT. There is no timer: while one transaction is
synced, requests for the next one collect. A transaction that is lent waits in the same queue, and then the others wait
for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw

from holdfast.adapters.sqlite.attempt import Hints, Work, perform, perform_now
from holdfast.adapters.sqlite.lent_transaction import LentTransaction
from holdfast.adapters.sqlite.link import CHECKPOINT_PAGES, Link
from holdfast.adapters.sqlite.outbox import Batch, Outbox, Request
from holdfast.adapters.sqlite.transaction import Operation
from holdfast.errors import StoreUnavailable
from holdfast.ports.clock import Clock

T = TypeVar("T")

_ENOUGH = 500
"""Maximum number of requests in one transaction."""


class _OfThread(threading.local):
    outbox: Outbox | None = None


class Writer:
    """Runs operations in write transactions. Usable from any number of threads and event loops."""

    def __init__(self, link: Link, clock: Clock, on_commit: Callable[[Hints], None]) -> None:
        self._link = link
        self._clock = clock
        self._on_commit = on_commit
        self._lock = threading.Lock()  # owns the link
        self._gate = threading.Lock()  # nothing enters the queue after its end
        # None: look up (a checkpoint is due, or the end)
        self._queue: SimpleQueue[list[Request] | LentTransaction | None] = SimpleQueue()
        self.lent: LentTransaction | None = None
        self._is_closed = False
        self._of_thread = _OfThread()
        self._thread = threading.Thread(target=self._serve, name="holdfast-writer", daemon=True)
        self._thread.start()

    async def run(self, operation: Operation[T], *, is_large: bool = False) -> T:
        """Returns the operation's result once it is durable. A large one never runs on the caller's thread."""
        outbox = self._outbox()
        work = Work(operation, is_large=is_large)
        if not is_large and outbox.was_calm() and self._run_inline(work):
            result: T = work.outcome()
            return result
        found: T = await self._gathered_in(outbox, work)
        return found

    async def run_all(self, operations: Sequence[Operation[T]]) -> list[T | Exception]:
        """Returns the result or error of each operation once it is durable. They share a transaction; if one makes it
        fail, each gets its own. Never on the caller's thread."""
        found: list[T | Exception] = await self._gathered_in(self._outbox(), Batch.of(operations))
        return found

    def _outbox(self) -> Outbox:
        if self._is_closed:
            raise _closed()
        loop = asyncio.get_running_loop()
        outbox = self._of_thread.outbox
        if outbox is None or outbox.loop is not loop:
            outbox = self._of_thread.outbox = Outbox(loop)
        return outbox

    def _gathered_in(self, outbox: Outbox, work: Work) -> asyncio.Future[Any]:
        request = Request(outbox.loop.create_future(), work)
        outbox.requests.append(request)
        if len(outbox.requests) == 1:
            outbox.loop.call_soon(self._send, outbox)
        return request.future

    def run_now(self, operation: Operation[T]) -> T | None:
        """Returns the operation's durable result if it could run on this thread at once; otherwise None, and it did not
        run."""
        if self._is_closed:
            raise _closed()
        work = Work(operation)
        result: T | None = work.outcome() if self._run_inline(work) else None
        return result

    async def lend(self, connect: Callable[[], apsw.Connection]) -> LentTransaction:
        """A write transaction on a separate connection, once it has begun. Other writers wait until it ends."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        loan = LentTransaction(connect, self._clock, self._on_commit, granted)
        with self._gate:
            if self._is_closed:
                raise _closed()
            self._queue.put(loan)
        await granted
        return loan

    def changes(self) -> int:
        """Grows when another connection has written; while the connection is busy, the last value seen."""
        if not self._lock.acquire(blocking=False):
            return self._link.changes_seen
        try:
            return self._link.changes()
        finally:
            self._lock.release()

    def flush(self) -> None:
        """Sends what this thread's event loop has collected."""
        outbox = self._of_thread.outbox
        if outbox is not None:
            self._hand_over(outbox.emptied())

    def close(self) -> None:
        """Finishes all accepted work, then closes the connection. Blocks."""
        with self._gate:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        if (lent := self.lent) is not None:
            lent.give_up()
        self._queue.put(None)
        self._thread.join()
        with self._lock:
            self._link.drop()

    # -- on the caller's thread ----------------------------------------------------------------------------------------

    def _send(self, outbox: Outbox) -> None:
        requests = outbox.emptied()
        if len(requests) == 1 and not requests[0].work.is_large and self._run_inline(requests[0].work):
            requests[0].answer()
        else:
            self._hand_over(requests)

    def _hand_over(self, requests: list[Request]) -> None:
        with self._gate:
            if not self._is_closed:
                for start in range(0, len(requests), _ENOUGH):
                    self._queue.put(requests[start : start + _ENOUGH])  # together, whenever the thread looks
                return
        for request in requests:
            request.work.error = _closed()
            request.answer()

    def _run_inline(self, work: Work) -> bool:
        if not self._queue.empty() or not self._lock.acquire(blocking=False):
            return False
        try:
            may_ask = not self._is_closed and self._link.board.is_empty()
            hints = perform_now(work, self._link, self._clock) if may_ask else None
            is_log_long = self._link.wal_pages >= CHECKPOINT_PAGES
        finally:
            self._lock.release()
        if hints is None:
            return False
        if hints:
            self._on_commit(hints)
        if is_log_long:
            self._queue.put(None)
        return True

    # -- on the writer's thread ----------------------------------------------------------------------------------------

    def _serve(self) -> None:
        is_last = False
        while not is_last:
            requests, loan, is_last = self._gathered()
            if requests:
                self._write(requests)
            del requests  # while it waits for more, it keeps nothing of what was written
            if loan is not None:
                self._serve_loan(loan)
            if self._link.wal_pages >= CHECKPOINT_PAGES:
                with self._lock:
                    self._link.checkpoint()

    def _write(self, requests: list[Request]) -> None:
        with self._lock:
            pieces = [piece for request in requests for piece in request.work.pieces]
            hints = perform(pieces, self._link, self._clock)
        self._on_commit(hints)
        _answer(requests)

    def _serve_loan(self, loan: LentTransaction) -> None:
        with self._lock:
            self.lent = loan
            try:
                if self._is_closed:
                    loan.give_up()
                loan.serve(self._link.board)
            finally:
                self.lent = None

    def _gathered(self) -> tuple[list[Request], LentTransaction | None, bool]:
        """Waits for work. Returns the work up to the first loan, that loan, and whether it is the last."""
        requests: list[Request] = []
        found = self._queue.get()
        with suppress(Empty):
            while found is not None:
                if isinstance(found, LentTransaction):
                    return requests, found, self._is_closed and self._queue.empty()
                requests += found
                if len(requests) >= _ENOUGH:
                    return requests, None, False
                found = self._queue.get_nowait()
            return requests, None, self._is_closed and self._queue.empty()
        return requests, None, False


def _answer(requests: list[Request]) -> None:
    """Answers all waiting callers, with one wake-up per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Request]] = {}
    for request in requests:
        by_loop.setdefault(request.future.get_loop(), []).append(request)
    for loop, answered in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed meanwhile: no waiter is left
            loop.call_soon_threadsafe(_answer_all, answered)


def _answer_all(requests: list[Request]) -> None:
    for request in requests:
        request.answer()


def _closed() -> StoreUnavailable:
    return StoreUnavailable("this store was closed. Open it again to continue.")
