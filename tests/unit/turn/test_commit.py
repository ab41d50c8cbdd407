"""What becomes visible with a turn."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.core import events as e
from holdfast.core.fold import fold
from holdfast.turn.commit import finish
from holdfast.turn.draft import Draft
from holdfast.turn.start import new_run

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
WAIT = e.WaitStarted(key="news", name="news", kind="topic")


@pytest.mark.parametrize(
    ("outputs", "watched"), [([WAIT], (("news", "news"),)), ([WAIT, e.WaitEnded(key="news")], ())], ids=["open", "over"]
)
def test_a_turn_watches_the_topics_it_leaves_open(
    outputs: list[e.AnyEvent], watched: tuple[tuple[str, str], ...]
) -> None:
    """Contract: a wait that began and ended in one turn leaves no watch behind, which nobody would drop."""
    _, first = new_run("run", e.Started(workflow="reads"), AT)
    draft = Draft(AT, [e.Claimed(worker="one")], outputs)
    commit = finish(fold("run", [first]), 1, 1, draft, inbox_seen=0, is_consuming=False, park=None)
    assert commit.watch == watched
