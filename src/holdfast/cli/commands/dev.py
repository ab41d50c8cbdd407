"""`holdfast dev`: a worker and the page for people who write workflows. They restart whenever a file of the project
changes.

Each has its own process, so that all code is loaded again; this process only watches. One that ends by itself, for
example because of a syntax error, is started again after the next change. Each has a line to this process, as the
workers of a supervisor have: whatever ends this process, even SIGKILL, ends them too.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import click

from holdfast.cli.commands.dashboard import ADDRESS
from holdfast.cli.root import HoldfastCommand
from holdfast.cli.supervisor import SIGNALS
from holdfast.doors import web
from holdfast.errors import InvalidInput

LOOK = 0.3
"""Seconds between two checks of the files."""

GRACE = 10.0
"""Seconds that steps may keep running before the worker is stopped for a reload."""

WATCHED = (".py", ".yaml", ".yml")

SKIPPED = {"__pycache__", "node_modules", "build", "dist"}


@click.command("dev", cls=HoldfastCommand)
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option("--paranoid", is_flag=True, help="Replay each run whenever it parks, and compare.")
@click.option("--watch", "folder", metavar="FOLDER", default=".", show_default=True, help="Folder of the project.")
@click.option("--http", "address", metavar="HOST:PORT", default=ADDRESS, show_default=True, help="Address of the page.")
@click.option("--open", "is_opening", is_flag=True, help="Open the page in a browser.")
@click.option("--no-page", "has_no_page", is_flag=True, help="Run only the worker.")
@click.option("--json", "is_json", is_flag=True, help="Write the worker's log as JSON.")
def command(
    target: str | None,
    paranoid: bool,
    folder: str,
    address: str,
    is_opening: bool,
    has_no_page: bool,
    is_json: bool,
) -> int:
    """Run a worker and the page until SIGTERM, SIGHUP or Ctrl-C. Both restart whenever a Python file or flow file of
    the project changes. A second signal does not wait for running steps.

    The printed address signs in the first browser that opens it within a minute. Without the packages of the page
    (the extra `dashboard`) there is only the worker.

    With --paranoid every run is replayed whenever it parks: code that is not deterministic pauses its run at once,
    as diverged, with the line.
    """
    chosen = {"--paranoid": paranoid, "--json": is_json}
    named = [target] if target else []
    worker = [*named, *(word for word, is_on in chosen.items() if is_on), "--grace", f"{GRACE:g}s"]
    stop = threading.Event()

    with ExitStack() as stack:
        page = None
        if not has_no_page and _has_page():
            keys = Path(stack.enter_context(TemporaryDirectory(prefix="holdfast-dev-"))) / "tokens.json"
            page = _page(named, address, keys, is_opening=is_opening)
        made = Child("worker", worker)

        def stopped(_: int, __: FrameType | None) -> None:
            if stop.is_set():
                made.hurry()
            stop.set()

        for number in SIGNALS:
            signal.signal(number, stopped)
        _watch(made, page, Path(folder), stop)
    return 0


def _watch(worker: Child, page: Page | None, folder: Path, stop: threading.Event) -> None:
    """Both processes, restarted with every change, until they are told to stop: the page ends first."""
    seen, is_told = dict(files(folder)), False
    if page is not None:
        page.start()
    worker.start()
    try:
        while not stop.wait(LOOK):
            now = dict(files(folder))
            if now != seen:
                changed = sorted(str(path) for path, _ in now.items() ^ seen.items())
                click.echo(f"{changed[0]} changed: restarting", err=True)
                seen, is_told = now, False
                worker.ask()
                if page is not None:  # back at once, however long the worker's steps take
                    page.end()
                    page.start()
                worker.end()
                worker.start()
            elif worker.has_ended and not is_told:
                click.echo("the worker has ended; it starts again after the next change", err=True)
                is_told = True
    finally:
        if page is not None:
            page.end()
        worker.end()


class Child:
    """One of the processes. It has a group of its own: Ctrl-C in a terminal reaches this process alone, which ends the
    others in their order."""

    def __init__(self, command: str, words: list[str]) -> None:
        self._words = [command, *words]
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._is_asked = False

    def start(self, *more: str, env: Mapping[str, str] | None = None) -> None:
        """Starts it. It stops when our end of its line is closed."""
        self._line, theirs = socket.socketpair()
        with theirs:
            line = theirs.fileno()
            words = [sys.executable, "-m", "holdfast", *self._words, *more, "--line", str(line)]
            self._process = subprocess.Popen(words, start_new_session=True, env=env, pass_fds=[line])
        self._is_asked = False

    @property
    def has_ended(self) -> bool:
        """Whether it ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def ask(self) -> None:
        """Asks it to stop. A worker would take a second request for impatience."""
        if self._process is not None and self._process.poll() is None and not self._is_asked:
            self._is_asked = True
            self._process.terminate()

    def hurry(self) -> None:
        """Asks it again, if it was asked."""
        if self._process is not None and self._is_asked and self._process.poll() is None:
            self._process.terminate()

    def end(self) -> None:
        """Waits until it has stopped, or kills it."""
        self.ask()
        if self._process is not None:
            try:
                self._process.wait(GRACE + 5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._line is not None:
            self._line.close()


class Page:
    """The process of the page. Its token and session secret survive restarts, so that a reload signs no one out; the
    link is printed the first time."""

    def __init__(self, words: list[str], *, is_opening: bool) -> None:
        self._child = Child("dashboard", words)
        self._first = ["--open"] if is_opening else []
        self._secret = secrets.token_urlsafe(32)

    def start(self) -> None:
        self._child.start(*self._first, env={**os.environ, "HOLDFAST_HTTP_SESSION_KEY": self._secret})
        self._first = ["--no-link"]

    def end(self) -> None:
        self._child.end()


def _page(named: list[str], address: str, keys: Path, *, is_opening: bool) -> Page:
    web("tokens").TokenFile(keys).add("dev", "admin")
    return Page([*named, "--http", address, "--dev-tokens", str(keys)], is_opening=is_opening)


def _has_page() -> bool:
    """Whether the packages of the page are installed. If not, prints how to install them."""
    try:
        web("server")
    except InvalidInput as error:
        click.echo(f"no page: {error}", err=True)
        return False
    return True


def files(folder: Path) -> Iterator[tuple[Path, int]]:
    """The Python files, flow files and configuration of a project, with their modification times."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in SKIPPED]
        for name in names:
            if name.endswith(WATCHED) or name in {"holdfast.toml", "pyproject.toml"}:
                path = Path(place) / name
                try:
                    yield path, path.stat().st_mtime_ns
                except OSError:  # gone between the two looks
                    continue
