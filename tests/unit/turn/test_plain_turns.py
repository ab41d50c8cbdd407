"""Which turns are plain: stores do not look for what those bring."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.projection import Projection
from holdfast.core.status import Status
from holdfast.core.turn import Row
from holdfast.ports.journal import Commit

OF_EVERY_TURN = {"no", "row", "after", "projection", "inbox_seen", "is_terminal", "is_progress", "park"}
COMMON = Commit(
    no=1,
    row=Row("r", 1, 1, 0, 2, b"", b"[]"),
    after=b"",
    projection=Projection("order", "1", Status.RUNNING, b"", None),
)


@pytest.mark.parametrize("field", [name for name in Commit.__struct_fields__ if name not in OF_EVERY_TURN])
def test_a_turn_that_brings_something_is_not_plain(field: str) -> None:
    """Promise: whatever a turn brings besides its row, stores look at it, also if a field is new."""
    something: Any = True if field == "is_consuming" else {"a": "b"} if field in {"attributes", "blobs"} else ("a",)
    assert COMMON.is_plain
    assert not msgspec.structs.replace(COMMON, **{field: something}).is_plain
