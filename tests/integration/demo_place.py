"""Where `holdfast demo` is run in tests: an empty folder, a clean environment, a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.cli_app_processes import SRC

PATIENCE = 60.0


class Place:
    """An empty folder to run in, and one for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.here, self.temporary, self.modules = (folder / name for name in ("here", "tmp", "modules"))
        for made in (self.here, self.temporary, self.modules):
            made.mkdir()
        (self.modules.parent / "holdfast.toml").write_text("meant = 'for another project'")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PYTEST_"))}
        self.env |= {
            "PYTHONPATH": os.pathsep.join([str(SRC), str(self.modules)]),
            "TMPDIR": str(self.temporary),
            "HOLDFAST_URL": f"sqlite:///{self.here / 'not-this-one.db'}",
        }

    def argv(self, *arguments: str, app: str | None = None) -> list[str]:
        if app is None:
            return [sys.executable, "-m", "holdfast", "demo", *arguments]
        code = (
            "from holdfast.cli import main; from holdfast.cli.demo import demo_stage\n"
            f"demo_stage.APP = {app!r}; main(['demo', *{list(arguments)!r}])"
        )
        return [sys.executable, "-c", code]

    def run(self, *arguments: str, app: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*arguments, app=app),
            cwd=self.here,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """In a session of its own, as a shell does; ended at the end if it is still there."""
        process = subprocess.Popen(
            self.argv(*arguments),
            cwd=self.here,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def left_behind(self) -> list[str]:
        """Files it should not have left."""
        return [str(path) for folder in (self.here, self.temporary) for path in folder.rglob("*")]


def lines_until(process: subprocess.Popen[str], text: str) -> str:
    """Reads what it prints until that text comes; all that was read."""
    assert process.stdout is not None
    shown = ""
    for line in process.stdout:
        shown += line
        if text in line:
            return shown
    raise AssertionError(f"{text!r} never came:\n{shown}")
