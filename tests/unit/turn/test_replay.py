"""One replay, resumable: it names what it needs, goes through a journal at once or turn by turn, and ends alike."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.authoring.registry import Registry
from holdfast.authoring.script.steps import step
from holdfast.authoring.script.verbs import sleep
from holdfast.authoring.script.workflows import workflow
from holdfast.core.fold import fold
from holdfast.core.payload import MAX_INLINE
from holdfast.core.snapshot import advance, to_snapshot
from holdfast.core.specs import WorkflowSpec
from holdfast.core.turn import Row, Turn, encode_events, micros
from holdfast.errors import BlobNotFound, CorruptJournal
from holdfast.turn.history import Journal, Load, Loaded
from holdfast.turn.payloads import offload
from holdfast.turn.replay import Missing, Parted, Replay, Replayed
from tests.support.pure import SETTINGS, PureRun

LARGE = "x" * (MAX_INLINE + 1)


@step
async def one(text: str) -> str:
    return text


@step
async def two(text: str) -> str:
    return text


@workflow(name="flow")
async def old() -> str:
    first = await one("a")
    await sleep("1h")
    return first + await one("b")


@workflow(name="flow")
async def new() -> str:
    first = await one("a")
    await sleep("1h")
    return first + await two("b")


@workflow(name="flow")
async def large() -> int:
    return len(await one(LARGE))


def spec_of(flow: Any) -> WorkflowSpec:
    spec: WorkflowSpec = flow.spec
    return spec


def journal_of(flow: Any) -> list[Turn]:
    return PureRun(flow()).finish().turns


def replay_of(turns: list[Turn], *served: Any) -> Replay:
    registry = Registry(spec_of(flow) for flow in served)
    return Replay(Loaded(fold(turns[0].run, turns), turns), registry, SETTINGS)


def rows_of(turns: list[Turn]) -> list[Row]:
    return [Row(x.run, x.ordinal, x.epoch, micros(x.at), 2, x.checksum, encode_events(x.events)) for x in turns]


def test_a_walk_ends_where_a_replay_at_once_does() -> None:
    """Promise: turn by turn or at once, the program stands at the same place."""
    turns = journal_of(old)[:-1]
    at_once = replay_of(turns, old)
    assert isinstance(at_once.finish(), Replayed)
    walk = replay_of(turns, old)
    gone: list[int] = []
    while (turn := walk.step()) is not None:
        gone.append(turn.ordinal)
    assert gone == [turn.ordinal for turn in turns[1:]]
    assert isinstance(walk.result, Replayed)
    assert at_once.program is not None
    assert walk.program is not None
    assert list(walk.program.open_steps()) == list(at_once.program.open_steps()) == ["one:1"]
    assert walk.close()
    assert at_once.close()


def test_a_walk_may_be_finished_at_once() -> None:
    """Promise: whoever has seen enough goes to the end, and no turn is gone through twice."""
    replay = replay_of(journal_of(old)[:-1], old)
    assert replay.step() is not None
    assert isinstance(replay.finish(), Replayed)
    assert replay.step() is None
    assert replay.close()


def test_a_difference_has_both_sides() -> None:
    """Promise: what the journal holds, what the code asked for, in which row, at which line."""
    for walks in (False, True):
        replay = replay_of(journal_of(old), new)
        while walks and replay.step() is not None:
            pass
        result = replay.finish()
        assert isinstance(result, Parted)
        assert result.row == 4
        assert "step 'one' (key 'one:1')" in result.journal
        assert "step 'two' (key 'two')" in result.code
        assert "test_replay.py" in result.where
        assert result.journal in str(result.error)
        assert replay.program is None


def test_a_workflow_that_is_not_served_is_missing() -> None:
    replay = replay_of(journal_of(old))
    assert isinstance(replay.result, Missing)
    assert "flow" in replay.result.note
    assert replay.step() is None
    assert replay.finish() is replay.result


def test_payloads_are_named_and_given() -> None:
    """Promise: nothing is read; a payload that is not in place is asked for by name, and its lack is an error."""
    blobs: dict[str, bytes] = {}
    plain = journal_of(large)
    turns = [
        Turn(x.run, x.ordinal, x.epoch, x.at, tuple(offload(event, blobs) for event in x.events), x.checksum)
        for x in plain
    ]
    assert blobs
    replay = replay_of(turns, large)
    assert replay.needs <= set(blobs)
    assert replay.needs
    with pytest.raises(AssertionError, match="blobs are needed first"):
        replay.finish()
    with pytest.raises(BlobNotFound, match=turns[0].run):
        replay.give({})
    replay.give(blobs)
    assert not replay.needs
    assert isinstance(replay.finish(), Replayed)
    assert replay.close()


def test_a_snapshot_is_loaded_with_its_segments() -> None:
    """Promise: a snapshot names its segments, and with them and the rows after it the run is the same."""
    turns = journal_of(old)
    run = turns[0].run
    past, blobs = advance(run, None, turns[:3])
    snapshot = to_snapshot(past, turns[2].ordinal, turns[2].checksum)
    load = Load(run, Journal(rows_of(turns)[2:], snapshot, end=len(turns)))
    assert set(load.needs) == set(blobs)
    load.give(blobs)
    assert load.result is not None
    assert load.result.run == fold(run, turns)


@pytest.mark.parametrize("harm", ["lost segment", "segment not found", "other rows"])
def test_a_bad_snapshot_is_given_up_for_the_rows(harm: str) -> None:
    """Promise: a snapshot is an abbreviation; whatever is wrong with it, the journal says the same."""
    turns = journal_of(old)
    run, rows = turns[0].run, rows_of(turns)
    past, blobs = advance(run, None, turns[:3])
    covered = turns[1] if harm == "other rows" else turns[2]
    load = Load(run, Journal(rows[2:], to_snapshot(past, covered.ordinal, covered.checksum)))
    if harm == "lost segment":
        load.give({})
    elif harm == "segment not found":
        load.give(BlobNotFound(next(iter(blobs))))
    assert load.bad_snapshot is not None
    assert load.result is None
    load.give_rows(rows)
    assert load.bad_snapshot is None
    assert load.result is not None
    assert load.result.run == fold(run, turns)


def test_a_journal_that_ends_too_early_is_corrupt() -> None:
    turns = journal_of(old)
    with pytest.raises(CorruptJournal, match=f"{len(turns)} row"):
        Load(turns[0].run, Journal(rows_of(turns)[:-1], end=len(turns)))
