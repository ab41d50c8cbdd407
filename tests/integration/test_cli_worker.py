"""`holdfast worker` as a process: what it says, and how it goes when it is told to."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Status
from tests.integration.cli_app import approval, approved, hello
from tests.integration.cli_app_processes import PATIENCE, Place

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (debug|info|warning|error) +\S")
RAW = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202e]")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 another process makes it true
            await asyncio.sleep(0.01)


@pytest.mark.spec("openworkflow.O32")
async def test_sigterm_hands_a_running_run_to_another_worker(place: Place) -> None:
    """Contract: the body in flight ends and is committed, the run is free at once, another worker goes on."""
    place.start("handed_over", "release=go", "--id", "r")
    with place.worker("--log-format", "json", "--id", "a") as first:
        first.event("step started", run="r")
        first.send(signal.SIGTERM)
        first.event("stopping", worker="a")
        (place.folder / "go").touch()
        first.event("released", run="r", workflow="handed_over", worker="a", epoch=1)
        assert first.code() == 0
    with place.worker("--id", "b") as second:
        async with place.app() as app:
            assert await (await app.get("r")).result(PATIENCE) == second.pid
            turns = [event async for event in (await app.get("r")).follow()]
    assert [event.data["worker"] for event in turns if event.type == "claimed"] == ["a", "b"]
    assert [event.data["key"] for event in turns if event.type == "done"] == ["slow", "slow:1"]


async def test_sigterm_hands_a_parked_run_over_and_its_log_lines_are_not_repeated(place: Place) -> None:
    """Contract: a second worker replays in silence what the first one said, and goes on aloud."""
    place.start("approval", "name=x", "--id", "r")
    with place.worker() as first:
        first.line("asking for x", "run=r", "workflow=approval")
        first.line("run r: parked", "workflow=approval", "epoch=1")
        first.send(signal.SIGTERM)
        assert first.code() == 0
    with place.worker() as second:
        async with place.app() as app:
            run = await app.get("r", approval)
            await run.signal(approved, True)
            assert await run.result(PATIENCE) == "x: True"
        second.line("answered x", "run=r")
        second.line("run r: completed")
        second.send(signal.SIGINT)
        assert second.code() == 0
        assert not [line for line in second.lines if "asking for" in line]


@pytest.mark.spec("openworkflow.O33")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 1), (signal.SIGHUP, 1), (signal.SIGINT, 130)], ids=["term", "hup", "int"]
)
@pytest.mark.parametrize("kind", ["text", "json"])
def test_a_second_signal_exits_now(place: Place, number: signal.Signals, code: int, kind: str) -> None:
    """Contract: the first one waits for the body, the second one does not, and says why."""
    place.start("handed_over", "release=never")
    with place.worker("--log-format", kind) as worker:
        worker.line("step slow started")
        worker.send(number)
        worker.line("stopping", number.name)
        worker.send(number)
        assert worker.code() == code
        assert f"{number.name} again: exiting now" in worker.lines[-1]
        assert kind == "text" or json.loads(worker.lines[-1])["event"] == "killed"


def test_a_second_signal_ends_a_worker_whose_loop_is_blocked(place: Place) -> None:
    """Contract: author's code that never lets go of the event loop cannot keep the process."""
    place.start("blocked")
    with place.worker() as worker:
        worker.line("the event loop has been blocked", "blocks")
        worker.send(signal.SIGTERM)
        worker.send(signal.SIGHUP)  # another one: two of a kind may arrive as one
        assert worker.code() == 1
        assert "again: exiting now" in worker.lines[-1]


def test_a_thread_that_never_ends_does_not_keep_the_process(place: Place) -> None:
    """Contract: after the grace time the worker is gone, whatever its bodies do."""
    place.start("hangs", "--id", "r")
    with place.worker("--grace", "100ms") as worker:
        worker.line("step stuck started")
        worker.send(signal.SIGTERM)
        assert worker.code() == 0
        assert "left behind" in worker.lines[-1]


async def test_ctrl_c_is_for_the_worker_and_not_for_its_bodies(place: Place) -> None:
    """Contract: a step in a process of its own ends its slice, and the log holds nothing but the log."""
    place.start("outside", "release=go", "--id", "r")
    with place.worker("--log-format", "json") as worker:
        worker.event("step started", run="r")
        await until((place.folder / "begun").exists)
        worker.interrupt()
        worker.event("stopping")
        (place.folder / "go").touch()
        assert worker.code() == 0
        assert all(json.loads(line) for line in worker.lines)
    told = json.loads(place.ok("show", "r", "--json"))
    assert [event["type"] for event in told["events"] if event["type"] in {"done", "step_failed"}] == ["done"]


@pytest.mark.spec("stem.S3")
def test_json_lines_hold_the_fields(place: Place) -> None:
    """Contract: every line is an object, and every event of a run names the run, workflow, worker and epoch."""
    with place.worker("--log-format", "json", "--id", "w") as worker:
        place.start("hello", "name=x", "--id", "one")
        place.start("approval", "name=x", "--id", "two")
        worker.event("finished", run="one")
        worker.event("parked", run="two")
        worker.send(signal.SIGTERM)
        assert worker.code() == 0
    records: list[dict[str, Any]] = [json.loads(line) for line in worker.lines]
    for record in records:
        assert {"time", "level", "event", "message", "logger"} <= record.keys()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["time"])
    assert [record["event"] for record in records[:2] + records[-1:]] == ["new store", "started", "stopped"]
    told = [record for record in records if record.get("run") == "one"]
    assert [record["event"] for record in told] == ["claimed", "step started", "log", "step ended", "finished"]
    for record in told:
        assert record["workflow"] == "hello"
        assert record["event"] == "log" or (record["worker"], record["epoch"]) == ("w", 1)
    author = next(record for record in told if record["event"] == "log")
    assert author | {"message": "greeting x", "step": "greet", "attempt": 1, "logger": "holdfast.run"} == author


HOSTILE = "a\n2026-01-01T00:00:00.000Z info    run x: completed\r\x1b[2J\x9b\u202e\u2028end\x07"


def test_no_data_breaks_a_line_of_text(place: Place) -> None:
    """Contract: newlines and control sequences in messages and tracebacks cannot forge a line or reach a terminal."""
    with place.worker() as worker:
        place.start("shouts", "--input", json.dumps([HOSTILE]), "--id", "r")
        worker.line("run r: completed")
        worker.send(signal.SIGTERM)
        assert worker.code() == 0
    for line in worker.lines:
        assert STAMP.match(line) or line.startswith("    | "), line
        assert not RAW.search(line)
    said = [line for line in worker.lines if "run=r" in line]
    assert len(said) == 3
    assert "a\\n2026-01-01T00:00:00.000Z info" in said[0]
    assert "badly %d formatted (arguments do not fit" in said[1]


def test_no_data_breaks_a_line_of_json(place: Place) -> None:
    """Contract: the same, one object per line; the traceback is inside, and our fields cannot be overwritten."""
    with place.worker("--log-format", "json") as worker:
        place.start("shouts", "--input", json.dumps([HOSTILE]), "--id", "r")
        worker.event("finished", run="r")
        worker.send(signal.SIGTERM)
        assert worker.code() == 0
    records = [json.loads(line) for line in worker.lines]
    assert not any(RAW.search(line) for line in worker.lines)
    said = [record for record in records if record["logger"] == "holdfast.run"]
    assert said[0]["message"] == HOSTILE
    assert said[1]["time_"] == "mine"
    assert said[1]["odd"] == "nan"
    assert said[2]["traceback"].startswith("Traceback (most recent call last):")


async def test_a_log_that_nobody_reads_stops_nothing(place: Place) -> None:
    """Contract: a worker whose standard error is gone goes on working, and still stops in order."""
    place.start("hello", "name=x", "--id", "r")
    with place.process("worker", "cli_app:app", is_heard=False) as worker:
        async with place.app() as app:
            assert await (await app.get("r", hello)).result(PATIENCE) == "hello x"
        worker.send(signal.SIGTERM)
        assert worker.code() == 0


def test_a_signal_that_is_ignored_from_the_start_stays_ignored(place: Place) -> None:
    """Contract: under nohup, a hang-up does not stop the worker."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with place.worker() as worker:
            worker.send(signal.SIGHUP)
            place.start("hello", "name=x", "--id", "r")
            worker.line("run r: completed")
            worker.send(signal.SIGTERM)
            assert worker.code() == 0
        assert not [line for line in worker.lines if "SIGHUP" in line]
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_a_worker_serves_the_queues_it_is_given(place: Place) -> None:
    """Contract: `--queue` may be repeated, and what is not named is left alone."""
    other = place.start("hello", "name=x")
    slow = place.start("hello", "name=x", "--queue", "slow")
    fast = place.start("hello", "name=x", "--queue", "fast")
    with place.worker("--queue", "slow", "--queue", "fast") as worker:
        worker.line(f"run {slow}: completed")
        worker.line(f"run {fast}: completed")
    async with place.app() as app:
        assert await (await app.get(other)).status() is Status.PENDING


def test_the_level_decides_what_is_said(place: Place) -> None:
    """Contract: `--log-level warning` leaves out the daily round."""
    with place.process("worker", "cli_app:app", "--log-level", "warning") as worker:
        place.start("shouts", "text=loud")
        worker.line("caught")
        worker.send(signal.SIGTERM)
        assert worker.code() == 0
    assert not [line for line in worker.lines if " info " in line]


@pytest.mark.parametrize("kind", ["text", "json"])
def test_a_worker_that_cannot_begin_says_why_in_its_format(place: Place, kind: str) -> None:
    """Contract: no traceback; in a JSON log the reason is an object too."""
    (place.folder / "store.db").write_bytes(b"this is no database at all" * 100)
    answer = place.run("worker", "cli_app:app", "--log-format", kind)
    assert answer.returncode == 1
    [line] = answer.stderr.splitlines()
    assert "store.db" in line
    assert json.loads(line)["event"] == "failed" if kind == "json" else line.startswith("error: ")
