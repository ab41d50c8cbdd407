"""A message whose id was used before: the same one again, or a different one that its sender must hear of."""

from __future__ import annotations

from holdfast.core.message_ids import other_use
from holdfast.errors import Conflict
from holdfast.ports.inbox import Message


def check_repeat(kept: Message | None, id: str, body: bytes, what: str) -> None:
    """Raises `Conflict` if something else was sent under this id (`core.message_ids`). What is no longer kept
    counts as the same."""
    used = other_use(kept.body, body) if kept is not None else ""
    if kept is not None and used:
        raise Conflict(
            f"run {kept.run}: id {id!r} was used for {used}, so {what} was not sent. Use a different id for a "
            f"different message. What was sent: holdfast show {kept.run}"
        )
