"""The mark of the store that a prefix belongs to. Two stores under one prefix would wait for each other's runs."""

from __future__ import annotations

from holdfast.errors import StoreRefused


def check_owner(manager: str, prefix: str, found: bytes | None, mark: int | None) -> None:
    """Raises `StoreRefused` if the prefix holds the mark of another store. `found`: the mark there, None if there is
    none; `mark`: ours, 0 if our store has none yet, None if it does not matter."""
    if found is None or mark is None or found == mark_text(mark):
        return
    raise StoreRefused(
        f"cannot use {manager} for leases: the prefix {prefix!r} belongs to another store. Give each store a prefix of "
        f"its own: [leases] prefix. If this store replaces the other one, stop all workers and remove the keys below "
        "the prefix"
    )


def mark_text(mark: int) -> bytes:
    """The mark as managers store it."""
    return f"{mark}".encode()
