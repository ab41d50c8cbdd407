"""The mark of the store that a prefix belongs to. Two stores under one prefix would wait for each other's runs."""

from __future__ import annotations

from holdfast.errors import StoreRefused


def check_owner(manager: str, prefix: str, found: bytes | None, mark: int | None) -> None:
    """`StoreRefused` if what stands under the prefix is the mark of another store. `found`: None if nothing does;
    `mark`: that of our store, 0 if it has none yet, None if it does not matter."""
    if found is None or mark is None or found == mark_text(mark):
        return
    raise StoreRefused(
        f"cannot use {manager} for leases: the prefix {prefix!r} belongs to another store. Give each store a prefix of "
        f"its own: [leases] prefix. If this store replaces the other one, stop all workers and remove the keys below "
        "the prefix"
    )


def mark_text(mark: int) -> bytes:
    """The mark as it is kept in a manager."""
    return f"{mark}".encode()
