"""Group commit: turns go together, in order, and again until they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from holdfast.adapters.telemetry.logs import logged
from holdfast.core.projection import Projection
from holdfast.core.turn import Row
from holdfast.engine import committer as module
from holdfast.engine.committer import Committer
from holdfast.errors import DiskFull, StoreContended, StoreError, StoreUnavailable
from holdfast.ports.journal import Commit, Committed, Fenced, Journal, Refused, Verdict


class ScriptedJournal:
    """Raises what it was given, one error a call; then answers, every commit by its run."""

    def __init__(self, *errors: StoreError) -> None:
        self.errors = list(errors)
        self.sent: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def commit(self, batch: Sequence[Commit]) -> list[Verdict]:
        self.sent.append([commit.row.run for commit in batch])
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        return [Fenced(9, 9) if x.row.run == "fenced" else Committed(len(self.sent), 0) for x in batch]


def turn(run: str) -> Commit:
    row = Row(run, 2, 1, 0, 1, b"", b"[]")
    return Commit(no=1, row=row, after=b"", projection=cast("Projection", None))


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.0)


def started(*errors: StoreError) -> tuple[Committer, ScriptedJournal, list[tuple[str, Verdict]]]:
    journal = ScriptedJournal(*errors)
    return Committer(cast("Journal", journal), logged()), journal, []


async def test_turns_of_one_moment_share_a_transaction() -> None:
    """Promise: what is ready together goes together; each gets its own verdict, in order."""
    committer, journal, heard = started()
    for run in ("a", "fenced", "b"):
        committer.submit(turn(run), _hears(heard, run))
    await committer.settle(5)
    assert journal.sent == [["a", "fenced", "b"]]
    assert heard == [("a", Committed(1, 0)), ("fenced", Fenced(9, 9)), ("b", Committed(1, 0))]


async def test_what_queues_during_a_transaction_goes_with_the_next() -> None:
    """Promise: there is no timer: the next transaction takes all that came meanwhile."""
    committer, journal, heard = started()
    journal.gate.clear()
    committer.submit(turn("a"), lambda _: heard.append(("a", Committed(0, 0))))
    await asyncio.sleep(0)
    for run in ("b", "c"):
        committer.submit(turn(run), _hears(heard, run))
    journal.gate.set()
    await committer.settle(5)
    assert journal.sent == [["a"], ["b", "c"]]
    assert [run for run, _ in heard] == ["a", "b", "c"]


async def test_two_turns_of_a_run_never_share_a_transaction() -> None:
    """Promise: a store is given one turn of each run at a time. A worker may have two: it lost a run while the store
    did not answer, and took it again."""
    committer, journal, heard = started()
    for run in ("a", "b", "a", "c", "a"):
        committer.submit(turn(run), _hears(heard, run))
    await committer.settle(5)
    assert journal.sent == [["a", "b"], ["a", "c"], ["a"]]
    assert [run for run, _ in heard] == ["a", "b", "a", "c", "a"]


@pytest.mark.parametrize("error", [StoreUnavailable("busy"), DiskFull("full")])
async def test_the_same_commit_is_sent_again_until_it_is_answered(error: StoreError) -> None:
    """Promise: nothing overtakes a commit that was not accepted, and nothing is lost."""
    committer, journal, heard = started(error, error, error)
    committer.submit(turn("a"), lambda _: heard.append(("a", Committed(0, 0))))
    await asyncio.sleep(0)
    committer.submit(turn("b"), lambda _: heard.append(("b", Committed(0, 0))))
    await committer.settle(5)
    assert journal.sent == [["a"], ["a"], ["a"], ["a"], ["b"]]
    assert [run for run, _ in heard] == ["a", "b"]


class PickyJournal(ScriptedJournal):
    """Refuses the turns of these runs: one that is sent alone by raising, as the contract has it. One that `breaks`
    raises for a whole batch, which the contract does not."""

    def __init__(self, error: Exception, *refused: str, breaks: bool = False) -> None:
        super().__init__()
        self.error = error
        self.refused = set(refused)
        self.breaks = breaks

    async def commit(self, batch: Sequence[Commit]) -> list[Any]:
        verdicts = await super().commit(batch)
        found = [Refused(self.error) if x.row.run in self.refused else y for x, y in zip(batch, verdicts, strict=True)]
        if any(isinstance(each, Refused) for each in found) and (self.breaks or len(batch) == 1):
            raise self.error
        return found


@pytest.mark.parametrize(
    "error", [StoreContended("locked"), StoreError("no such value"), ValueError("a bug of the adapter")]
)
@pytest.mark.parametrize("breaks", [False, True])
async def test_a_turn_that_is_refused_stops_no_other(error: Exception, breaks: bool) -> None:
    """Promise: if the store refuses one turn, because of somebody's lock or of what it brings, the others are written
    without it, those that come later too, and it is tried again until it is taken. Even if the store breaks its word
    and refuses them all."""
    journal, heard = PickyJournal(error, "b", breaks=breaks), list[tuple[str, Verdict]]()
    committer = Committer(cast("Journal", journal), logged())
    for run in "abc":
        committer.submit(turn(run), _hears(heard, run))
    await _until(lambda: len(heard) == 2)
    committer.submit(turn("d"), _hears(heard, "d"))
    await _until(lambda: len(heard) == 3)
    assert [run for run, _ in heard] == ["a", "c", "d"]
    assert journal.sent[0] == ["a", "b", "c"]
    assert sum("a" in batch for batch in journal.sent) == (2 if breaks else 1)
    journal.refused.clear()
    await committer.settle(5)
    assert [run for run, _ in heard] == ["a", "c", "d", "b"]
    assert not any("b" in batch and len(batch) > 1 for batch in journal.sent[1:])


async def test_settling_gives_up_turns_that_wait_aside(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: a turn that is never taken keeps no worker from stopping."""
    journal, heard = PickyJournal(StoreContended("locked"), "a"), list[tuple[str, Verdict]]()
    committer = Committer(cast("Journal", journal), logged())
    committer.submit(turn("a"), _hears(heard, "a"))
    await _until(lambda: len(journal.sent) > 2)
    await committer.settle(0.01)
    assert "given up" in caplog.text
    sent = len(journal.sent)
    await committer.settle(5)
    assert (heard, len(journal.sent)) == ([], sent)


async def test_a_session_that_breaks_on_its_verdict_takes_no_other_with_it(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: the others hear their verdicts."""
    committer, _, heard = started()

    def breaks(_: Verdict) -> None:
        raise RuntimeError("surprise")

    committer.submit(turn("a"), breaks)
    committer.submit(turn("b"), lambda verdict: heard.append(("b", verdict)))
    await committer.settle(5)
    assert [run for run, _ in heard] == ["b"]
    assert "run a: its session broke on a verdict" in caplog.text


async def test_a_transaction_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a great many turns are spread over transactions, in order."""
    monkeypatch.setattr(module, "MOST", 2)
    committer, journal, _ = started()
    for run in "abcde":
        committer.submit(turn(run), _ignore)
    await committer.settle(5)
    assert journal.sent == [["a", "b"], ["c", "d"], ["e"]]


async def test_settling_ends_although_the_store_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: what is not accepted in time is given up, and said."""
    committer, journal, heard = started()
    journal.gate.clear()
    committer.submit(turn("a"), lambda verdict: heard.append(("a", verdict)))
    await committer.settle(0.01)
    assert heard == []
    assert "given up" in caplog.text
    await committer.settle(5)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 another task works
            await asyncio.sleep(0)


def _hears(heard: list[tuple[str, Verdict]], run: str) -> Callable[[Verdict], None]:
    return lambda verdict: heard.append((run, verdict))


def _ignore(_: Any) -> None:
    return None
