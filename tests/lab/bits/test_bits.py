"""Values changed behind a store's back: found, or without any effect."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.lab.bits.campaign import Flip, flipped, table, tried
from tests.lab.bits.stores import Kind

BESIDE = ("inbox", "exposed", "attributes", "watchers", "adoptions", "answers", "streams", "stream_spans")
"""What is kept of a run beside its row and its journal."""

EMPTY = {
    *("meta", "schedules", "uniques"),  # belong to no run
    "blob_blobs",  # NOT TRIED: no blob of these runs refers to another with a `BlobRef`
    *("limits", "rates", "places", "waiters", "queues", "shares"),  # rules, and who may begin when
}
"""Tables without a row here, each for its reason: of them no promise is kept by these tests."""


def checked(flips: list[Flip], record_property: Any) -> None:
    """Nothing may come of them that nobody finds."""
    problems = [str(flip) for flip in flips if flip.verdict == "PROBLEM"]
    flips = [flip for flip in flips if flip.verdict != "no value"]  # of an empty table nothing was changed
    found = sum(flip.verdict == "verify" for flip in flips)
    record_property("figure", f"bits: {len(flips)} values changed, {found} found by verify, {len(problems)} problems")
    assert not problems
    assert found > len(flips) / 3


def test_what_is_kept_beside_a_journal_is_verified(rng: Random, record_property: Any) -> None:
    """Promise (S19): one changed value is found, or users read the same and every run comes to the same result."""
    flips = tried("sqlite", rng, 1, BESIDE)
    checked(flips, record_property)
    told = {row["column"]: row["found or harmless"] for row in table(flips)}
    found = ("inbox.body", "inbox.id", "exposed.value", "attributes.value", "watchers.topic", "answers.value")
    for column in (*found, "streams.parts", "streams.epoch", "stream_spans.is_completed"):
        assert "verify" in told[column], column


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "tables"), [("sqlite", ()), ("postgres", ("inbox", "exposed"))])
def test_every_column_is_verified_or_harmless(
    kind: Kind, tables: tuple[str, ...], rng: Random, record_property: Any
) -> None:
    """Promise (S19): the same of every column; the lab tries all of them on PostgreSQL too."""
    flips = tried(kind, rng, 1, tables)
    checked(flips, record_property)
    assert {flip.column[0] for flip in flips if flip.verdict == "no value"} == (set() if tables else EMPTY)


def test_a_flip_is_another_value() -> None:
    rng = Random(1)
    for value in (None, 0, 7, True, "", "a", "é", b"", b"a", memoryview(b"abc")):
        others = flipped(value, rng)
        assert others
        assert all(other != value for other in others)
