"""A process of its own that runs one server of the tests for as long as somebody uses it.

    python -m tests.support.KIND_guard FOLDER

Whoever uses the server holds a shared lock on FOLDER/users. The kernel drops it when the process ends, however it ends,
so the server never outlives the tests: the guard waits for the lock alone, stops the server and removes the folder.
If the guard itself is killed, the kernel tells the server to stop.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

PR_SET_PDEATHSIG = 1


class Guarded(Protocol):
    """A server in a folder, always on the same port."""

    port: int

    def make(self) -> None:
        """Prepares what it needs."""

    def start(self) -> None:
        """Started, and answering."""

    def stop(self) -> None:
        """Ended, with nothing left of it."""


def guard(server_in: Callable[[Path], Guarded]) -> None:
    """The main function of a guard."""
    folder = Path(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGHUP):  # the terminal's Ctrl-C is for the tests; the lock tells of their end
        signal.signal(number, signal.SIG_IGN)
    server = server_in(folder)
    try:
        server.make()
        server.start()
        print(server.port, flush=True)  # noqa: T201 - the answer to whoever started us
        with (folder / "users").open("rb") as users:
            sys.stdin.read()  # the starter holds the lock by the time it closes this
            fcntl.flock(users, fcntl.LOCK_EX)
            (folder / "port").unlink(missing_ok=True)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def program(name: str) -> str:
    """A server's program that a wheel of the test group brings."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise RuntimeError(f"the tests need {name}: install the test group (python3 dev.py test does it)")
    return found


def wait_until(answers: Callable[[], bool], process: subprocess.Popen[bytes], what: str) -> None:
    """Until the server answers; an error if it ends instead."""
    deadline = time.monotonic() + 60
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not start; exit code {process.poll()}")
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.02)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def stop(process: subprocess.Popen[bytes] | None, number: int = signal.SIGTERM) -> None:
    """Ends it by the signal, and tells what it used."""
    if process is not None:
        process.send_signal(number)
        before = children_used()
        process.wait(timeout=60)
        tell(children_used() - before)


def dies_with_us(number: int = signal.SIGTERM) -> None:
    """Between fork and exec: the kernel sends the signal when the starter is gone."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)


def tied(command: Sequence[str]) -> list[str]:
    """The same program, ended by SIGTERM when its starter is gone. For starters with threads, in which nothing may run
    between fork and exec."""
    code = f"import ctypes, os, sys; ctypes.CDLL(None).prctl({PR_SET_PDEATHSIG}, {int(signal.SIGTERM)})"
    return [sys.executable, "-S", "-c", f"{code}; os.execv(sys.argv[1], sys.argv[1:])", *command]


def children_used() -> float:
    """Processor seconds of all processes that this one started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tell(seconds: float) -> None:
    """Adds what a server used to the sum at the end of a run, see `tests/command/stages.py`."""
    if path := os.environ.get("HOLDFAST_SERVER_TIMES"):
        with open(path, "a", encoding="ascii") as file:  # noqa: PTH123 one write, so that lines never mix
            file.write(f"{seconds:.2f}\n")


def shifted_date() -> dict[str, str]:
    """What gives a process the date of this one, if that is not today's (tests/lab/dates.py)."""
    return {name: word for name, word in os.environ.items() if name == "LD_PRELOAD" or name.startswith("FAKETIME")}
