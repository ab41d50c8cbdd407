"""The Django example: a worker that finds the project, and steps that use its models."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import apsw
import pytest

from tests.integration.cli_app_processes import PATIENCE, SRC, Process
from tests.support import warm

SHOP = Path(__file__).parents[2] / "examples" / "django_shop"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
        "PYTHONPATH": str(SRC),
        "SHOP_STORE": f"sqlite:///{tmp_path / 'holdfast.db'}",
        "SHOP_DATABASE": str(tmp_path / "db.sqlite3"),
    }


def manage(env: dict[str, str], *words: str) -> str:
    """Runs `manage.py`; what it prints."""
    command = [sys.executable, str(SHOP / "manage.py"), *words]
    done = warm.run(command, cwd=SHOP, env=env, capture_output=True, text=True, timeout=60, check=True)
    return str(done.stdout)


def test_a_worker_serves_a_django_project(env: dict[str, str], tmp_path: Path) -> None:
    """Promise: `holdfast worker` sets the project up by its `manage.py`, models work in steps, and no thread keeps a
    connection when it has nothing to do."""
    manage(env, "migrate", "--run-syncdb", "--verbosity", "0")
    argv = [sys.executable, "-m", "holdfast", "worker", "orders.flows:app", "--poll", "50ms"]
    worker = Process(argv, SHOP, env, is_heard=True)
    try:
        worker.line("serving fulfil")
        assert manage(env, "place", "42") == "shipped\n"
        rows = apsw.Connection(str(tmp_path / "db.sqlite3")).execute("select number, state from orders_order")
        assert rows.fetchall() == [("42", "shipped")]
        deadline = time.monotonic() + PATIENCE
        while "db.sqlite3" in opened(worker.pid):  # until the thread of the last step has closed its connection
            assert time.monotonic() < deadline
            threading.Event().wait(0.01)
    finally:
        worker.end()


def opened(pid: int) -> set[str]:
    """The names of the files that a process has open."""
    found: set[str] = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.add(link.readlink().name)
        except FileNotFoundError:
            continue
    return found
