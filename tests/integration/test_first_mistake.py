"""A typo in the first step of a new user: seen at once, with the line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import App, Retry, RunFailed, step, workflow
from holdfast.adapters.memory.store import MemoryStore

SCRIPT = """
from holdfast import App, step, workflow


@step
async def greet(name: str) -> str:
    return f"Hello {nmae}"


@workflow
async def hello(name: str) -> str:
    return await greet(name)


app = App("memory://", workflows=[hello])
app.run(hello("Ann"), id="first")
"""


def said(script: Path) -> tuple[int, str]:
    """Runs the script as a user does. Returns its code and what it wrote to stderr."""
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stderr


def shop(folder: Path, store: str = "memory://") -> Path:
    """The user's script, in that folder, on that store."""
    script = folder / "shop.py"
    script.write_text(SCRIPT.replace("memory://", store), encoding="utf-8")
    return script


def test_a_typo_is_shown_at_once(tmp_path: Path) -> None:
    """Promise: with Python's default logging `app.run` shows one line for the attempt and one traceback, whose error
    shows the step's own line and names the command that shows more."""
    script = shop(tmp_path)
    code, errors = said(script)
    assert code == 1
    assert f"run first: step greet failed, attempt 1: NameError: name 'nmae' is not defined ({script}:7)" in errors
    assert "it is not tried again" in errors
    assert "attempt 2" not in errors
    assert errors.count("\nTraceback") == 1, "the log has no second traceback of what the error shows"
    assert "run first: failed" not in errors, "nor a line that says what is raised"
    assert "asyncio" not in errors, "nor are there frames of the event loop"
    assert errors.count("holdfast.errors.RunFailed: run first of hello failed") == 1
    uncaught = errors[errors.index("holdfast.errors.RunFailed") :]
    assert f'File "{script}", line 7, in greet' in uncaught
    assert uncaught.rstrip().endswith("More: holdfast show first")


async def test_the_error_shows_the_frames_of_the_step() -> None:
    """Promise: `RunFailed` has the traceback of the step before that of the workflow, and says where to look."""

    @step(retry=Retry.none)
    async def pay() -> None:
        raise ValueError("odd")

    @workflow
    async def shop() -> None:
        await pay()

    app = App(workflows=[shop], store=MemoryStore())
    async with app.worker():
        with pytest.raises(RunFailed) as caught:
            await (await app.start(shop(), id="r")).result("60s")
    frames = caught.value.traceback
    assert 'raise ValueError("odd")' in frames
    assert frames.index("in pay") < frames.index("direct cause") < frames.index("in shop")
    assert "in pay" in caught.value.__notes__[0]
    assert caught.value.__notes__[1] == "More: holdfast show r"


def test_a_run_that_failed_before_says_how_to_try_again(tmp_path: Path) -> None:
    """Promise: a user who corrects the typo and runs the script again learns that the run kept its outcome, and what
    to do. The first time it does not say so."""
    script = shop(tmp_path, f"sqlite:///{tmp_path}/shop.db")
    (_, first), (_, second) = said(script), said(script)
    told = "The run ended before this call. It keeps its outcome, even if the code has changed since."
    assert told not in first
    assert f"{told} To run it from the beginning, use a different id, or first `holdfast delete first`." in second


async def test_a_failed_run_that_is_started_again_says_that_it_keeps_its_end() -> None:
    """Promise: `result()` of a start that found the run ended says so, as `app.run` does. Other handles do not."""

    @step(retry=Retry.none)
    async def pay() -> None:
        raise ValueError("odd")

    @workflow
    async def shop() -> None:
        await pay()

    app = App(workflows=[shop], store=MemoryStore())
    async with app.worker():
        runs = [await app.start(shop(), id="r"), await app.get("r", shop)]
        told: list[bool] = []
        for run in runs:
            with pytest.raises(RunFailed) as caught:
                await run.result("60s")
            told.append(any("holdfast retry r" in note for note in caught.value.__notes__))
        with pytest.raises(RunFailed) as caught:
            await (await app.start(shop(), id="r")).result("60s")
    assert told == [False, False]
    assert caught.value.__notes__[-1].startswith("The run ended before this call. It keeps its outcome")


async def test_the_log_of_an_attempt_begins_with_the_authors_code(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: the first frame of its traceback is the step's, not one of Holdfast's."""

    @step(retry=Retry.none)
    async def pay() -> None:
        raise ValueError("odd")

    @workflow
    async def shop() -> None:
        await pay()

    app = App(workflows=[shop], store=MemoryStore())
    async with app.worker():
        with pytest.raises(RunFailed):
            await (await app.start(shop(), id="r")).result("60s")
    [record] = [record for record in caplog.records if "failed, attempt 1" in record.getMessage()]
    assert record.exc_info is not None
    assert record.exc_info[2] is not None
    assert record.exc_info[2].tb_frame.f_code is pay.function.__code__
