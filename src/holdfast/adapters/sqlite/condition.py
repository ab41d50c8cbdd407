"""What stands behind a SQLite store, in words."""

from __future__ import annotations

import apsw

from holdfast.adapters.sqlite.connection import Durability
from holdfast.ports.condition import Condition

SOUND = (3, 51, 3)
"""Before it, connections that write and checkpoint together could corrupt the file (the WAL-reset bug)."""

_DURABILITY: dict[Durability, str] = {
    "full": "full: every commit is on disk before it counts",
    "normal": "normal: a power cut may take the last commits",
    "off": "off: for this process only",
}


def condition_of(durability: Durability, version: str | None = None) -> Condition:
    """The library and what a power cut can take. (`version` is for tests.)"""
    found = apsw.sqlite_lib_version() if version is None else version
    is_sound = tuple(int(part) for part in found.split(".")[:3]) >= SOUND
    fault = f"SQLite {found} has a bug that can corrupt the store: use {'.'.join(map(str, SOUND))} or later"
    return Condition(
        engine=f"SQLite {found}", durability=_DURABILITY[durability], faults=() if is_sound else (f"{fault} (apsw)",)
    )
