"""`holdfast dev`: a worker for whoever writes workflows. It begins anew whenever a file of the project changes.

The worker is a process of its own, so that every line is loaded again; this one only watches. A worker that ends by
itself, such as over a syntax error, is started again with the next change.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click

from holdfast.cli.root import HoldfastCommand

LOOK = 0.3
"""Seconds between two looks at the files."""

GRACE = 10.0
"""Seconds that steps may go on before the worker is ended for a reload."""

SKIPPED = {"__pycache__", "node_modules", "build", "dist"}


@click.command("dev", cls=HoldfastCommand)
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option("--paranoid", is_flag=True, help="Replay each run whenever it is parked, and compare.")
@click.option("--watch", "folder", metavar="FOLDER", default=".", show_default=True, help="Where the project is.")
@click.option("--json", "is_json", is_flag=True, help="The worker's log as JSON.")
def command(target: str | None, paranoid: bool, folder: str, is_json: bool) -> int:
    """Run a worker that begins anew whenever a Python file of the project changes, until SIGTERM or Ctrl-C.

    With --paranoid every run is replayed whenever it is parked: code that is not deterministic pauses its run at once,
    as diverged, with the line.
    """
    chosen = {"--paranoid": paranoid, "--json": is_json}
    words = [
        *([target] if target else []),
        *(word for word, is_on in chosen.items() if is_on),
        "--grace",
        f"{GRACE:g}s",
    ]
    stop = threading.Event()

    def stopped(_: int, __: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stopped)
    seen = dict(files(Path(folder)))
    worker = _started(words)
    try:
        while not stop.wait(LOOK):
            now = dict(files(Path(folder)))
            if now != seen:
                changed = sorted(str(path) for path, _ in now.items() ^ seen.items())
                click.echo(f"{changed[0]} changed: the worker begins anew", err=True)
                seen = now
                _end(worker)
                worker = _started(words)
    finally:
        _end(worker)
    return 0


def files(folder: Path) -> Iterator[tuple[Path, int]]:
    """The Python files of a project, and when each was last written."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in SKIPPED]
        for name in names:
            if name.endswith(".py") or name in {"holdfast.toml", "pyproject.toml"}:
                path = Path(place) / name
                try:
                    yield path, path.stat().st_mtime_ns
                except OSError:  # gone between the two looks
                    continue


def _started(words: list[str]) -> subprocess.Popen[bytes]:
    # A group of its own: Ctrl-C reaches this process only, which ends the worker in order.
    return subprocess.Popen([sys.executable, "-m", "holdfast", "worker", *words], start_new_session=True)


def _end(worker: subprocess.Popen[bytes]) -> None:
    if worker.poll() is None:
        worker.terminate()
        try:
            worker.wait(GRACE + 5)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
