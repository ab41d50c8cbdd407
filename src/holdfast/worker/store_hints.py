"""Hints of the store, passed from any thread to the worker's loop. A hint may be lost: polling finds everything."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from holdfast.engine.engine import Engine
from holdfast.ports.parts import STREAMS
from holdfast.ports.store import OTHERS


class Hinted(Protocol):
    """The part of the worker that hints use."""

    engine: Engine
    work_hinted: asyncio.Event
    others_wrote: Callable[[], None]


class Hints:
    """Made on the worker's loop and thread."""

    def __init__(self, worker: Hinted, loop: asyncio.AbstractEventLoop) -> None:
        self._worker = worker
        self._loop = loop
        self._thread = threading.get_ident()
        self._waiting: deque[str] = deque()
        self._is_told = False

    def hear(self, run: str) -> None:
        """From any thread: a write of this process concerns that run, or others wrote."""
        if self._loop.is_closed() or run == STREAMS:  # who reads a stream hears it too; no run is due
            return
        session = self._worker.engine.sessions.get(run)
        if session is not None and session.machine.is_ending:  # most hints: of an end that this worker wrote itself
            return
        if threading.get_ident() == self._thread:
            self._news(run)
            return
        self._waiting.append(run)
        if not self._is_told:  # one wake-up for all hints of a transaction
            self._is_told = True
            self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        self._is_told = False
        while self._waiting:
            self._news(self._waiting.popleft())

    def _news(self, run: str) -> None:
        worker = self._worker
        if run == OTHERS:
            worker.others_wrote()
            return
        session = worker.engine.sessions.get(run) or worker.engine.beginnings.unborn.get(run)
        if session is None:
            worker.work_hinted.set()
        else:
            session.news()
