"""What asks a worker process to stop: signals, and the line to its supervisor."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from types import FrameType

from holdfast.cli import INTERRUPTED
from holdfast.cli.logs import LOG
from holdfast.cli.supervisor import NOW, SERVING, SIGNALS
from holdfast.core.durations import format_duration


class StopRequests:
    """Counts what asks this worker to stop: the first request is graceful, a second signal ends the process."""

    def __init__(self, formatter: logging.Formatter, ttl: timedelta) -> None:
        self._formatter = formatter
        self._ttl = ttl
        self._first: str | None = None
        self._has_signal = False
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._line: socket.socket | None = None

    def install(self) -> None:
        """Handles the signals, except those that the parent process (nohup, a shell) ignores."""
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._received)

    def follow(self, line: socket.socket) -> None:
        """Does what the supervisor asks, and stops when the supervisor is gone."""
        self._line = line
        threading.Thread(target=self._follow, args=(line,), name="holdfast-supervised", daemon=True).start()

    def serving(self) -> None:
        """Tells the supervisor that the worker serves."""
        if self._line is not None:
            with suppress(OSError):
                self._line.send(SERVING)

    async def wait(self) -> str:
        """Waits for the first request; who made it."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        self._waiter = loop, event
        if self._first is None:
            await event.wait()
        assert self._first is not None
        return self._first

    def stop(self, reason: str) -> None:
        """Asks for a graceful stop, from any thread. Asking again changes nothing."""
        self._first = self._first or reason
        if self._waiter is not None:
            loop, event = self._waiter
            with suppress(RuntimeError):  # the loop has just ended
                loop.call_soon_threadsafe(event.set)

    def _received(self, number: int, _: FrameType | None) -> None:
        received = signal.Signals(number)
        if self._has_signal:  # what the supervisor asked is no signal: it may be heard before the first one
            self._exit_now(f"{received.name} again", INTERRUPTED if received is signal.SIGINT else 1)
        self._has_signal = True
        self.stop(received.name)

    def _follow(self, line: socket.socket) -> None:
        while True:
            try:
                word = line.recv(1)
            except OSError:
                word = b""
            if word == NOW:
                self._exit_now("the supervisor", 1)
            self.stop("the supervisor" if word else "the supervisor is gone")
            if not word:
                return

    def _exit_now(self, reason: str, code: int) -> None:
        """Writes past the logging, which this handler may have interrupted, and exits."""
        lease = format_duration(self._ttl)
        text = f"{reason}: exiting now; other workers resume its runs when its lease of {lease} ends"
        record = logging.makeLogRecord(
            {"name": LOG.name, "levelno": logging.WARNING, "levelname": "WARNING", "msg": text}
        )
        record.fact = "killed"
        with suppress(OSError, ValueError):
            os.write(sys.stderr.fileno(), f"{self._formatter.format(record)}\n".encode(errors="backslashreplace"))
        os._exit(code)
