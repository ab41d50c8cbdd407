"""What it costs when two threads take turns, as a sync workflow and its event loop do: by locks, and by pipes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

TURNS = 10_000

Wake = Callable[[], object]
Wait = Callable[[], object]


def there_and_back(turns: int = TURNS) -> dict[str, float]:
    """Microseconds of processor time for one turn of the other thread and back."""
    locks = threading.Lock(), threading.Lock()
    for lock in locks:
        lock.acquire()
    found = {"locks": _measured(turns, *((lock.release, lock.acquire) for lock in locks))}
    pipes = os.pipe(), os.pipe()
    try:
        ends = [(lambda to=to: os.write(to, b"1"), lambda at=at: os.read(at, 1)) for at, to in pipes]
        found["pipes"] = _measured(turns, *ends)
    finally:
        for end in (*pipes[0], *pipes[1]):
            os.close(end)
    return found


def _measured(turns: int, there: tuple[Wake, Wait], back: tuple[Wake, Wait]) -> float:
    def other() -> None:
        for _ in range(turns):
            there[1]()
            back[0]()

    thread = threading.Thread(target=other)
    thread.start()
    started = time.process_time()
    for _ in range(turns):
        there[0]()
        back[1]()
    spent = time.process_time() - started
    thread.join()
    return spent / turns * 1e6
