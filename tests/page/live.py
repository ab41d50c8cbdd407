"""The real thing for the tests of the page: a store, `holdfast dashboard` and workers, each a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.page.bundle import ROOT
from tests.support.warm import Popen, run

TARGET = "tests.page.shop:app"
TTL = "1s"
"""How long a silent worker keeps its runs: a take-over is soon."""


class Shop:
    """One store, and the processes that serve it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/shop.db"
        self.go = folder / "go"
        self.address = ""
        self.page: Popen | None = None
        self._workers: list[Popen] = []

    def serve(self) -> str:
        """Starts the dashboard; gives the link that signs in."""
        at = self.address.removeprefix("http://").rstrip("/") or "127.0.0.1:0"
        self.page = self._start("dashboard", TARGET, "--http", at, env={})
        return self._link()

    def new_link(self) -> str:
        """Another link that signs in."""
        assert self.page is not None
        self.page.send_signal(signal.SIGHUP)
        return self._link()

    def _link(self) -> str:
        assert self.page is not None
        assert self.page.stderr is not None
        for raw in self.page.stderr:
            line: str = raw.decode().strip()
            if line.startswith("page: "):
                link = line.removeprefix("page: ")
                self.address = link.partition("#")[0]
                return link
        raise AssertionError("the dashboard ended before it said where it is")

    def worker(self, name: str, hold: str = "", pace: float = 0.02) -> Popen:
        """Starts a worker; steps named in `hold` wait until `go` is there."""
        env = {"SHOP_HOLD": hold, "SHOP_GO": str(self.go), "SHOP_PACE": str(pace)}
        made = self._start("worker", TARGET, "--id", name, "--ttl", TTL, "--poll", "200ms", env=env)
        self._workers.append(made)
        return made

    def _start(self, *words: str, env: dict[str, str]) -> Popen:
        given = {**os.environ, "SHOP_STORE": self.url, "PYTHONPATH": str(ROOT), **env}
        with (self.folder / f"{words[0]}-{len(self._workers)}.log").open("wb") as log:
            where = subprocess.PIPE if words[0] == "dashboard" else log
            return Popen(
                [sys.executable, "-m", "holdfast", *words], cwd=self.folder, env=given, stdout=log, stderr=where
            )

    def token(self, role: str) -> str:
        """Makes a token, as an operator does."""
        return self._tokens("add", "page", "--role", role)

    def revoke(self) -> None:
        """Takes it away."""
        self._tokens("revoke", "page")

    def _tokens(self, *words: str) -> str:
        done = run(
            [sys.executable, "-m", "holdfast", "tokens", *words], cwd=self.folder, capture_output=True, check=True
        )
        return str(done.stdout.decode().strip())

    def stop_page(self) -> None:
        """As an operator does."""
        if self.page is not None:
            end(self.page)

    def stop(self) -> None:
        """Everything."""
        self.go.touch()
        for process in self._workers:
            end(process)
        self.stop_page()


def end(process: Popen) -> None:
    """SIGTERM, and what is left after ten seconds is killed."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stderr is not None:
        process.stderr.close()


@contextmanager
def open_shop(folder: Path) -> Iterator[Shop]:
    """A shop that is gone at the end of the block."""
    shop = Shop(folder)
    try:
        yield shop
    finally:
        shop.stop()
