"""The watchdog: says what blocks the event loop, with the workflow or step and the line.

A blocked loop keeps its leases (the heartbeat has a thread of its own) but advances nothing. The usual cause is
blocking I/O in an async step or a long computation in a workflow body.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from types import FrameType

LOG = logging.getLogger("holdfast.worker")
PERIOD = 0.5


class Watchdog:
    """One thread that looks at the clock of the loop."""

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self._seen = time.monotonic()
        self._thread_id = threading.get_ident()
        self._stop = threading.Event()
        self._handle: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-watchdog", daemon=True)
        self.reports: list[str] = []

    def start(self) -> None:
        self._tick()
        self._thread.start()

    def stop(self) -> None:
        """Stops watching."""
        self._stop.set()
        if self._handle is not None:
            self._handle.cancel()

    def _tick(self) -> None:
        self._seen = time.monotonic()
        self._handle = asyncio.get_running_loop().call_later(min(PERIOD, self._patience / 4), self._tick)

    def _run(self) -> None:
        reported_for = 0.0
        while not self._stop.wait(min(PERIOD, self._patience / 4)):
            seen = self._seen
            silent = time.monotonic() - seen
            if silent >= self._patience and seen != reported_for:
                reported_for = seen
                where = self._where()
                self.reports.append(where)
                LOG.warning(
                    "the event loop has been blocked for %.1f s by %s: move blocking work into a sync step",
                    silent,
                    where,
                )

    def _where(self) -> str:
        frame = sys._current_frames().get(self._thread_id)  # pyright: ignore[reportPrivateUsage] no public way
        stack: list[FrameType] = []
        while frame is not None:
            stack.append(frame)
            frame = frame.f_back
        if not stack:
            return "an unknown place"
        authored: list[FrameType] = []  # what was called from the engine or from asyncio, innermost first
        for one in stack:
            if one.f_globals.get("__name__", "").startswith(_OURS):
                break
            authored.append(one)
        if not authored:
            return _named(stack[0])
        entered, inner = authored[-1], authored[0]
        return _named(entered) if entered is inner else f"{_named(entered)}, in {_named(inner)}"


def _named(frame: FrameType) -> str:
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"


_OURS = ("holdfast.", "asyncio.", "uvloop")
"""Below these an author's code is entered: a workflow's body, or a step's."""
