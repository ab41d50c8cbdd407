"""`holdfast dev`: a worker that begins anew when a file changes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from holdfast import App, remote
from holdfast.cli.commands.dev import files
from tests.support.warm import Popen

SHOP = """
from holdfast import App, step, workflow

@step
async def greet(name: str) -> str:
    return f"hello {name}"

@workflow
async def hello(name: str) -> str:
    return await greet(name)

app = App(workflows=[hello])
"""
PATIENCE = 90


@remote
async def hello(name: str) -> str:
    raise NotImplementedError  # the worker has the code


async def result(url: str, run_id: str) -> str:
    """Starts a run and waits for what the worker makes of it."""
    async with App(url) as app:
        run = await app.start(hello("you"), id=run_id)
        return await run.result(timeout=PATIENCE)


def test_a_change_reaches_the_worker(tmp_path: Path) -> None:
    """Contract: runs are served; code that cannot be loaded says so, and that a change helps; after a change the new
    code serves them; SIGTERM ends both processes in order."""
    (tmp_path / "shop.py").write_text(SHOP)
    url = f"sqlite:///{tmp_path / 'store.db'}"
    words = [sys.executable, "-m", "holdfast", "dev", "shop:app", "--paranoid", "--http", "127.0.0.1:0"]
    process = Popen(words, cwd=tmp_path, env={**os.environ, "HOLDFAST_URL": url}, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        assert asyncio.run(result(url, "before")) == "hello you"
        (tmp_path / "shop.py").write_text(SHOP + "def (")
        said = ""
        while "the worker has ended; it starts again after the next change" not in said:
            line = process.stderr.readline().decode()
            assert line, said
            said += line
        assert "invalid syntax" in said
        drain = threading.Thread(target=process.stderr.read)
        drain.start()
        (tmp_path / "shop.py").write_text(SHOP.replace("hello {name}", "good morning {name}"))

        async def changed() -> None:
            number = 0
            while await result(url, f"after-{number}") != "good morning you":
                number += 1

        asyncio.run(asyncio.wait_for(changed(), PATIENCE))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        drain.join()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(PATIENCE)
        process.stderr.close()


def test_nothing_is_left_behind_by_a_kill(tmp_path: Path) -> None:
    """Promise: whatever ends it, the worker and the page end too: both have its standard error, which ends here."""
    (tmp_path / "shop.py").write_text(SHOP)
    words = [sys.executable, "-m", "holdfast", "dev", "shop:app", "--http", "127.0.0.1:0"]
    env = {**os.environ, "HOLDFAST_URL": f"sqlite:///{tmp_path / 'store.db'}"}
    process = Popen(words, cwd=tmp_path, env=env, stderr=subprocess.PIPE)
    assert process.stderr is not None
    missing = {"page: ", ": serving "}
    while missing:
        line: str = process.stderr.readline().decode()
        assert line, f"it ended before it said {missing}"
        missing = {text for text in missing if text not in line}
    process.kill()
    assert "stopping (the supervisor is gone)" in process.stderr.read().decode()
    process.stderr.close()
    process.wait()


def test_which_files_are_watched(tmp_path: Path) -> None:
    """Contract: Python files, flow files and the configuration, not what tools leave."""
    for name in (
        "shop.py",
        "order.yaml",
        "holdfast.toml",
        "notes.txt",
        ".venv/lib.py",
        "__pycache__/old.py",
        "inner/more.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = {str(path.relative_to(tmp_path)) for path, _ in files(tmp_path)}
    assert found == {"shop.py", "order.yaml", "holdfast.toml", "inner/more.py"}
