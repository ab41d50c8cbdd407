"""LISTEN and NOTIFY: hints between processes, on their own connection and thread. No write waits for them.

A write leaves its hints here after it is durable. All hints of a few milliseconds become one NOTIFY, sent separately
from the write, because a NOTIFY inside a writing transaction makes all commits of the server wait for each other. It
contains only its sender. If the connection is lost, or a pooler swallows it, the polls of the workers find everything.
"""

from __future__ import annotations

import os
import random
import selectors
import threading
import time
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from secrets import token_hex

import psycopg
from psycopg import sql as quoting

from holdfast.adapters.postgres.address import Address
from holdfast.adapters.postgres.connections import Dialler, TimedConnection
from holdfast.errors import StoreError
from holdfast.ports.facts import NoticesLost, StoreTrouble
from holdfast.ports.parts import STREAMS
from holdfast.ports.store import OTHERS
from holdfast.ports.telemetry import Tell

GATHER = 0.005
"""Minimum seconds between two notices of a process."""

GATHER_PARTS = 0.05
"""Minimum seconds between two notices that parts were appended to streams."""

_PARTS = ":parts"

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
LONGEST_END = 5.0
"""Seconds that closing waits for the last notices to be sent."""

_NOTIFY = b"SELECT pg_notify(%s, %s)"


class Notices:
    """Sends and hears notices. Starts with its first use; closing sends what is left. `tell` is called when others
    wrote (`OTHERS`) or appended parts to streams (`STREAMS`), which concerns no waiting run."""

    def __init__(self, address: Address, dialler: Dialler, tell: Callable[[str], None], report: Tell) -> None:
        self._dialler = dialler
        self._report = report
        self._tell = tell
        self._is_on = address.has_notices
        self._channel = f"holdfast_{sha256(address.schema.encode()).hexdigest()[:24]}"
        self._own = token_hex(8)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake: tuple[int, int] = (-1, -1)
        self._has_news = self._has_parts = False
        self._is_closing = threading.Event()
        self.changes: int = 0
        self.is_listening: bool = False

    def start(self) -> None:
        """Begins to listen, once."""
        if not self._is_on or self._thread is not None:
            return
        with self._lock:
            if self._thread is None and not self._is_closing.is_set():
                self._wake = os.pipe()
                self._thread = threading.Thread(target=self._serve, name="holdfast-notices", daemon=True)
                self._thread.start()

    def send(self) -> None:
        """Tells other processes to look. From any thread; returns at once."""
        self.start()
        with self._lock:
            if self._thread is not None and not self._has_news and not self._is_closing.is_set():
                self._has_news = True
                os.write(self._wake[1], b"n")

    def send_parts(self) -> None:
        """Tells other readers of streams to look. From any thread; returns at once."""
        self.start()
        with self._lock:
            if self._thread is not None and not self._has_parts and not self._is_closing.is_set():
                self._has_parts = True
                os.write(self._wake[1], b"p")

    def close(self) -> None:
        """Sends what is left and ends. Blocks briefly; a thread that is still connecting ends later by itself."""
        with self._lock:
            thread = self._thread
            was_closing = self._is_closing.is_set()
            self._is_closing.set()
            if thread is None or was_closing:
                return
            os.write(self._wake[1], b"e")
        thread.join(timeout=LONGEST_END)

    def _serve(self) -> None:
        """Runs until it is closed. An unexpected error is handled like a lost connection."""
        pause = FIRST_PAUSE
        while True:
            try:
                with closing(self._dialler.dial(patience=5.0)) as connection:
                    self._hear(connection)
            except StoreError as error:
                self._report(NoticesLost(error))
            except (psycopg.Error, OSError) as error:
                self._report(NoticesLost(error))
                pause = FIRST_PAUSE if self.is_listening else pause
            except Exception as error:  # noqa: BLE001 - nothing would restart it
                self._report(StoreTrouble("notices failed; workers only poll for now", error, is_known=False))
            self.is_listening = False
            if self._is_closing.wait(pause * random.uniform(0.5, 1)):
                break
            pause = min(pause * 2, LONGEST_PAUSE)
        with self._lock:  # the closing thread has written by then, and nothing writes after that
            for end in self._wake:
                os.close(end)

    def _hear(self, connection: TimedConnection) -> None:
        connection.patience = 5.0
        connection.add_notify_handler(lambda notice: self._heard(notice.payload))
        connection.execute(quoting.SQL("LISTEN {}").format(quoting.Identifier(self._channel)))
        self.is_listening = True
        self._others_wrote()  # whatever was sent meanwhile was missed
        with selectors.DefaultSelector() as both:
            for end in (connection.fileno(), self._wake[0]):
                both.register(end, selectors.EVENT_READ)
            self._pass_on(connection, both)

    def _pass_on(self, connection: TimedConnection, both: selectors.BaseSelector) -> None:
        sent_at = parts_at = 0.0
        while True:
            due = parts_at + GATHER_PARTS - time.monotonic() if self._has_parts else None
            readable = {key.fd for key, _ in both.select(due)}
            if self._wake[0] in readable:
                if not self._is_closing.is_set():
                    time.sleep(max(0.0, sent_at + GATHER - time.monotonic()))
                with self._lock:
                    os.read(self._wake[0], 64)
                    has_news, self._has_news = self._has_news, False
                if has_news:
                    connection.execute(_NOTIFY, (self._channel, self._own))
                    sent_at = time.monotonic()
            is_last = self._is_closing.is_set()
            if self._has_parts and (is_last or time.monotonic() >= parts_at + GATHER_PARTS):
                self._has_parts = False
                connection.execute(_NOTIFY, (self._channel, self._own + _PARTS))
                parts_at = time.monotonic()
            if is_last and self._wake[0] in readable:
                return
            if connection.fileno() in readable:
                connection.pgconn.consume_input()
                while (notice := connection.pgconn.notifies()) is not None:
                    self._heard(notice.extra.decode())

    def _heard(self, sender: str) -> None:
        if sender.removesuffix(_PARTS) == self._own:
            return
        if sender.endswith(_PARTS):
            self._tell(STREAMS)
        else:
            self._others_wrote()

    def _others_wrote(self) -> None:
        self.changes += 1
        self._tell(OTHERS)
