"""A server of the tests: one per run, shared by its workers.

The first who asks starts it; whoever uses it holds a shared lock on a file, and its guard (`tests.support.guard`) stops
it when the last one is gone. A server that cannot be started is an error, never a skipped test.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.command.stages import NO_SERVERS

ROOT = Path(__file__).resolve().parents[2]

_ports: dict[str, int] = {}
_held: list[IO[bytes]] = []
_guards: list[subprocess.Popen[bytes]] = []  # kept, or collecting one would warn that it still runs


def shared_port(kind: str) -> int:
    """The port of the server of this run, started if it is not there. It stays while this process lives.

    Its guard is the module `tests.support.KIND_guard`.
    """
    if NO_SERVERS in os.environ:
        raise RuntimeError(f"`dev.py test --quick` starts no {kind} server: put the mark `server` on this test")
    if kind not in _ports:
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}"
        place = Path(tempfile.gettempdir()) / f"holdfast-{kind}-{os.getuid()}-{run}"
        # One lock for all runs of this user: it stays where it is, so nobody can hold one that was just removed.
        with _alone(place.with_name(f"holdfast-{kind}-{os.getuid()}.lock")):
            _ports[kind] = _join(place) or _start(kind, place)
    return _ports[kind]


def _join(folder: Path) -> int | None:
    try:
        users = (folder / "users").open("rb")
        fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
        port = int((folder / "port").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None  # there is none, or it is being stopped
    _held.append(users)
    return port


def _start(kind: str, folder: Path) -> int:
    deadline, looking = time.monotonic() + 60, threading.Event()
    while folder.exists():  # the one before is being stopped
        if time.monotonic() > deadline:
            raise RuntimeError(f"the server in {folder} does not end")
        looking.wait(0.02)
    folder.mkdir(mode=0o700)
    (folder / "users").touch()
    with (folder / "log").open("wb") as log:
        guard = subprocess.Popen(
            [sys.executable, "-m", f"tests.support.{kind}_guard", str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert guard.stdout is not None
    assert guard.stdin is not None
    line = guard.stdout.readline()
    if not line:
        guard.wait()
        raise RuntimeError(f"no {kind} server for the tests; see what the guard wrote to its standard error")
    users = (folder / "users").open("rb")
    fcntl.flock(users, fcntl.LOCK_SH)
    _held.append(users)
    (folder / "port").write_bytes(line)
    guard.stdin.close()
    guard.stdout.close()
    _guards.append(guard)
    return int(line)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
