"""The bucket as a watch heard it: which runs became orphans, and on which revision their keys may be taken."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from holdfast.adapters.leases.values import Heard
from holdfast.adapters.nats.bucket import Entry
from holdfast.adapters.nats.keys import HeldRun, Keys, escape, is_ours, unescape
from holdfast.adapters.nats.watch import View

KEYS = Keys("shop/leases")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def held(run: str, incarnation: str, revision: int) -> Entry:
    return Entry(KEYS.run(run), revision, msgspec.json.encode(HeldRun("w", incarnation, NOW)), is_marker=False)


def beat(incarnation: str) -> Entry:
    return Entry(KEYS.heartbeat("w", incarnation), 1, msgspec.json.encode(Heard(NOW, 3.0)), is_marker=False)


def gone(key: str, revision: int = 9) -> Entry:
    return Entry(key, revision, b"", is_marker=True)


@pytest.fixture
def view() -> View:
    made = View(KEYS)
    made.begin()
    for entry in (beat("i"), held("r", "i", 2), held("s", "i", 3), beat("j"), held("t", "j", 4)):
        assert made.hear(entry) == []
    assert made.complete() == []
    return made


def test_the_end_of_a_heartbeat_makes_its_runs_orphans(view: View) -> None:
    """Contract: all of them and no others, once; their keys may be taken on the revision they have."""
    assert view.hear(gone(KEYS.heartbeat("w", "i"))) == ["r", "s"]
    assert view.hear(gone(KEYS.heartbeat("w", "i"))) == []
    assert [view.revision_of(run) for run in ("r", "s", "t", "u")] == [2, 3, 0, 0]


def test_a_released_run_is_an_orphan(view: View) -> None:
    """Contract: once, also if it was we who released it, and its key may be taken on the marker's revision."""
    view.note_free("r", 9)
    assert view.hear(gone(KEYS.run("r"), 9)) == ["r"]
    assert view.hear(gone(KEYS.run("r"), 9)) == []
    assert view.revision_of("r") == 9
    view.hear(held("r", "j", 10))
    assert view.revision_of("r") == 0


def test_what_went_away_unseen_is_told_once_all_keys_were_heard(view: View) -> None:
    """Contract: also if hearing them broke off in between; and so are runs that a dead worker left behind."""
    view.begin()
    view.hear(beat("i"))
    view.begin()
    for entry in (beat("i"), held("s", "i", 3), held("u", "lost", 5)):
        view.hear(entry)
    assert view.complete() == ["r", "t", "u"]
    assert view.revision_of("u") == 5
    view.begin()
    view.hear(beat("i"))
    view.hear(held("s", "i", 3))
    assert view.complete() == []


def test_a_heartbeat_that_is_missing_ends_like_one_that_was_removed(view: View) -> None:
    """Contract: where no marker tells, the listing does."""
    assert view.missing({"j"}) == ["i"]
    assert view.end("i") == ["r", "s"]
    assert view.missing({"j"}) == []


def test_what_is_left_behind_is_known_until_a_worker_takes_it(view: View) -> None:
    """Contract: with the revision to remove it by; a run that was taken over is not among them."""
    view.end("i")
    view.hear(held("s", "j", 12))
    assert view.left_behind(float("inf")) == [("r", 2)]
    view.forget("r")
    assert view.left_behind(float("inf")) == []


@pytest.mark.parametrize("text", ["plain", "a/b-c_d", "run.1", "* > ü\n", "=2E", " ", "日本"])
def test_any_id_makes_a_key_and_comes_back(text: str) -> None:
    """Contract: one part of a key, with characters that NATS takes; what other software writes is told apart."""
    assert unescape(escape(text)) == text
    assert "." not in escape(text)
    assert escape(text).isascii()
    assert KEYS.run_of(KEYS.run(text)) == text
    assert KEYS.incarnation_of(KEYS.heartbeat(text, "i")) == (text, "i")
    assert all(is_ours(key) for key in (KEYS.run(text), KEYS.heartbeat(text, "i"), KEYS.store))
    assert not is_ours("session.4711")
