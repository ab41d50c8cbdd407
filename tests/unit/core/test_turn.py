"""Rows: chained, dense, of a known format; whatever is wrong with one is found and named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import events as e
from holdfast.core import turn as turns
from holdfast.core.turn import (
    FORMAT,
    GENESIS,
    Row,
    Turn,
    checksum,
    decode_row,
    decode_rows,
    encode_events,
    genesis,
    instant,
    micros,
    sealed,
)
from holdfast.core.upcast import UPCASTERS
from holdfast.errors import CorruptJournal
from tests.unit.core.journals import NOON, Journal, done, instants, plain, raw, step


def journal() -> Journal:
    return Journal().claim(step("charge")).turn(done("charge", '{"cents": 5}')).turn(e.Completed(value=raw("5")))


def changed(row: Row, **fields: Any) -> Row:
    return msgspec.structs.replace(row, **fields)


# -- time --------------------------------------------------------------------------------------------------------------


@given(instants)
def test_an_instant_survives_as_microseconds(value: datetime) -> None:
    assert instant(micros(value)) == value


@given(st.integers(-(10**15), 10**16))
def test_microseconds_survive_as_an_instant(value: int) -> None:
    assert micros(instant(value)) == value


def test_instants_are_counted_from_1970_in_utc() -> None:
    assert micros(datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC)) == 1_000_005
    assert micros(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == -1_000_000
    assert micros(NOON) == micros(NOON.astimezone(tz=None))
    assert instant(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert instant(0).utcoffset() == timedelta(0)


# -- turns and rows ----------------------------------------------------------------------------------------------------


def test_a_row_comes_back_as_its_turn() -> None:
    written = journal()
    read = decode_rows(written.rows)
    assert [(t.run, t.ordinal, t.epoch, t.at, t.checksum, t.seq) for t in read] == [
        (t.run, t.ordinal, t.epoch, t.at, t.checksum, 0) for t in written.turns
    ]
    assert [plain(t.events) for t in read] == [plain(t.events) for t in written.turns]


def test_a_turn_knows_its_place_in_the_store() -> None:
    assert decode_row(changed(journal().rows[0], seq=7)).seq == 7


def test_a_turn_tells_what_came_in_from_what_was_made_of_it() -> None:
    events = (e.Claimed(worker="w"), done("a"), step("b"), e.Kept(keys=("a",)))
    turn = Turn("r", 1, 1, NOON, events, b"")
    assert turn.inputs == events[:2]
    assert turn.outputs == events[2:]


def test_no_rows_are_no_turns() -> None:
    assert decode_rows([]) == []


# -- the chain ---------------------------------------------------------------------------------------------------------


@given(st.data())
def test_a_flipped_bit_is_found(data: st.DataObject) -> None:
    """Contract: whatever single bit of a row's body or checksum flips, reading the journal refuses it."""
    rows = list(journal().rows)
    place = data.draw(st.integers(0, len(rows) - 1))
    name = data.draw(st.sampled_from(["body", "checksum"]))
    content = bytearray(getattr(rows[place], name))
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    rows[place] = changed(rows[place], **{name: bytes(content)})
    with pytest.raises(CorruptJournal, match=rf"^run r: the checksum of row {place + 1} does not match\. .*backup"):
        decode_rows(rows)


@given(place=st.integers(0, 3), name=st.sampled_from(["epoch", "at"]), by=st.sampled_from([-1, 1, 1000]))
def test_a_changed_number_is_found(place: int, name: str, by: int) -> None:
    rows = list(journal().rows)
    rows[place] = changed(rows[place], **{name: getattr(rows[place], name) + by})
    with pytest.raises(CorruptJournal, match="checksum of row"):
        decode_rows(rows)


def test_a_changed_format_is_found() -> None:
    """Contract: the format is part of what the checksum covers: a row is never lifted by mistake."""
    rows = [changed(row, format=0) for row in journal().rows]
    with pytest.raises(CorruptJournal, match="checksum of row 1"):
        decode_rows(rows)


@pytest.mark.parametrize(
    ("order", "missing", "found"),
    [([1, 2], 1, 2), ([0, 2, 3], 2, 3), ([0, 1, 1], 3, 2), ([0, 2, 1], 2, 3), ([3], 1, 4)],
)
def test_a_missing_row_is_named(order: list[int], missing: int, found: int) -> None:
    rows = journal().rows
    with pytest.raises(CorruptJournal, match=rf"^run r: row {missing} is missing, found {found}$"):
        decode_rows([rows[place] for place in order])


def test_a_later_part_of_a_journal_is_read_after_the_checksum_before_it() -> None:
    written = journal()
    later = decode_rows(written.rows[2:], previous=written.rows[1].checksum)
    assert [turn.ordinal for turn in later] == [3, 4]
    with pytest.raises(CorruptJournal, match="checksum of row 3"):
        decode_rows(written.rows[2:], previous=written.rows[0].checksum)


def test_rows_of_another_journal_do_not_fit() -> None:
    one, other = journal().rows, Journal(e.Started(workflow="other")).claim(step("charge")).rows
    with pytest.raises(CorruptJournal, match="checksum of row 2"):
        decode_rows([one[0], other[1]])


def test_the_checksum_covers_every_part() -> None:
    """Contract: previous, ordinal, epoch, time, format and body each decide it, and fields do not run together."""
    base = checksum(GENESIS, 1, 2, 3, b"[]")
    others = [
        checksum(b"\1" * 16, 1, 2, 3, b"[]"),
        checksum(GENESIS, 2, 2, 3, b"[]"),
        checksum(GENESIS, 1, 1, 3, b"[]"),
        checksum(GENESIS, 1, 2, 4, b"[]"),
        checksum(GENESIS, 1, 2, 3, b"[] "),
        checksum(GENESIS, 1, 2, 3, b"[]", format=FORMAT + 1),
        checksum(GENESIS, 12, 2, 3, b"[]"),
        checksum(GENESIS, 1, 22, 3, b"[]"),
    ]
    assert len({base, *others}) == 9
    assert len(base) == 16
    assert base == checksum(GENESIS, 1, 2, 3, b"[]", format=FORMAT)


def test_the_checksum_is_the_agreed_one() -> None:
    """Contract: checksums are stored: another function would make every journal unreadable."""
    assert checksum(GENESIS, 1, 0, 0, b"[]", format=1).hex() == "ba73ceaf7bff81201dd6c9dfcf7d6cb6"
    assert bytes(16) == GENESIS == genesis("r", 1)
    assert checksum(genesis("r"), 1, 0, 0, b"[]", format=2).hex() == "2970baeb131f657e26ee5af5d0674e8e"
    assert genesis("r").hex() == "2d4e1f50c09a9d7adce7355ef7fdd27a"


def test_a_journal_moved_to_another_run_does_not_hold() -> None:
    """Contract: the chain begins with the run's id; a stand-in's seal is bound to it too."""
    moved = [changed(row, run="other") for row in journal().rows]
    with pytest.raises(CorruptJournal, match=r"^run other: the checksum of row 1 does not match"):
        decode_rows(moved)
    written = journal().rows
    stand_in = sealed(written[1], e.Compacted(rows=2, fold=msgspec.Raw(b"{}")))
    assert decode_rows([stand_in, *written[2:]])
    with pytest.raises(CorruptJournal, match="run other: the seal of row 2"):
        decode_rows([changed(stand_in, run="other")])


# -- formats -----------------------------------------------------------------------------------------------------------


def test_a_newer_format_is_left_for_who_can_read_it() -> None:
    row = changed(journal().rows[1], format=FORMAT + 1)
    with pytest.raises(CorruptJournal, match=r"^run r: row 2 has event format 3, this code reads up to 2\. A newer"):
        decode_row(row)


@pytest.mark.spec("stepflow.J11")
def test_an_event_nobody_knows_is_never_passed_over() -> None:
    """Contract (S14): a row of a whole chain whose events are of no known kind stops the reading, wherever it is."""
    rows = journal().rows
    before, strange = rows[0], rows[1]
    body = b'[{"t":"teleported","key":"charge:1"}]'
    value = checksum(before.checksum, strange.ordinal, strange.epoch, strange.at, body)
    with pytest.raises(CorruptJournal, match="row 2 does not decode"):
        decode_rows([before, changed(strange, body=body, checksum=value)])


def test_a_time_beyond_the_calendar_does_not_decode() -> None:
    with pytest.raises(CorruptJournal, match="run r: row 1 does not decode: "):
        decode_row(changed(journal().rows[0], at=10**20))


def old_row(events: list[dict[str, Any]], format: int = 0) -> Row:
    body = msgspec.json.encode(events)
    return Row("r", 1, 0, 0, format, checksum(GENESIS, 1, 0, 0, body, format=format), body)


@pytest.mark.spec("vectorbea.V17")
def test_there_is_an_upcaster_for_every_older_format() -> None:
    assert set(UPCASTERS) == set(range(1, FORMAT))


@pytest.mark.spec("vectorbea.V17")
def test_an_older_row_is_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: rows of an older format read as if today's code had written them, payloads byte for byte."""

    def renamed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{("key" if name == "step_key" else name): value for name, value in x.items()} for x in events]

    monkeypatch.setitem(UPCASTERS, 0, renamed)
    value = {"n": 2**70, "s": "é", "l": [1, 2.5, None]}
    [turn] = decode_rows([old_row([{"t": "done", "step_key": "a", "value": value}])])
    [event] = turn.events
    assert isinstance(event, e.StepCompleted)
    assert event.key == "a"
    assert msgspec.json.decode(event.value) == value


def test_lifting_goes_one_format_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "FORMAT", 3)
    for version in (0, 1, 2):

        def lift(events: list[dict[str, Any]], version: int = version) -> list[dict[str, Any]]:
            return [{**x, "name": f"{x['name']}{version}"} for x in events]

        monkeypatch.setitem(UPCASTERS, version, lift)
    names = [decode_row(old_row([{"t": "patched", "name": "p"}], version)).events[0] for version in (0, 1, 2, 3)]
    assert [x.name for x in names if isinstance(x, e.Patched)] == ["p012", "p12", "p2", "p"]


def test_a_format_nothing_lifts_is_said() -> None:
    with pytest.raises(CorruptJournal, match=r"^run r: row 1 has event format 0, and this code cannot upgrade it$"):
        decode_row(old_row([]))


def test_an_upcaster_that_breaks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: a row that cannot be lifted is a CorruptJournal too: the run is paused, the worker goes on."""

    def lift(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [x["absent"] for x in events]

    monkeypatch.setitem(UPCASTERS, 0, lift)
    with pytest.raises(
        CorruptJournal, match=r"^run r: row 1 cannot be upgraded from event format 0: KeyError: 'absent'"
    ):
        decode_row(old_row([{"t": "patched", "name": "p"}]))


def test_a_lifted_row_is_still_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(UPCASTERS, 0, lambda events: [*events, {"t": "nope"}])
    with pytest.raises(CorruptJournal, match="does not decode: Invalid value 'nope'"):
        decode_row(old_row([]))
    with pytest.raises(CorruptJournal, match="does not decode"):
        decode_row(changed(old_row([]), body=b"["))


def test_today_s_rows_are_not_lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(UPCASTERS, FORMAT, list.copy)
    assert decode_row(journal().rows[0]).events
    assert encode_events([]) == b"[]"
