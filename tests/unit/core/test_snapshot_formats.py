"""Snapshots and stand-ins of journals in other event formats: what older code packed is lifted, once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core import snapshot as snapshots
from holdfast.core import turn as turns
from holdfast.core.fold import fold
from holdfast.core.snapshot import advance, from_snapshot, past_of, stand_in, to_snapshot, unpacked
from holdfast.core.turn import FORMAT, Row, Turn, decode_rows
from holdfast.core.upcast import UPCASTERS
from holdfast.errors import CorruptJournal
from tests.unit.core.journals import Journal, started

CUT = 4
"""The rows that are compacted: each of them, and each row after them, passes one gate."""


def gated() -> Journal:
    journal = Journal(started())
    journal.claim(e.Patched(name="1"))
    for number in range(2, 7):
        journal.turn(e.Patched(name=f"{number}"))
    return journal


def compacted(rows: list[Row]) -> tuple[list[Row], dict[str, bytes]]:
    """As the code of now compacts them."""
    past, blobs = advance("r", None, decode_rows(rows)[:CUT])
    return [stand_in(past, rows[CUT - 1]), *rows[CUT:]], blobs


def lift(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a newer format might do: names of gates have a mark."""
    return [{**x, "name": x["name"] + "'"} if x["t"] == "patched" else x for x in events]


def upgrade(monkeypatch: pytest.MonkeyPatch, upcaster: Any = lift) -> None:
    """From here on the code is that of the next format."""
    monkeypatch.setitem(UPCASTERS, FORMAT, upcaster)
    for module in (turns, snapshots):
        monkeypatch.setattr(module, "FORMAT", FORMAT + 1)


def gates(some: list[Turn]) -> list[str]:
    return [x.name for turn in some for x in turn.events if isinstance(x, e.Patched)]


def read(rows: list[Row], blobs: dict[str, bytes]) -> list[str]:
    """The gates of a compacted journal, packed ones first, as a replay would see them."""
    first, *rest = decode_rows(rows)
    [event] = first.events
    assert isinstance(event, e.Compacted)
    return gates([*unpacked("r", event.segments, blobs), *rest])


def test_what_older_code_compacted_is_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise (V17): a stand-in and its segments outlive a change of the format, like any row: nothing else holds what
    they say. The seal is over what was written, not over what is read."""
    rows, blobs = compacted(gated().rows)
    assert read(rows, blobs) == ["1", "2", "3", "4", "5", "6"]
    upgrade(monkeypatch)
    assert read(rows, blobs) == ["1'", "2'", "3'", "4'", "5'", "6'"]
    assert fold("r", decode_rows(rows)).ordinal == len(gated().rows)


def test_newer_code_compacts_older_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the stand-in says in which format it is written itself, so nothing is lifted twice; and one that goes on
    from an older stand-in holds segments of both formats."""
    journal = gated()
    old = compacted(journal.rows)
    upgrade(monkeypatch)
    rows, blobs = compacted(journal.rows)
    assert (rows[0].format, rows[1].format) == (FORMAT + 1, FORMAT)
    assert read(rows, blobs) == ["1'", "2'", "3'", "4'", "5'", "6'"]

    first, *rest = decode_rows(old[0])
    [event] = first.events
    assert isinstance(event, e.Compacted)
    past, more = advance("r", past_of(event), rest[:2])
    assert [segment.format for segment in past.segments] == [FORMAT, FORMAT + 1]
    assert read([stand_in(past, old[0][2]), *old[0][3:]], old[1] | more) == ["1'", "2'", "3'", "4'", "5'", "6'"]


def test_a_fold_is_lifted_with_its_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: an upcaster sees the fold of a compacted journal, and may change it as it changes events."""
    rows, _ = compacted(gated().rows)

    def moved(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**x, "fold": {**x["fold"], "queue": "moved"}} if x["t"] == "compacted" else x for x in events]

    upgrade(monkeypatch, moved)
    assert fold("r", decode_rows(rows)).queue == "moved"


def test_a_snapshot_of_another_format_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: it is refused, not misread; the journal is there to be read instead."""
    journal = gated()
    past, _ = advance("r", None, journal.turns[:CUT])
    stored = to_snapshot(past, CUT, journal.rows[CUT - 1].checksum)
    assert from_snapshot("r", stored) == past
    upgrade(monkeypatch)
    with pytest.raises(CorruptJournal, match=rf"event format {FORMAT}, this code writes {FORMAT + 1}"):
        from_snapshot("r", stored)
    newer = to_snapshot(advance("r", None, journal.turns[:CUT])[0], CUT, journal.rows[CUT - 1].checksum)
    monkeypatch.undo()
    with pytest.raises(CorruptJournal, match=rf"event format {FORMAT + 1}, this code writes {FORMAT}"):
        from_snapshot("r", newer)


def test_what_newer_code_packed_is_left_to_it() -> None:
    """Promise: a segment of a newer format is not misread; the error says what to do."""
    journal = gated()
    past, blobs = advance("r", None, journal.turns[:CUT])
    newer = [msgspec.structs.replace(segment, format=FORMAT + 1) for segment in past.segments]
    with pytest.raises(CorruptJournal, match=rf"event format {FORMAT + 1}, .*upgrade this worker"):
        unpacked("r", newer, blobs)


def test_a_segment_that_nothing_lifts_is_said() -> None:
    """Promise: as of a row."""
    past, blobs = advance("r", None, gated().turns[:CUT])
    older = [msgspec.structs.replace(segment, format=0) for segment in past.segments]
    with pytest.raises(CorruptJournal, match=r"^run r: segment \w+ has event format 0, and .* cannot upgrade it$"):
        unpacked("r", older, blobs)
