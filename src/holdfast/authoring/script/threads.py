"""The threads that sync bodies run in, one body after the other.

Starting a thread costs more than a step. So one that has finished a body rests, and takes the next; one that nobody
wanted for `REST` seconds ends, and a process without sync workflows has none. A thread belongs to one body from its
first line to its last.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

REST = 5.0
"""Seconds a thread waits for another body before it ends."""

RESTING = "holdfast-resting"

_resting: list[BodyThread] = []


def run_in_thread(body: Callable[[], Callable[[], None]], name: str) -> None:
    """Runs the body in a thread of that name. What it returns is called when the thread is free again."""
    try:
        thread, is_new = _resting.pop(), False  # the one that rested least: the others come to their end
    except IndexError:
        thread, is_new = BodyThread(), True
    thread.take(body, name)
    if is_new:
        thread.start()


class BodyThread(threading.Thread):
    """Runs bodies until none has come for a while."""

    name: str

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._body: Callable[[], Callable[[], None]] | None = None
        self._has_body = threading.Lock()
        self._has_body.acquire()

    def take(self, body: Callable[[], Callable[[], None]], name: str) -> None:
        """Gives it the next body."""
        self.name = name
        self._body = body
        self._has_body.release()

    def run(self) -> None:
        """See the class."""
        while self._is_wanted():
            body, self._body = self._body, None
            assert body is not None
            tell_end = body()
            del body
            self.name = RESTING
            _resting.append(self)  # before anybody hears of the end: whoever does may have the next body
            tell_end()

    def _is_wanted(self) -> bool:
        if self._has_body.acquire(timeout=REST):
            return True
        try:
            _resting.remove(self)
        except ValueError:  # taken in this very moment
            return self._has_body.acquire()
        return False


os.register_at_fork(after_in_child=_resting.clear)  # threads are not inherited
