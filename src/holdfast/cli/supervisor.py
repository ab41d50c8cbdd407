"""`holdfast worker --processes N`: one process that keeps N worker processes running.

The supervisor imports no app and opens no store. It forks, so a worker process costs no start-up of the interpreter,
and it restarts those that end. The first process starts alone: a mistake in the app is said once, and a new store is
made once. If it ends with an error before it serves, the supervisor gives up; later ends are restarted.

Each process has a *line*, a socket pair. Down the line goes what it is asked to do, up the line that it serves. Nothing
is asked by signal: a service manager may signal every process of the group itself, and a worker takes a second signal
for impatience. If the line breaks, the supervisor is gone, and the worker stops gracefully.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from datetime import timedelta
from types import FrameType

import msgspec

from holdfast.cli import INTERRUPTED
from holdfast.cli.logs import LOG
from holdfast.core.durations import format_duration
from holdfast.core.plurals import counted

STOP, NOW, SERVING = b"s", b"n", b"r"
"""The words on a line: stop gracefully, exit now; and the answer that the worker serves."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a process that ended is started again: doubled each time in a row."""

STEADY = 60.0
"""Seconds after which a process counts as healthy: its next end counts as its first failure."""

IMPATIENCE = 5.0
"""Seconds between the second signal and the moment when the remaining processes are killed."""

SIGNALS = [signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


def pause_before(ends: int) -> float:
    """Seconds before a process starts again that ended this many times in a row."""
    return min(FIRST_PAUSE * 2.0 ** min(ends - 1, 10), LONGEST_PAUSE)


class Member(msgspec.Struct):
    """One of the N places: the process that fills it now, or when the next one starts."""

    number: int
    pid: int = 0
    line: socket.socket | None = None
    began_at: float = 0.0
    has_served: bool = False
    ends: int = 0
    due_at: float = 0.0


class Joined(msgspec.Struct, frozen=True):
    """What a forked worker process knows: its number, and its line to the supervisor."""

    number: int
    line: socket.socket


class Supervisor:
    """See the module."""

    def __init__(self, count: int) -> None:
        self._members = [Member(number) for number in range(1, count + 1)]
        self._received: list[signal.Signals] = []
        self._handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        self._is_proven = False  # one process has served
        self._is_asked = False  # the processes have been asked to stop
        self._code = 0
        self._kill_at: float | None = None
        self._wakeup, self._woken = socket.socketpair()

    def run(self) -> int | Joined:
        """Keeps the processes running until a signal. Returns the exit code; and, in each worker process, what it
        needs to know."""
        self._listen()
        LOG.info("supervising %s", counted(len(self._members), "worker"), extra=_told())
        while True:
            joined = self._start_due()
            if joined is not None:
                return joined
            self._obey()
            if self._is_stopping and not self._running():
                return self._code
            self._wait()
            self._reap()

    @property
    def _is_stopping(self) -> bool:
        return bool(self._received) or self._code != 0

    def _running(self) -> list[Member]:
        return [member for member in self._members if member.pid]

    # -- starting ------------------------------------------------------------------------------------------------------

    def _start_due(self) -> Joined | None:
        """Starts what is due; not None in the new process."""
        for member in self._to_start():
            if member.due_at <= time.monotonic():
                joined = self._forked(member)
                if joined is not None:
                    return joined
        return None

    def _to_start(self) -> list[Member]:
        wanted = self._members if self._is_proven else self._members[:1]
        return [] if self._is_stopping else [member for member in wanted if not member.pid]

    def _forked(self, member: Member) -> Joined | None:
        ours, theirs = socket.socketpair()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, self._handled)
        try:
            pid = os.fork()
            if pid == 0:
                self._leave(ours)
                return Joined(member.number, theirs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()
        member.pid, member.line, member.began_at, member.has_served = pid, ours, time.monotonic(), False
        LOG.info("worker process %d started", member.number, extra=_told(member))
        return None

    def _leave(self, ours: socket.socket) -> None:
        """In the new process: gives back everything that is the supervisor's. The process gets a group of its own:
        Ctrl-C in a terminal reaches the supervisor alone."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in self._handled:
            signal.signal(number, signal.SIG_DFL)
        os.setpgrp()
        for held in (ours, self._wakeup, self._woken, *(member.line for member in self._members)):
            if held is not None:
                held.close()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

    # -- watching ------------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        self._wakeup.setblocking(False)
        self._woken.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _woken_up)
        for number in self._handled:
            signal.signal(number, self._note)

    def _note(self, number: int, _: FrameType | None) -> None:
        self._received.append(signal.Signals(number))

    def _wait(self) -> None:
        """Until a signal, the end of a process, a word on a line, or the next start."""
        due = [member.due_at for member in self._to_start()]
        if self._kill_at is not None:
            due.append(self._kill_at)
        lines = {member.line: member for member in self._members if member.line is not None}
        left = max(0.0, min(due) - time.monotonic()) if due else None
        ready, _, _ = select.select([self._woken, *lines], [], [], left)
        for source in ready:
            if source is self._woken:
                with suppress(BlockingIOError):
                    self._woken.recv(4096)
            elif _heard(source) == SERVING:
                lines[source].has_served = self._is_proven = True
            else:  # the line is cut: the process has ended, or is about to
                source.close()
                lines[source].line = None

    def _reap(self) -> None:
        """Takes note of every process that has ended. As the first process of a container it reaps orphans too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            member = next((member for member in self._members if member.pid == pid), None)
            if member is not None:
                self._ended(member, os.waitstatus_to_exitcode(status))

    def _ended(self, member: Member, code: int) -> None:
        told = _told(member, exit_code=code)
        now = time.monotonic()
        has_served = member.has_served or (member.line is not None and _heard(member.line) == SERVING)
        if member.line is not None:
            member.line.close()
        member.pid, member.line = 0, None
        if self._received:
            LOG.info("worker process %d stopped%s", member.number, _how(code) if code else "", extra=told)
            self._code = self._code or (0 if code == 0 else 1)
            return
        if not has_served and not self._is_proven and code > 0:
            self._code = code
            return
        self._is_proven = self._is_proven or has_served
        member.ends = 1 if now - member.began_at >= STEADY else member.ends + 1
        pause = pause_before(member.ends)
        member.due_at = now + pause
        again = f"starting it again in {format_duration(timedelta(seconds=pause))}"
        LOG.warning("worker process %d ended%s; %s", member.number, _how(code), again, extra=told)

    # -- stopping ------------------------------------------------------------------------------------------------------

    def _obey(self) -> None:
        """Passes the first signal on as a request to stop, and the second as one to exit now."""
        if not self._received:
            return
        running = self._running()
        if self._received[1:]:
            self._code = INTERRUPTED if self._received[1] is signal.SIGINT else 1
            if self._kill_at is None:
                self._kill_at = time.monotonic() + IMPATIENCE
                LOG.warning("%s again: exiting now", self._received[1].name, extra=_told())
                _say(running, NOW)
            elif time.monotonic() >= self._kill_at:
                for member in running:
                    os.kill(member.pid, signal.SIGKILL)
        elif not self._is_asked:
            self._is_asked = True
            LOG.info(
                "stopping %s (%s); a second signal exits at once",
                counted(len(running), "worker"),
                self._received[0].name,
                extra=_told(),
            )
            _say(running, STOP)


def _say(members: list[Member], word: bytes) -> None:
    for member in members:
        if member.line is not None:
            with suppress(OSError):
                member.line.send(word)


def _heard(line: socket.socket) -> bytes:
    """The word that waits on a line; empty if there is none or the line is cut."""
    try:
        return line.recv(1, socket.MSG_DONTWAIT)
    except OSError:
        return b""


def _how(code: int) -> str:
    return f" by {signal.Signals(-code).name}" if code < 0 else f" with exit code {code}"


def _told(member: Member | None = None, **fields: int) -> dict[str, object]:
    named = {"number": member.number, "pid": member.pid} if member is not None else {}
    return {"fact": "supervisor", **named, **fields}


def _woken_up(_: int, __: FrameType | None) -> None:
    """A process has ended: the wake-up itself is what counts."""
