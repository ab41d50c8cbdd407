"""Hands on the real command in real processes. Waits are for conditions, with a deadline, never for a time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from holdfast import App
from tests.support import warm

HERE = Path(__file__).resolve().parent
SRC = HERE.parents[1] / "src"
PATIENCE = 60.0


class Place:
    """A folder with a store in it, and the command run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'store.db'}"
        self.env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(SRC), str(HERE)]),
            "HOLDFAST_URL": self.url,
            "CLI_APP_TRACES": str(folder),
            "COLUMNS": "80",
        }
        self.env.pop("PYTEST_CURRENT_TEST", None)

    def argv(self, *arguments: str) -> list[str]:
        """The command line."""
        return [sys.executable, "-m", "holdfast", *arguments]

    def run(self, *arguments: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return warm.run(
            self.argv(*arguments),
            cwd=self.folder,
            env={**self.env, **env},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def ok(self, *arguments: str) -> str:
        """Runs a command that has to succeed in silence; gives what it printed."""
        answer = self.run(*arguments)
        assert answer.returncode == 0, answer.stderr
        assert not answer.stderr
        return answer.stdout

    def start(self, *arguments: str) -> str:
        """Starts a run of the test app; gives its id."""
        return self.ok("start", "cli_app:app", *arguments).strip()

    def app(self) -> App:
        """The store, from this process."""
        return App(self.url)

    @contextlib.contextmanager
    def worker(self, *arguments: str, app: str = "cli_app:app") -> Iterator[Process]:
        """A worker process, ended at the end if it is still there. Its lease is long: nothing is taken over by time."""
        with self.process("worker", app, "--ttl", "10m", "--poll", "100ms", *arguments) as process:
            process.line("serving")
            yield process

    @contextlib.contextmanager
    def process(self, *arguments: str, is_heard: bool = True) -> Iterator[Process]:
        """A command that goes on; if it is not heard, nobody reads its standard error."""
        process = Process(self.argv(*arguments), self.folder, self.env, is_heard=is_heard)
        try:
            yield process
        finally:
            process.end()


class Process:
    """A running command; its standard error is read as it comes."""

    def __init__(self, argv: list[str], folder: Path, env: dict[str, str], *, is_heard: bool) -> None:
        self._popen: subprocess.Popen[str] = warm.Popen(
            argv,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self.lines: list[str] = []
        self._is_over = False
        self._news = threading.Condition()
        assert self._popen.stderr is not None
        if not is_heard:
            self._popen.stderr.close()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        stderr = self._popen.stderr
        for line in stderr if stderr is not None and not stderr.closed else ():
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()

    def until(self, found: Callable[[str], bool], what: str) -> str:
        """Waits for a line; the first that fits."""
        deadline = time.monotonic() + PATIENCE
        seen = 0
        with self._news:
            while True:
                for line in self.lines[seen:]:
                    if found(line):
                        return line
                seen = len(self.lines)
                left = deadline - time.monotonic()
                if self._is_over or left <= 0:
                    raise AssertionError(f"no line with {what}:\n" + "\n".join(self.lines))
                self._news.wait(left)

    def line(self, *texts: str) -> str:
        """Waits for a line that holds all these texts."""
        return self.until(lambda line: all(text in line for text in texts), str(texts))

    def event(self, event: str, **fields: Any) -> dict[str, Any]:
        """Waits for an object of a JSON log."""
        wanted = {"event": event, **fields}
        found: dict[str, Any] = json.loads(
            self.until(lambda line: wanted.items() <= json.loads(line).items(), str(wanted))
        )
        return found

    def printed(self) -> str:
        """Waits for the next line on standard output."""
        assert self._popen.stdout is not None
        return self._popen.stdout.readline()

    def send(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self._popen.send_signal(number)

    def interrupt(self) -> None:
        """What a terminal does on Ctrl-C: the signal goes to every process of the group."""
        os.killpg(self.pid, signal.SIGINT)

    def code(self) -> int:
        """Waits for the end; the exit code. All lines are there then."""
        code = self._popen.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def output(self) -> str:
        """What it printed, after its end."""
        assert self._popen.stdout is not None
        return self._popen.stdout.read()

    def end(self) -> None:
        """Ends it without asking."""
        if self._popen.poll() is None:
            self._popen.kill()
            self._popen.wait()
        self._reader.join(PATIENCE)
        for stream in (self._popen.stdout, self._popen.stderr):
            if stream is not None:
                stream.close()
