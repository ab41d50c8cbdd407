"""The board of a store's file lists which connections wait to write, and since when. It keeps them in order.

SQLite has no queue: a free file goes to the connection that asks next. Processes that all ask often leave no processor
time for work; if they ask seldom, one that has just written takes the file again while others sleep. So a connection
that waits writes its start time and its process into a small file beside the store (`shop.db-waiting`). It asks again
soon if no other has waited longer; the more have, the longer it pauses. A connection that finds others waiting does not
ask at once.

The board is advice; the lock is SQLite's. The note of a process that has ended does not count. That of a process that
is stopped, or may have ended in another container, makes others ask less often until it is too old. Without a board
each asks as if it were first.
"""

from __future__ import annotations

import functools
import os
import random
import time
from array import array
from contextlib import suppress
from pathlib import Path

from holdfast.adapters.system.process import is_gone, is_unused

SUFFIX = "-waiting"

PATIENCE = 10.0
"""Seconds a write waits for other processes before it gives up. No note is older."""

SHORTEST = 0.0003
LONGEST = 0.1
"""Minimum and maximum of the average seconds between two requests for the lock."""

_USUAL = 0.001, 0.02
"""Minimum and maximum seconds that one write is assumed to take."""

_PLACES = 128
_WIDTH = 16
_EMPTY = bytes(_PLACES * _WIDTH)
_OLDEST = int(PATIENCE * 1e9)
_YOUNG = 100_000_000
"""Nanoseconds for which a note counts without a look whether its process is there."""

_OLD = 1_000_000_000
"""Nanoseconds after which that look reads /proc: it is slower, and detects dead processes not yet reaped."""


def pause_at(place: int, usual: float) -> float:
    """Mean seconds until a connection asks again while `place` others have waited longer and a write takes `usual`. All
    connections together ask a handful of times per write, however many they are and however long it takes."""
    return min(max(SHORTEST, usual * (place or 0.25)), LONGEST)


class Board:
    """The board as one connection sees it. Not safe for two threads at once."""

    __slots__ = ("_file", "_first", "_path", "_place", "_since", "_usual")

    def __init__(self, store: Path) -> None:
        self._path = store
        self._file: int | None = None
        self._place = -1
        self._since = 0
        self._first = 0
        self._usual = _USUAL[0]

    @property
    def store(self) -> Path:
        return self._path

    def is_empty(self) -> bool:
        """Whether no process waits."""
        notes = self._read()
        return notes == _EMPTY or not _ahead(notes, time.monotonic_ns())

    def enter(self) -> None:
        """Notes on the board that this connection waits."""
        self._since = now = time.monotonic_ns()
        notes = self._read()
        self._first = _ahead(notes, now)
        start = random.randrange(_PLACES)
        times = _times(notes)
        for place in (*range(start, _PLACES), *range(start)):
            if not now - _OLDEST < times[place] <= now:
                self._place = place
                self._write(now, _home() << 32 | os.getpid())
                return

    def pause(self) -> float:
        """Mean seconds until it should ask again."""
        return pause_at(_ahead(self._read(), self._since), self._usual)

    def leave(self) -> None:
        """Removes this connection's note."""
        passed = self._first + 1 - _ahead(self._read(), self._since)
        waited = (time.monotonic_ns() - self._since) / 1e9
        if passed > 0:
            least, most = _USUAL
            self._usual += (min(max(waited / passed, least), most) - self._usual) / 4
        if self._place >= 0:
            self._write(0, 0)
        self._place, self._since = -1, 0

    def close(self) -> None:
        """Closes the board's file; the next use opens it again."""
        file, self._file = self._file, None
        if file is not None and file >= 0:
            os.close(file)

    def _read(self) -> bytes:
        if self._file is None:
            self._file = _opened(self._path)
        if self._file >= 0:
            with suppress(OSError):
                notes = os.pread(self._file, len(_EMPTY), 0)
                if len(notes) == len(_EMPTY):
                    return notes
        return _EMPTY

    def _write(self, since: int, who: int) -> None:
        if self._file is not None and self._file >= 0:
            with suppress(OSError):
                os.pwrite(self._file, array("Q", (since, who)).tobytes(), self._place * _WIDTH)


def _opened(store: Path) -> int:
    """The board's file, made if it is missing, with the permissions of the store; -1 if that fails."""
    path = f"{store}{SUFFIX}"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if os.fstat(file).st_size < len(_EMPTY):
            os.fchmod(file, store.stat().st_mode & 0o666)
            os.pwrite(file, bytes(1), len(_EMPTY) - 1)
    except OSError:
        return -1
    return file


def _words(notes: bytes) -> array[int]:
    words = array("Q")
    words.frombytes(notes)
    return words


def _times(notes: bytes) -> array[int]:
    return _words(notes)[::2]


def _ahead(notes: bytes, since: int) -> int:
    if notes == _EMPTY:
        return 0
    words, now = _words(notes), time.monotonic_ns()
    return sum(
        now - _OLDEST < each < since and (now - each < _YOUNG or not _has_ended(who, now - each))
        for each, who in zip(words[::2], words[1::2], strict=True)
        if each
    )


def _has_ended(who: int, age: int) -> bool:
    if who >> 32 != _home():
        return False
    pid = who & 0xFFFFFFFF
    return is_unused(pid) or (age > _OLD and is_gone(pid, ""))


@functools.cache
def _home() -> int:
    """The pid namespace of this process, since a pid is unique only within one; 0 where there are none."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino & 0xFFFFFFFF  # noqa: PTH116 no need for a `Path`
    except OSError:
        return 0
