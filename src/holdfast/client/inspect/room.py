"""What uses the space of a store, and what a sweep would remove, as programs read it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec

from holdfast.client.client import Client
from holdfast.ports.upkeep import Part, Space
from holdfast.upkeep.sweep import Swept as Swept  # noqa: PLC0414 what these answers are about
from holdfast.upkeep.sweep import sweepable as sweepable  # noqa: PLC0414


class Room(msgspec.Struct, frozen=True):
    """The space that a store uses, what may be removed, and after how long ended runs are removed (None: never)."""

    space: Space
    swept: Swept
    keep: timedelta | None


async def read_room(client: Client, keep: timedelta | None, grace: timedelta, *, largest: int) -> Room:
    """Reads the whole store. Changes nothing."""
    return Room(await client.store.space(largest=largest), await sweepable(client.store, keep, grace), keep)


def swept_object(swept: Swept, *, is_dry: bool) -> dict[str, Any]:
    """What a sweep removed, or would."""
    removed, collected, later = swept.removed, swept.collected, swept.later
    return {
        "dry_run": is_dry,
        "trees": removed.trees,
        "runs": removed.runs,
        "rows": removed.rows,
        "blobs": collected.blobs,
        "blob_bytes": collected.bytes,
        **({"later_blobs": later.blobs, "later_blob_bytes": later.bytes} if is_dry else {}),
    }


def room_object(room: Room) -> dict[str, Any]:
    """Rows and bytes by table and kind, the largest runs, and what may be removed."""
    space, swept = room.space, room.swept
    return {
        "total": space.total,
        "free": space.free,
        "tables": _parts(space.tables),
        "blobs": _parts(space.blobs),
        "largest": [
            {"run": x.id, "workflow": x.workflow, "status": x.status, "rows": x.rows, "bytes": x.bytes}
            for x in space.largest
        ],
        "keep_seconds": None if room.keep is None else room.keep.total_seconds(),
        "expired": {"trees": swept.removed.trees, "runs": swept.removed.runs, "rows": swept.removed.rows},
        "unused_blobs": {"blobs": swept.collected.blobs, "bytes": swept.collected.bytes},
    }


def _parts(found: Iterable[Part]) -> dict[str, Any]:
    return {part.name: {"rows": part.rows, "bytes": part.bytes} for part in found}
