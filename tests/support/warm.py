"""Processes that start with Holdfast already imported: `Popen` and `run` as in `subprocess`, without the start-up.

An interpreter that imports Holdfast, its stores and its command line uses a third of a second, and the suite starts
hundreds. Here they are forked from a `zygote`, one for each process of the suite. They are processes like any other:
they have a pid of their own, are really killed, and can run in a session of their own.

What cannot be forked is started afresh: another program than Python, another `PYTHONHASHSEED`, `-c` and other options
of the interpreter. Tests about imports or about the start of an interpreter use `subprocess` itself.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.zygote import STATUS, TERMINAL

ROOT = Path(__file__).resolve().parents[2]
OF_THE_INTERPRETER = """
PYTHONHASHSEED PYTHONDEVMODE PYTHONWARNINGS PYTHONUNBUFFERED PYTHONIOENCODING PYTHONUTF8 LANG LC_ALL LC_CTYPE
COVERAGE_PROCESS_START LD_PRELOAD
""".split()
"""Variables that decide how an interpreter starts: a process that wants other ones is started afresh."""


class Zygote:
    """The process that forks, and the line to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.support.zygote", str(theirs.fileno())]
        self.variables = {name: os.environ.get(name) for name in OF_THE_INTERPRETER}
        env = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=env, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        self._line = ours
        self._lock = threading.Lock()

    def close(self) -> None:
        """The end of the line is the end of the zygote."""
        self._line.close()
        self.process.wait(60)

    def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> int:
        """Asks for a process; gives its pid."""
        with self._lock:
            socket.send_fds(self._line, [json.dumps(request).encode()], descriptors)
            answer = self._line.recv(STATUS.size)
        if not answer:
            raise RuntimeError("the zygote has ended: its standard error says why")
        pid: int = STATUS.unpack(answer)[0]
        return pid


_zygotes: dict[int, Zygote] = {}
_alone = threading.Lock()


def zygote() -> Zygote:
    """The one of this process, started when it is first needed."""
    with _alone:
        if os.getpid() not in _zygotes:
            _zygotes[os.getpid()] = made = Zygote()
            atexit.register(made.close)
        return _zygotes[os.getpid()]


def program(command: Any) -> list[str] | None:
    """The module or file that a command line runs, and its arguments; None if it needs an interpreter of its own."""
    words = [str(word) for word in command] if isinstance(command, list | tuple) else []
    match words:
        case [sys.executable, "-m", name, *rest]:
            return ["module", name, *rest]
        case [sys.executable, name, *rest] if not name.startswith("-"):
            return ["file", name, *rest]
        case _:
            return None


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, forked from the zygote where that is possible."""

    _status: int | None = None
    _reading = threading.Lock()

    def _execute_child(self, *arguments: Any) -> None:
        start = super()._execute_child  # type: ignore[misc]
        asked = inspect.signature(start).bind(*arguments).arguments
        wanted = program(asked["args"])
        env = dict(os.environ) if asked["env"] is None else {str(key): str(x) for key, x in asked["env"].items()}
        source = zygote() if wanted else None
        is_plain = not asked["preexec_fn"] and not asked["pass_fds"] and asked["uid"] is None and not asked["shell"]
        if source is None or not is_plain or any(env.get(name) != value for name, value in source.variables.items()):
            start(*arguments)
            return
        reading, writing = os.pipe()
        pipes = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        given = [number if number != -1 else place for place, number in enumerate(pipes)]
        request = {
            "program": wanted,
            "cwd": str(asked["cwd"] or Path.cwd()),
            "env": env,
            "session": asked["start_new_session"],
            "ignored": [number for number in TERMINAL if signal.getsignal(number) is signal.SIG_IGN],
        }
        self.pid = source.fork(request, [*given, writing])
        os.close(writing)
        self._status = reading
        self._child_created = True
        ends = [asked[x] for x in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")]
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]

    def _internal_poll(self, *arguments: Any, **options: Any) -> int | None:
        if self._status is None:
            found: int | None = super()._internal_poll(*arguments, **options)  # type: ignore[misc]
            return found
        return self._ended(0)

    def _wait(self, timeout: float | None) -> int:
        if self._status is None:
            code: int = super()._wait(timeout)  # type: ignore[misc]
            return code
        ended = self._ended(timeout)
        if ended is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return ended

    def _ended(self, timeout: float | None) -> int | None:
        """The exit code, waited for that long at most. Several threads may ask at once: one reads it."""
        assert self._status is not None
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            with self._reading:
                if self.returncode is None:
                    told = os.read(self._status, STATUS.size)
                    self.returncode = STATUS.unpack(told)[0] if told else 255
        return self.returncode

    def __del__(self, *arguments: Any) -> None:
        if self._status is not None:
            self._ended(0)
            os.close(self._status)
        super().__del__()


def run(
    command: Sequence[str | Path],
    *,
    input: str | bytes | None = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run`, forked from the zygote where that is possible."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(command, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    answer = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        answer.check_returncode()
    return answer
