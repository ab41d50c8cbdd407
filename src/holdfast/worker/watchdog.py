"""The watchdog reports what blocks the event loop, with the workflow or step and the line.

A blocked loop keeps its leases (the heartbeat has its own thread) but advances nothing. The usual cause is blocking I/O
in an async step or a long computation in a workflow body.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from types import FrameType

from holdfast.ports.facts import LoopBlocked, ProcessStopped
from holdfast.ports.telemetry import Tell

PERIOD = 0.5


class Watchdog:
    """One thread that checks the clock of the loop."""

    def __init__(self, tell: Tell, *, patience: float) -> None:
        self._tell = tell
        self._patience = patience
        self._seen = self._looked_at = time.monotonic()
        self._used = time.process_time()
        self._resumed_at = self._reported_for = 0.0
        self._thread_id = threading.get_ident()
        self._stop = threading.Event()
        self._handle: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-watchdog", daemon=True)
        self.reports: list[str] = []

    def start(self) -> None:
        self._tick()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._handle is not None:
            self._handle.cancel()

    def _tick(self) -> None:
        self._seen = time.monotonic()
        self._handle = asyncio.get_running_loop().call_later(min(PERIOD, self._patience / 4), self._tick)

    def _run(self) -> None:
        self._looked_at, self._used = time.monotonic(), time.process_time()
        while not self._stop.wait(min(PERIOD, self._patience / 4)):
            self.look(time.monotonic(), time.process_time())

    def look(self, now: float, used: float) -> None:
        """One check. If this thread stood still too, and nothing here used a processor meanwhile, the process was
        stopped, and no code is blamed."""
        gap, busy = now - self._looked_at, used - self._used
        self._looked_at, self._used = now, used
        if gap >= self._patience and busy < gap / 2:
            self._resumed_at = now
            self._tell(ProcessStopped(gap))
        seen = self._seen
        silent = now - max(seen, self._resumed_at)
        if silent >= self._patience and seen != self._reported_for:
            self._reported_for = seen
            where = self._where()
            self.reports.append(where)
            self._tell(LoopBlocked(silent, where))

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
"""Functions below which an author's code runs: a workflow's body, or a step's."""
