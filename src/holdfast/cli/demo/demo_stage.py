"""Where the demo takes place: a temporary folder with a store and a ledger, and worker processes that can be killed.

Nothing outlives it: leaving the stage ends every process and removes the folder. Workers have their own session, so
that Ctrl-C reaches only the demo, which then ends them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.cli.demo import demo_app
from holdfast.cli.demo.verdict import Note, read_ledger
from holdfast.config import URL_VARIABLE

APP = "holdfast.cli.demo.demo_app:app"
"""The app that the workers serve."""

STOPPING = 3.0
"""Seconds a worker has to shut down gracefully."""


class WorkerProcess:
    """One worker, seen from outside."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self._popen = popen
        self._log = log

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative number of the signal that ended it."""
        return self._popen.poll()

    @property
    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")

    def freeze(self) -> None:
        """Stops its execution (SIGSTOP), so that what is seen of it stays true."""
        self._popen.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continues it (SIGCONT)."""
        self._popen.send_signal(signal.SIGCONT)

    def kill(self) -> int:
        """Kills it with SIGKILL and returns its exit code."""
        self._popen.kill()
        code = self._popen.wait()
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        return code

    def end(self) -> None:
        """Stops it gracefully, or kills it."""
        if self._popen.poll() is None:
            self._popen.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(STOPPING)
        self.kill()


class Stage:
    """The folder and its processes."""

    def __init__(self, *, pace: float, lease: float) -> None:
        self._pace = pace
        self._lease = lease
        self._workers: list[WorkerProcess] = []

    def __enter__(self) -> Self:
        self._temporary = tempfile.TemporaryDirectory(prefix="holdfast-demo-", ignore_cleanup_errors=True)
        self.folder: Path = Path(self._temporary.name)
        self.url: str = f"sqlite:///{self.folder / 'demo.db'}"
        self._ledger = self.folder / "ledger.txt"
        self._ledger.touch()
        interval = f'[recovery]\ncheck_interval = "{self._lease / 3:.3f}s"\n'
        (self.folder / "holdfast.toml").write_text(interval)  # its own: no other one is looked for
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        try:
            for worker in self._workers:
                worker.end() if kind is None else worker.kill()
            self._temporary.cleanup()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def notes(self) -> tuple[Note, ...]:
        """The ledger as it is now."""
        return read_ledger(self._ledger.read_text())

    def worker(self, name: str) -> WorkerProcess:
        """Starts a worker process and returns when it claims."""
        log = self.folder / f"{name}.log"
        options = ["--id", name, "--ttl", f"{self._lease}s", "--poll", "200ms", "--grace", "1s"]
        with log.open("wb") as out:
            popen = subprocess.Popen(
                [sys.executable, "-m", "holdfast.cli.demo.process", APP, *options],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        worker = WorkerProcess(name, popen, log)
        self._workers.append(worker)
        return worker

    def _environment(self) -> dict[str, str]:
        """Our environment, without Holdfast settings that are meant for something else."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        paths = [str(Path(path).absolute()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        ours = {
            URL_VARIABLE: self.url,
            demo_app.LEDGER: str(self._ledger),
            demo_app.PACE_VARIABLE: str(self._pace),
            "PYTHONPATH": os.pathsep.join(paths),
        }
        return {**inherited, **ours}
