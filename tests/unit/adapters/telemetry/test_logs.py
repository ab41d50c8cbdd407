"""The log as a listener: what it says, at which level, and what it leaves alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import errors, facts
from holdfast.adapters.telemetry.listeners import KINDS, Listeners
from holdfast.adapters.telemetry.logs import LINES, SILENT, Log, logged

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
WHO = ("r", "work", "w", 3)
STEP = (*WHO, "pay:1", "pay", 2)
BROKEN = ValueError("odd")

SAID: list[tuple[facts.Fact, int, str]] = [
    (facts.RunClaimed(*WHO), logging.INFO, "run r: claimed"),
    (facts.RunTakenOver(*WHO), logging.INFO, "run r: taken over"),
    (facts.RunParked(*WHO, NOW), logging.INFO, "run r: parked until 2026-01-01 12:00:00 UTC"),
    (facts.RunParked(*WHO, None), logging.INFO, "run r: parked"),
    (facts.RunReleased(*WHO), logging.INFO, "run r: released"),
    (facts.RunEnded(*WHO, "completed"), logging.INFO, "run r: completed"),
    (
        facts.RunFailed(*WHO, "ValueError", "odd", "", "shop.py:3"),
        logging.ERROR,
        "run r: failed: ValueError: odd (shop.py:3). More: holdfast show r",
    ),
    (
        facts.RunFailed(*WHO, "NotAllowedHere", "pay (shop.py:3) would block", "", "shop.py:3"),
        logging.ERROR,
        "run r: failed: NotAllowedHere: pay (shop.py:3) would block. More: holdfast show r",
    ),
    (
        facts.RunPaused(*WHO, "diverged", "it asks.", True),
        logging.WARNING,
        "run r: paused (diverged): it asks. More: holdfast show r",
    ),
    (
        facts.RunPaused(*WHO, "diverged", "it asks.", False),
        logging.ERROR,
        "run r: paused (diverged): it asks. More: holdfast show r",
    ),
    (facts.RunFenced(*WHO, "fenced by epoch 4"), logging.WARNING, "run r: fenced by epoch 4; dropped"),
    (facts.RunPutOff("r", "contended", "worker v holds it"), logging.INFO, "run r: not touched, worker v holds it"),
    (facts.RunPutOff("r", "missing definition", "no code"), logging.WARNING, "run r: put off, no code"),
    (
        facts.SignalLost(*WHO, "signal go to run s", "ended"),
        logging.WARNING,
        "run r: signal go to run s was not delivered: the run is ended",
    ),
    (facts.StepStarted(*STEP), logging.INFO, "run r: step pay:1 started, attempt 2"),
    (facts.StepCompleted(*STEP, 0.1), logging.INFO, "run r: step pay:1 completed"),
    (
        facts.AttemptFailed(*STEP, "ValueError", "odd", "", "shop.py:3", BROKEN, NOW, 0.1),
        logging.WARNING,
        "run r: step pay:1 failed, attempt 2: ValueError: odd (shop.py:3); tried again at 12:00:00 UTC",
    ),
    (
        facts.AttemptFailed(*STEP, "ValueError", "odd", "", "", BROKEN, None, None),
        logging.WARNING,
        "run r: step pay:1 failed, attempt 2: ValueError: odd; it is not tried again",
    ),
    (
        facts.WorkerStarted("w", ("a", "b"), ("default",), 100, "sqlite:////shop.db"),
        logging.INFO,
        "worker w: serving a, b on default, 100 slots, store sqlite:////shop.db",
    ),
    (
        facts.RunsFreed("w", 3, were_own=False),
        logging.INFO,
        "worker w: 3 run(s) of workers that disappeared are free again",
    ),
    (facts.RunsFreed("w", 3, were_own=True), logging.INFO, "worker w: 3 run(s) of its earlier instance are free"),
    (facts.HeartbeatFailed("w", BROKEN, 0.5), logging.WARNING, "heartbeat failed, retrying in 0.5 s: odd"),
    (facts.Trouble("claiming failed", BROKEN), logging.WARNING, "claiming failed: odd"),
    (facts.Trouble("no snapshot made", BROKEN, run="r"), logging.WARNING, "run r: no snapshot made: odd"),
    (
        facts.Trouble("heartbeat broke", BROKEN, worker="w", is_bug=True),
        logging.ERROR,
        "worker w: heartbeat broke: odd",
    ),
]
IDS = [f"{type(fact).__name__}-{number}" for number, (fact, _, _) in enumerate(SAID)]


@pytest.fixture
def loggers() -> Iterator[None]:
    """The levels as they were."""
    names = ("holdfast.worker", "holdfast.store")
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.parametrize(("fact", "level", "text"), SAID, ids=IDS)
def test_the_log_says_what_happened(fact: facts.Fact, level: int, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: level and words of each fact."""
    caplog.set_level(logging.INFO, "holdfast")
    Log().on(fact)
    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (level, text)


def test_every_kind_is_said_or_left_out_on_purpose() -> None:
    """Contract: a new fact needs a line of the log, or a place among those without one."""
    assert {*LINES, *SILENT} == set(KINDS)
    assert not {*LINES} & SILENT


def test_the_name_of_a_line_is_not_the_message_of_structlog(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: `event` is structlog's message; the name of a line is `fact`, and its fields are beside it."""
    caplog.set_level(logging.INFO, "holdfast")
    Log().on(facts.StepStarted(*STEP))
    fields = vars(caplog.records[0])
    assert "event" not in fields
    wanted = {"fact": "step started", "run": "r", "workflow": "work", "worker": "w", "epoch": 3, "step": "pay:1"}
    assert wanted.items() <= fields.items()


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL])
@pytest.mark.usefixtures("loggers")
def test_only_what_is_logged_is_wanted(level: int) -> None:
    """Promise: a failed or paused run is wanted whenever its level is on; a step is not built for a log that is off."""
    logging.getLogger("holdfast.worker").setLevel(level)
    wanted = logged().wanted
    assert (facts.StepStarted in wanted) is (level <= logging.INFO)
    assert (facts.AttemptFailed in wanted) is (level <= logging.WARNING)
    assert (facts.RunPaused in wanted) is (level <= logging.WARNING)
    assert (facts.RunFailed in wanted) is (level <= logging.ERROR)


@pytest.mark.usefixtures("loggers")
def test_a_level_that_changes_is_noticed() -> None:
    """Promise: at the next claim."""
    logging.getLogger("holdfast.worker").setLevel(logging.WARNING)
    telemetry = logged()
    logging.getLogger("holdfast.worker").setLevel(logging.INFO)
    assert facts.StepStarted not in telemetry.wanted
    telemetry.refresh()
    assert facts.StepStarted in telemetry.wanted


@pytest.mark.parametrize("level", [logging.WARNING, logging.CRITICAL])
@pytest.mark.usefixtures("loggers")
def test_what_is_wanted_is_worked_out_once(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: each claim asks, and gets the answer of last time while the levels are the same, also if all are off."""
    for name in ("holdfast.worker", "holdfast.store"):
        logging.getLogger(name).setLevel(level + 1)
    logged()
    monkeypatch.setattr(Log, "_wanted", lambda _: pytest.fail("worked out again"))
    logged().refresh()


def test_error_trackers_see_an_exception(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: of an attempt its own error; of one in another process, and of a run, one that says as much."""
    Log().on(facts.AttemptFailed(*STEP, "ValueError", "odd", "", "", BROKEN, NOW, None))
    Log().on(facts.AttemptFailed(*STEP, "ValueError", "odd", "Traceback …", "", None, NOW, None))
    Log().on(facts.RunFailed(*WHO, "ValueError", "odd", "", ""))
    errors_seen = [x.exc_info[1] for x in caplog.records if x.exc_info]
    assert errors_seen[0] is BROKEN
    assert isinstance(errors_seen[1], errors.StepFailed)
    assert errors_seen[1].__notes__ == ["Traceback …"]
    assert isinstance(errors_seen[2], errors.RunFailed)
    assert "ValueError: odd" in str(errors_seen[2])


def test_failing_checkpoints_are_said_sparingly(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: one traceback, then a line whenever their number has doubled."""
    caplog.set_level(logging.INFO, "holdfast.store")
    for failures in range(1, 36):
        Log().on(facts.CheckpointFailed(BROKEN, failures))
    assert [x.exc_info is not None for x in caplog.records] == [True, False, False, False, False, False]
    assert caplog.records[-1].getMessage().startswith("32 checkpoints of the store failed in a row")


@pytest.mark.parametrize(
    ("failed", "last"),
    [
        (lambda failures: facts.HeartbeatFailed("w", BROKEN, 0.5, failures), "32 heartbeats failed in a row, "),
        (
            lambda failures: facts.Trouble("claiming failed", BROKEN, failures=failures),
            "claiming failed (32 times in a",
        ),
    ],
)
def test_what_fails_again_and_again_is_said_sparingly(
    failed: Callable[[int], facts.Fact], last: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: a store whose file was deleted is told whole once, then a line whenever the failures have doubled."""
    caplog.set_level(logging.INFO, "holdfast.worker")
    for failures in range(1, 36):
        Log().on(failed(failures))
    assert len(caplog.records) == 6
    assert caplog.records[-1].getMessage().startswith(last)


class Ear:
    name = "Ear"

    def __init__(self, error: Exception | None = None) -> None:
        self.heard: list[Any] = []
        self.error = error

    def wanted(self) -> frozenset[type[facts.Fact]]:
        return frozenset(KINDS)

    def on(self, fact: facts.Fact) -> None:
        self.heard.append(fact)
        if self.error is not None:
            raise self.error


def test_a_listener_that_raises_hurts_nobody() -> None:
    """Promise: the others hear everything; the failure is told once for each kind, also to the one that fails."""
    broken, ear = Ear(BROKEN), Ear()
    listeners = Listeners([broken, ear])
    claimed, released = facts.RunClaimed(*WHO), facts.RunReleased(*WHO)
    for fact in (claimed, claimed, released):
        listeners.tell(fact)
    told = [x for x in ear.heard if isinstance(x, facts.HookFailed)]
    assert [x.place for x in told] == ["on(HookFailed)", "on(RunClaimed)", "on(RunReleased)"]
    assert [x for x in ear.heard if x not in told] == [claimed, claimed, released]
