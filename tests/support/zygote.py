"""A process that has imported Holdfast already and forks whenever a test asks for a new interpreter.

    python -m tests.support.zygote NUMBER     NUMBER: the inherited socket on which requests come

A request is one JSON message with four descriptors: standard input, output and error of the new process, and a pipe on
which the zygote tells its exit code. The new process leaves the zygote's code by an ordinary return, so it ends as any
interpreter does: `atexit`, flushed files, threads joined. Tests use it through `tests.support.warm`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any

LOADED = (
    "holdfast.app",
    "holdfast.cli.root",
    "holdfast.cli.commands.worker",
    "holdfast.cli.commands.runs",
    "holdfast.cli.commands.show",
    "holdfast.cli.commands.start",
    "holdfast.cli.output",
    "holdfast.stores",
    "holdfast.sync",
    "holdfast.adapters.sqlite.store",
    "holdfast.adapters.system.process",
    "holdfast.authoring.machine.undo_plan",
    "holdfast.client.machine_logs",
    "holdfast.adapters.postgres.store",
    "holdfast.testing",
    "holdfast.worker.worker",
    "difflib",
    "getpass",
    "rich.console",
    "rich.table",
)
STATUS = struct.Struct("i")
TERMINAL = (signal.SIGINT, signal.SIGHUP)
"""Signals of the terminal are for the tests. A new process ignores those that its starter ignores."""


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Forks for every request. Gives the request in the new process, and None in the zygote at the end."""
    statuses: dict[int, tuple[int, int]] = {}  # by process: the descriptor that tells of its end, and the status pipe
    with selectors.DefaultSelector() as ready:
        ready.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is not control:
                    pid: int = key.data
                    watched, status = statuses.pop(pid)
                    ready.unregister(watched)
                    os.close(watched)
                    tell(pid, status)
                    continue
                message, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 4)
                if not message:
                    return None
                pid = os.fork()
                if pid == 0:
                    return {**json.loads(message), "descriptors": descriptors[:3]}
                for number in descriptors[:3]:
                    os.close(number)
                watched = os.pidfd_open(pid)
                statuses[pid] = watched, descriptors[3]
                ready.register(watched, selectors.EVENT_READ, pid)
                control.send(STATUS.pack(pid))


def tell(pid: int, status: int) -> None:
    """Reaps a process that has ended, and says how."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):  # the test no longer asks
        os.write(status, STATUS.pack(code))
    os.close(status)


def become(request: dict[str, Any]) -> None:
    """In the new process: everything an interpreter finds at its start, then the program."""
    if request["session"]:
        os.setsid()
    for place, number in enumerate(request.pop("descriptors")):
        os.dup2(number, place)
    os.closerange(3, 1024)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        signal.signal(number, signal.SIG_IGN if number in request["ignored"] else usual)
    sys.stdin, sys.stdout = os.fdopen(0, "r", closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.path[:0] = [place for place in request["env"].get("PYTHONPATH", "").split(os.pathsep) if place]


def load() -> None:
    """Imports what processes of the tests need, so that none that is forked afterwards does so again."""
    for name in LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def main() -> None:
    load()
    for number in TERMINAL:
        signal.signal(number, signal.SIG_IGN)
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request is None:
        return
    become(request)
    kind, target, *arguments = request["program"]
    sys.argv = [target if kind == "file" else "-m", *arguments]
    if kind == "module":
        sys.path.insert(0, request["cwd"])
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(target).resolve().parent))
        runpy.run_path(target, run_name="__main__")


if __name__ == "__main__":
    main()
