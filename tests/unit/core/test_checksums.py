"""Checksums of messages and shown values: stored forever, and computed by servers too."""

from __future__ import annotations

import pytest

from holdfast.core.checksums import checked_shown, emptied_checksum, message_checksum, shown_checksum
from holdfast.errors import CorruptJournal


def test_the_checksums_are_the_agreed_ones() -> None:
    """Contract: they are stored; another function would make every message unreadable."""
    assert message_checksum("r", "é", "signal", b"{}").hex() == "630fd7c3ab588e8d88faba7e3c3eb0a2"
    assert shown_checksum("r", "stage", '"é"'.encode(), "").hex() == "ad3749d0205470a644c73498dee6e017"


def test_every_part_decides_and_none_runs_into_the_next() -> None:
    base = ("run", "id", "signal", b"body")
    others = [
        ("ru", "nid", "signal", b"body"),
        ("runi", "d", "signal", b"body"),
        ("run", "ids", "ignal", b"body"),
        ("run", "id", "signalb", b"ody"),
        ("run", "id", "signal", b"bodz"),
        ("run", "id", "signal", b"body0:"),
    ]
    assert len({message_checksum(*parts) for parts in (base, *others)}) == 1 + len(others)


def test_a_shown_value_is_given_as_it_was_stored_or_not_at_all() -> None:
    written = shown_checksum("r", "stage", b"1", "")
    assert checked_shown("r", "stage", b"1", "", written) == (b"1", "")
    assert checked_shown("r", "stage", b"2", "", b"") == (b"2", "")  # older than checksums
    for other in (
        ("s", "stage", b"1", ""),
        ("r", "stagf", b"1", ""),
        ("r", "stage", b"2", ""),
        ("r", "stage", b"1", "x"),
    ):
        with pytest.raises(CorruptJournal, match="the stored copy of 'stag"):
            checked_shown(*other, written)


def test_an_emptied_message_keeps_a_checksum_only_if_it_held() -> None:
    written = message_checksum("r", "m", "signal", b"{}")
    assert emptied_checksum("r", "m", "signal", b"{}", written) == message_checksum("r", "m", "signal", b"")
    assert emptied_checksum("r", "n", "signal", b"{}", written) is None
    assert emptied_checksum("r", "n", "signal", b"{}", b"") == b""
