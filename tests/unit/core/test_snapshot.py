"""Snapshots and stand-ins: whatever they leave out, a journal folds and replays as it did."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.fold import fold
from holdfast.core.passes import last_start, settled_prefix
from holdfast.core.snapshot import (
    Past,
    Snapshot,
    advance,
    from_snapshot,
    is_due,
    past_of,
    stand_in,
    to_snapshot,
    unfolded_past,
    unpacked,
)
from holdfast.core.turn import Row, Turn, decode_rows, encode_events
from holdfast.errors import CorruptJournal
from tests.golden.test_golden import FILES, FLOWS, read
from tests.support.pure import check_replays
from tests.unit.core.journals import Journal, at, attempt_failed, done, plain, raw, signal, started, step


def packed(turns: Sequence[Turn], *cuts: int) -> tuple[Past, dict[str, bytes]]:
    """The past of turns, taken in pieces that end at these cuts."""
    past: Past | None = None
    blobs: dict[str, bytes] = {}
    begin = 0
    for cut in cuts:
        past, more = advance(turns[-1].run, past, turns[begin:cut])
        blobs |= more
        begin = cut
    assert past is not None
    return past, blobs


def condensed(turns: Sequence[Turn], *cuts: int) -> list[Turn]:
    past, blobs = packed(turns, *cuts)
    return unpacked(turns[-1].run, past.segments, blobs)


def noisy(turns: list[Turn], seed: int) -> list[Turn]:
    """The same journal with the marks of workers that came and went, pauses and attempts that failed in between."""
    chance = random.Random(seed)
    rows: list[tuple[Any, tuple[e.AnyEvent, ...]]] = []
    for turn in turns:
        if rows and chance.random() < 0.3:
            rows.append((turn.at, (e.Claimed(worker="w"), e.Paused(reason="operator"))))
            rows.append((turn.at, (e.Resumed(actor="me"),)))
        claimed = (e.Claimed(worker="w"),) if rows and chance.random() < 0.4 else ()
        released = (e.Released(worker="w"),) if rows and chance.random() < 0.2 else ()
        inputs = tuple(x for x in turn.events if not isinstance(x, e.OUTPUTS))
        outputs = tuple(x for x in turn.events if isinstance(x, e.OUTPUTS))
        rows.append((turn.at, (*claimed, *inputs, *released, *outputs)))
    run = turns[-1].run
    return [Turn(run, number, 1, moment, events, b"") for number, (moment, events) in enumerate(rows, 1)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_condensed_turns_replay_to_the_same_commands(path: Path) -> None:
    """Contract: at every row of a golden journal, packed in one piece or in several, the same is asked for next."""
    journal, turns = read(path)
    spec = FLOWS[journal["workflow"]]
    for cut in range(1, len(turns)):
        for cuts in ((cut,), tuple(sorted({max(1, cut // 2), cut}))):
            kept = condensed(turns, *cuts)
            assert check_replays(spec, [*kept, *turns[cut:]], first=len(kept)) == len(turns) - cut


# After a continue_as, derived ids name its row, which the noise moves.
@pytest.mark.parametrize("path", [x for x in FILES if "continue_as" not in x.stem], ids=lambda path: path.stem)
def test_what_workers_did_to_a_run_is_left_out(path: Path) -> None:
    """Contract: claims, releases and pauses go, and the journal replays as with them."""
    journal, turns = read(path)
    noise = noisy(turns, 7)
    spec = FLOWS[journal["workflow"]]
    for cut in range(1, len(noise)):
        kept = condensed(noise, cut)
        about = (e.Claimed, e.Released, e.Paused, e.Resumed)
        assert not [x for turn in kept for x in turn.events if isinstance(x, about)]
        assert check_replays(spec, [*kept, *noise[cut:]], first=len(kept)) > 0


@pytest.mark.spec("vectorbea.V10")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_past_folds_and_retries_as_its_journal(path: Path) -> None:
    """Contract: the fold is that of the whole journal, and so is what a retry of the run takes over."""
    _, turns = read(path)
    run = turns[-1].run
    for cut in range(1, len(turns)):
        past, blobs = packed(turns, cut)
        fold_of_past = unfolded_past(run, past)
        assert fold_of_past == fold(run, turns[:cut])
        for turn in turns[cut:]:
            fold_of_past.apply(turn)
        assert fold_of_past == fold(run, turns)
        joined = [*unpacked(run, past.segments, blobs), *turns[cut:]]
        assert plain(settled_prefix(joined)) == plain(settled_prefix(turns))
        starts = [last_start(run, journal) for journal in (joined, turns)]  # a retry has a root and time of its own
        one, other = [plain(msgspec.structs.replace(x, root="", available_at=None)) for x in starts]
        assert one == other


def long_journal() -> Journal:
    """Every kind of thing a fold keeps open, and much it forgets."""
    journal = Journal(started(attributes={"tier": "gold"}, key="k", deadline=at(9000)))
    journal.claim(step("a"), step("b", undo=True))
    journal.turn(attempt_failed("a", 1))
    journal.turn(e.AttemptStarted(key="a", attempt=2))
    journal.turn(done("b", "[1]"), step("c"))
    journal.claim(restarted=("a", "c"), worker="w2")
    journal.turn(signal("m1"), e.SleepStarted(key="nap", until=at(600)))
    journal.turn(e.WaitStarted(key="w", name="news", kind="topic"), e.Exposed(name="p", value=raw("1")))
    journal.turn(done("c"), step("d"))
    return journal


def test_attempts_and_failures_survive() -> None:
    """Contract: numbers are kept as they are, not counted again: attempt 3 stays attempt 3, and so does the budget."""
    journal = long_journal()
    past, _ = packed(journal.turns, len(journal.turns))
    run = unfolded_past("r", past)
    assert run == journal.run
    assert (run.steps["a"].attempt, run.steps["a"].failures, run.attempts) == (3, 1, journal.run.attempts)


def test_a_continue_as_leaves_only_its_start_and_the_signals_nobody_took() -> None:
    """Contract: however long the run was before, nothing of it is kept but those."""
    journal = Journal(started(value=raw('{"page":1}')))
    journal.claim(step("s"))
    for number in range(50):
        journal.turn(done("s" if number == 0 else f"s:{number}"), step(f"s:{number + 1}"))
    journal.turn(signal("kept"), signal("taken"))
    journal.turn(e.WaitEnded(key="w", message="taken"), e.Continued(workflow="order", value=raw('{"page":2}')))
    past, blobs = packed(journal.turns, 20, len(journal.turns))
    assert [len(past.segments)] == [1]
    kept = unpacked("r", past.segments, blobs)
    assert [[type(x).__name__ for x in turn.events] for turn in kept] == [["Started"], ["SignalReceived", "Continued"]]
    start = last_start("r", kept)
    assert bytes(start.value) == b'{"page":2}'
    assert unfolded_past("r", past) == journal.run


def test_a_row_is_packed_once() -> None:
    """Contract: a snapshot adds a segment for the rows since the last; earlier segments stay as they are."""
    turns = long_journal().turns
    first, _ = packed(turns, 4)
    second, more = advance("r", first, turns[4:])
    assert second.segments[:-1] == first.segments
    assert set(more) == {second.segments[-1].blob}


def test_the_distance_of_snapshots_grows_with_the_run() -> None:
    """Contract: 100,000 rows make some dozens of snapshots, and a million rows a few for each 10,000."""
    made: list[int] = []
    for ordinal in range(0, 1_000_001, 100):
        if is_due(1000, ordinal, made[-1] if made else 0):
            made.append(ordinal)
    assert made[0] == 1000
    assert 20 <= len([x for x in made if x <= 100_000]) <= 80
    assert max(b - a for a, b in pairwise(made)) <= 10_000
    assert not is_due(0, 10**9, 0)


# -- damage ------------------------------------------------------------------------------------------------------------


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def test_one_flipped_byte_of_a_snapshot_is_found() -> None:
    """Contract: of its body, ordinal or checksum: it is refused, whatever the byte."""
    journal = long_journal()
    past, _ = packed(journal.turns, 6)
    good = to_snapshot(past, 6, journal.rows[5].checksum)
    assert from_snapshot("r", good) == past
    bad = [Snapshot(good.ordinal, good.checksum, flipped(good.body, place)) for place in range(len(good.body))]
    bad += [Snapshot(7, good.checksum, good.body), Snapshot(6, flipped(good.checksum, 3), good.body)]
    for each in bad:
        with pytest.raises(CorruptJournal):
            from_snapshot("r", each)


def compacted(journal: Journal, cut: int) -> tuple[list[Row], dict[str, bytes]]:
    past, blobs = packed(journal.turns, cut)
    return [stand_in(past, journal.rows[cut - 1]), *journal.rows[cut:]], blobs


@pytest.mark.spec("stepflow.J7")
def test_a_compacted_journal_is_read_and_chained() -> None:
    """Contract: the stand-in is sealed, the rows after it follow its checksum, and the fold is the same."""
    journal = long_journal()
    rows, blobs = compacted(journal, 5)
    turns = decode_rows(rows)
    assert [turn.ordinal for turn in turns] == [5, 6, 7, 8, 9]
    assert fold("r", turns) == journal.run
    event = turns[0].events[0]
    assert isinstance(event, e.Compacted)
    again, _ = advance("r", past_of(event), turns[1:])
    assert unfolded_past("r", again) == journal.run
    assert unpacked("r", event.segments, blobs)


def test_one_flipped_byte_of_a_compacted_journal_is_found() -> None:
    """Contract: in any row, the stand-in's included, and in its epoch, time, ordinal and checksum."""
    rows, _ = compacted(long_journal(), 5)
    first = rows[0]
    change = msgspec.structs.replace
    bad = [change(first, body=flipped(first.body, place)) for place in range(len(first.body))]
    bad += [change(first, epoch=9), change(first, at=first.at + 1), change(first, checksum=flipped(first.checksum, 0))]
    for each in bad:
        with pytest.raises(CorruptJournal):
            decode_rows([each, *rows[1:]])
    with pytest.raises(CorruptJournal):
        decode_rows([first, change(rows[1], body=flipped(rows[1].body, 5)), *rows[2:]])
    with pytest.raises(CorruptJournal, match="missing"):
        decode_rows([first, *rows[2:]])


def test_a_stand_in_of_another_run_is_refused() -> None:
    """Contract: its seal is bound to the run's id."""
    rows, _ = compacted(long_journal(), 5)
    moved = [msgspec.structs.replace(row, run="other") for row in rows]
    with pytest.raises(CorruptJournal, match="run other: the seal of row 5"):
        fold("other", decode_rows(moved))


def test_a_stand_in_is_the_first_row_or_none() -> None:
    """Contract: in the middle of a journal it is no row at all."""
    journal = long_journal()
    rows, _ = compacted(journal, 5)
    event = decode_rows(rows)[0].events[0]
    journal.turn(event)
    with pytest.raises(CorruptJournal, match="replaces the rows before it"):
        fold("r", journal.turns)


def test_a_damaged_segment_is_found() -> None:
    """Contract: bytes that do not unpack, or unpack to no turns, are a `CorruptJournal`."""
    past, blobs = packed(long_journal().turns, 5)
    [segment] = past.segments
    for data in (b"", blobs[segment.blob][:-5] + b"12345", encode_events([])):
        with pytest.raises(CorruptJournal):
            unpacked("r", past.segments, {segment.blob: data})
