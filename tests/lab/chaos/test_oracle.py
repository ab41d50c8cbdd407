"""The oracle of the chaos level on histories made up for it: each way in which a store or a worker could fail its users
is reported, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.events import AnyEvent
from holdfast.core.turn import Turn
from tests.lab.chaos.campaign import FLOORS, report_of
from tests.lab.chaos.oracle import Act, Evidence, judged, p99, recoveries, takeovers
from tests.lab.chaos.season import Outcome
from tests.lab.chaos.work import Entry

START = datetime(2026, 1, 1, tzinfo=UTC)
RUN = "r"


def turn(ordinal: int, epoch: int, *events: AnyEvent, seq: int | None = None) -> Turn:
    at = START + timedelta(seconds=10 * ordinal)
    return Turn(RUN, ordinal, epoch, at, events, b"", ordinal if seq is None else seq)


def entry(what: str, at: float, *, key: str = "a", attempt: int = 1, epoch: int = 1, pid: int = 1) -> Entry:
    key, attempt = ("-", 0) if what in {"claim", "fenced"} else (key, attempt)
    return Entry(what, RUN, key, attempt, epoch, pid, at, START.timestamp() + at)


DONE = e.Completed(value=msgspec.Raw(b"7"))
JOURNAL = (
    turn(1, 0, e.Started(workflow="w")),
    turn(2, 1, e.Claimed(worker="w1"), e.StepScheduled(key="a")),
    turn(3, 2, e.Claimed(worker="w2", restarted=("a",))),
    turn(4, 2, e.SignalReceived(message="m", name="approved")),
    turn(5, 2, e.StepCompleted(key="a"), DONE),
)
LEDGER = (
    entry("claim", 15),
    entry("start", 21),
    entry("claim", 25, epoch=2, pid=2),
    entry("start", 31, attempt=2, epoch=2, pid=2),
    entry("end", 45, attempt=2, epoch=2, pid=2),
    entry("fenced", 60),
)
ACTS = (Act("stop", 22, 1, 50),)
SLOT = "pulse@2026-01-01T00:00:01+00:00"
SLOT_JOURNAL = (turn(1, 0, e.Started(workflow="w"), DONE),)
FAIR = Evidence(
    {RUN: 7, SLOT: 7},
    [(RUN, "m")],
    {RUN: JOURNAL, SLOT: SLOT_JOURNAL},
    {RUN: 7, SLOT: 7},
    {},
    LEDGER,
    ACTS,
    [SLOT],
)


def with_journal(*turns: Turn) -> Evidence:
    return replace(FAIR, journals={RUN: turns, SLOT: SLOT_JOURNAL})


def with_entry(*more: Entry) -> Evidence:
    return replace(FAIR, ledger=[*LEDGER, *more])


def without(what: str) -> Evidence:
    return replace(FAIR, ledger=[each for each in LEDGER if each.what != what])


def put(place: int, changed: Turn) -> Sequence[Turn]:
    return [*JOURNAL[:place], changed, *JOURNAL[place + 1 :]]


LATE = turn(6, 1, e.TimerFired(key="t"))
AGAIN = turn(5, 2, e.StepCompleted(key="a"), e.StepCompleted(key="a"), DONE)

WRONG: dict[str, tuple[Evidence, str]] = {
    "a lost start": (replace(FAIR, acked={**FAIR.acked, "gone": 1}), "run gone: acknowledged, and lost"),
    "a lost slot": (replace(FAIR, journals={RUN: JOURNAL}), f"run {SLOT}: acknowledged, and lost"),
    "a run of no slot": (replace(FAIR, slots=[]), f"run {SLOT}: C6: there is no such slot"),
    "an empty journal": (with_journal(), "acknowledged, and lost"),
    "a lost signal": (replace(FAIR, signals=[(RUN, "m"), (RUN, "n")]), "signal n was acknowledged, and lost"),
    "a doubled signal": (with_journal(*put(2, JOURNAL[3]), turn(6, 2)), "signal m is in the journal 2 times"),
    "a gap": (with_journal(*JOURNAL[:3], JOURNAL[4]), "S1: its ordinals are [1, 2, 3, 5]"),
    "a row twice": (with_journal(*JOURNAL[:4], JOURNAL[3], JOURNAL[4]), "S1: its ordinals are [1, 2, 3, 4, 4, 5]"),
    "seqs out of order": (with_journal(*put(3, turn(4, 2, *JOURNAL[3].events, seq=2))), "S1: row 4 has seq 2, after 3"),
    "an epoch nobody claimed": (with_journal(*put(2, turn(3, 2, e.TimerFired(key="t")))), "nobody claimed it"),
    "a zombie's row": (with_journal(*JOURNAL, LATE), "S3: row 6 is of epoch 1, written by process 1"),
    "an older epoch": (with_journal(*JOURNAL, LATE), "S4: row 6 is of epoch 1, after one of epoch 2"),
    "a run that diverged": (
        with_journal(*put(3, turn(4, 2, *JOURNAL[3].events, e.Paused(reason="diverged", detail="why")))),
        "S14: row 4 paused it, diverged: why",
    ),
    "a row after the end": (with_journal(*JOURNAL, turn(6, 2, e.TimerFired(key="t"))), "S10: its end is not the last"),
    "two ends": (with_journal(*JOURNAL, turn(6, 2, DONE)), "S10: it ended 2 times"),
    "no end": (with_journal(*JOURNAL[:4]), "it did not complete: its journal ends with SignalReceived"),
    "a step completed twice": (with_journal(*put(4, AGAIN)), "S7: a was completed 2 times"),
    "a completed step that ran again": (
        with_entry(entry("start", 70, attempt=3, epoch=3, pid=3)),
        "S7: a was completed under epoch 2, and began again under 3",
    ),
    "a completion without a body": (without("end"), "S7: a was completed before a body of it ended"),
    "more executions than attempts": (with_entry(entry("start", 70)), "S8: a ran 3 times, its journal knows of 2"),
    "an attempt by two workers": (with_entry(entry("start", 23)), "S8: attempt 1 of a began 2 times"),
    "an unknown attempt": (with_entry(entry("start", 33, attempt=9)), "S8: attempt 9 of a began, and its journal"),
    "an unknown step": (with_entry(entry("start", 33, key="b")), "S8: attempt 1 of b began, and its journal"),
    "an unknown run": (with_entry(entry("start", 33)._replace(run="x")), "run x: a body began, and there is no such"),
    "a wrong result": (replace(FAIR, results={RUN: 8, SLOT: 7}), "its result is 8, the model says 7"),
    "an unsound row": (replace(FAIR, unsound={RUN: "its row says otherwise"}), "verify says: its row says otherwise"),
}


def test_a_fair_history_is_not_reported() -> None:
    """Promise: a run that was taken over from a stopped worker and ended as it should gives no alarm."""
    assert judged(FAIR) == []
    assert takeovers(FAIR) == (1, 1)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_reported(name: str) -> None:
    """Promise: each way to lose, double or falsify something is reported for what it is."""
    found, expected = WRONG[name]
    problems = judged(found)
    assert any(expected in problem for problem in problems), problems


def test_recovery_is_timed_from_the_kill_to_the_next_body_elsewhere() -> None:
    """Promise: what a later fault delayed is left out, and counted; the rest is timed."""
    killed = replace(FAIR, acts=[Act("kill", 22, 1)])
    assert recoveries(killed) == ([9.0], 0)
    assert recoveries(replace(FAIR, acts=[Act("kill", 20, 1)])) == ([], 0), "no body was under way"
    assert recoveries(replace(FAIR, acts=[Act("kill", 22, 1), Act("kill", 30, 2)])) == ([], 1)
    assert recoveries(replace(FAIR, acts=[Act("kill", 22, 1), Act("restart", 26, until=28)])) == ([], 1)
    assert p99([float(number) for number in range(1, 201)]) == 199.0


def enough() -> list[Outcome]:
    counts: dict[str, Any] = {"kill": 75, "zombies": 10, "fenced": 10, "restart": 2, "cut": 25, "runs": 300}
    played = [Outcome(kind, 0, recovered=[1.0], kept=1.0) for kind in ("sqlite", "postgresql")]
    for one in played:
        one.counts.update(counts)
    return played


def test_a_campaign_below_a_floor_is_void() -> None:
    """Promise: too few kills, zombies, restarts, cuts or runs prove nothing, and the level says so."""
    assert report_of(enough()).problems == []
    for name, what in zip(FLOORS, ("kill", "kill", "zombies", "fenced", "restart", "cut", "runs"), strict=True):
        less = enough()
        less[name.endswith("PostgreSQL")].counts[what] -= 1
        assert [problem for problem in report_of(less).problems if f"{FLOORS[name] - 1} {name}" in problem], name
