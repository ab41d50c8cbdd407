"""What becomes visible with a turn."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.fold import fold
from holdfast.core.projection import Projection
from holdfast.core.status import Status
from holdfast.core.turn import Row
from holdfast.ports.journal import Commit
from holdfast.turn.commit import finish
from holdfast.turn.draft import Draft
from holdfast.turn.start import new_run

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
WAIT = e.WaitStarted(key="news", name="news", kind="topic")
OF_EVERY_TURN = {"no", "row", "after", "projection", "inbox_seen", "is_terminal", "is_progress", "park"}
COMMON = Commit(
    no=1,
    row=Row("r", 1, 1, 0, 2, b"", b"[]"),
    after=b"",
    projection=Projection("order", "1", Status.RUNNING, b"", None),
)


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


@pytest.mark.parametrize("field", [name for name in Commit.__struct_fields__ if name not in OF_EVERY_TURN])
def test_a_turn_that_brings_something_is_not_plain(field: str) -> None:
    """Promise: whatever a turn brings besides its row, stores look at it, also if a field is new."""
    something: Any = True if field == "is_consuming" else {"a": "b"} if field in {"attributes", "blobs"} else ("a",)
    assert COMMON.is_plain
    assert not msgspec.structs.replace(COMMON, **{field: something}).is_plain
