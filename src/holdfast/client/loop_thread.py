"""An event loop in a background thread, for blocking code."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar
from weakref import WeakSet

from holdfast.adapters.system.forked import leak
from holdfast.authoring.script.context import find_program
from holdfast.errors import NotAllowedHere

T = TypeVar("T")


class LoopThread:
    """One event loop in a background thread."""

    def __init__(self) -> None:
        self._begin()
        _threads.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def forget(self) -> None:
        """Forgets the thread in a forked child: thread and loop stayed in the parent."""
        leak(self._loop)
        self._begin()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on that loop and waits for the result."""
        if find_program() is not None:
            work.close()
            raise NotAllowedHere("the app is for use outside of runs: in a workflow use start(…), signals and children")
        return asyncio.run_coroutine_threadsafe(work, self._running()).result()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-sync", daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join()
                loop.close()


_threads: WeakSet[LoopThread] = WeakSet()


def _forget_loops() -> None:
    for thread in list(_threads):
        thread.forget()


os.register_at_fork(after_in_child=_forget_loops)
