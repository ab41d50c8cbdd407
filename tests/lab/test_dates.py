"""The suite at another date: the date of every process moves, PostgreSQL's included, and nothing waits for it."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.lab import __main__ as lab
from tests.lab import dates

ROOT = Path(__file__).resolve().parents[2]
YEAR = timedelta(days=400)

needs_library = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="the package has no library for this machine",
)

_PROCESS = """
import subprocess, sys, time
print(time.time(), time.monotonic())
if len(sys.argv) < 2:
    sys.stdout.flush()
    subprocess.run([sys.executable, "-c", open("/proc/self/cmdline").read().split("\\0")[2], "child"], check=True)
"""
_RUNS = """
import asyncio, sys
from datetime import datetime
from holdfast import App, now, sleep, workflow
from tests.support.postgres import clean_url

@workflow
async def naps() -> datetime:
    await sleep("50ms")
    return now()

async def main() -> None:
    for url in (f"sqlite:///{sys.argv[1]}/dates.db", clean_url()):
        app = App(url, workflows=[naps])
        async with app.worker():
            print((await (await app.start(naps())).result(timeout="60s")).timestamp(), flush=True)

asyncio.run(main())
"""


def ran(code: str, *arguments: str, environment: dict[str, str]) -> list[list[float]]:
    """The numbers of each line that a process printed."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    return [[float(word) for word in line.split()] for line in done.stdout.splitlines()]


@needs_library
@pytest.mark.parametrize("shift", [YEAR, -timedelta(days=40)], ids=["ahead", "behind"])
def test_a_process_and_its_child_see_the_other_date(shift: timedelta) -> None:
    """Promise: the wall clock of both is shifted by the same amount, and their monotonic clock is the one of all."""
    with dates.shifted(shift) as environment:
        before, at = datetime.now(UTC) + shift, time.monotonic()
        found = ran(_PROCESS, environment=environment)
        after, until = datetime.now(UTC) + shift, time.monotonic()
    assert len(found) == 2
    for wall, monotonic in found:
        assert before.timestamp() - 1 <= wall <= after.timestamp() + 1
        assert at <= monotonic <= until


@needs_library
def test_runs_with_a_timer_end_at_the_other_date(tmp_path: Path) -> None:
    """Promise: a worker on SQLite and one on a PostgreSQL server, both shifted, end a run that waits for a timer."""
    with dates.shifted(YEAR) as environment:
        environment.pop("PYTEST_XDIST_TESTRUNUID", None)  # or it would take the server of this suite
        found = ran(_RUNS, str(tmp_path), environment=environment)
    expected = (datetime.now(UTC) + YEAR).timestamp()
    assert [abs(at - expected) < 120 for (at,) in found] == [True, True]


@needs_library
def test_nothing_of_the_library_takes_a_lock() -> None:
    """Promise: programs are linked with its clocks and not with its condition variables, and it has no semaphore: a
    process that forks or is killed would leave both taken, and the suite would hang."""
    with dates.shifted(YEAR) as environment:
        code = "import os, time; time.time(); print(os.environ.get('FAKETIME_SHARED'))"
        command, debug = [sys.executable, "-c", code], {"LD_DEBUG": "bindings"}
        done = subprocess.run(command, env=environment | debug, capture_output=True, text=True, timeout=60, check=True)
        bound = {line.rpartition("`")[2].partition("'")[0] for line in done.stderr.splitlines() if _is_bound(line)}
    assert done.stdout == "None\n"
    assert "clock_gettime" in bound
    assert not [name for name in bound if name.startswith("pthread")]


def _is_bound(line: str) -> bool:
    return "normal symbol" in line and "libfaketime" in line.partition(" to ")[2]


@pytest.mark.parametrize(
    ("word", "shift"),
    [("+400d", YEAR), ("-40d", timedelta(days=-40)), ("+90m", timedelta(minutes=90)), ("-5s", timedelta(seconds=-5))],
)
def test_a_shift_is_read(word: str, shift: timedelta) -> None:
    assert dates.shift_of(word) == shift


@pytest.mark.parametrize("word", ["2028-02-29", "2028-02-29T00:00", "2028-02-29T02:00+02:00"])
def test_a_date_is_a_shift_from_now(word: str) -> None:
    wanted = datetime(2028, 2, 29, tzinfo=UTC) - datetime.now(UTC)
    assert abs(dates.shift_of(word) - wanted) < timedelta(seconds=60)


def test_shifts_add_up() -> None:
    """Promise: in a suite that is shifted itself, a shift is one from the date that the suite sees."""
    first = dates.environment_of(YEAR, Path("/x.so"), {"HOME": "/home"})
    assert first["HOME"] == "/home"
    assert float(dates.environment_of(-YEAR, Path("/x.so"), first)["FAKETIME"]) == 0


def test_what_is_no_date_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.main(["--date", "tomorrow"]) == 2
    assert "give a shift (+400d" in capsys.readouterr().out


def test_the_arguments_of_pytest_follow_two_dashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: `lab --date +400d -- ARGS` runs the part of the suite that ARGS name, and ends as pytest does."""
    asked: list[tuple[str, list[str]]] = []

    def main(shift: str, arguments: list[str]) -> int:
        asked.append((shift, arguments))
        return 4

    monkeypatch.setattr(dates, "main", main)
    assert lab.main(["--date", "-40d", "--", "tests/unit", "-k", "retry"]) == 4
    assert asked == [("-40d", ["tests/unit", "-k", "retry"])]


def test_what_is_meant_for_pytest_needs_a_date(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        lab.main(["--seeds", "1", "simulation"])
    assert "unrecognized arguments: simulation" in capsys.readouterr().err


def test_a_library_of_another_make_is_refused() -> None:
    """Promise: a new version that has other hooks is not run as if it had none."""
    with pytest.raises(dates.NoOtherDate, match=r"pthread_cond_init.* is not in it"):
        dates.without_locks(b"\0clock_gettime\0")
