"""The label of a home of blobs: which store it belongs to. Pure.

Two lines of text: the mark by which the store recognises its home, and the address of the store, for people and for a
process that finds a label its store has not heard of.
"""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from holdfast.errors import StoreRefused, StoreUnavailable

LABEL: Final = "holdfast-store"
"""Name of the label in the home."""


class Label(msgspec.Struct, frozen=True):
    """A mark above 0, and the store's address without secrets. A label that cannot be read has mark 0 and no owner."""

    mark: int
    owner: str


def new_label(url: str) -> Label:
    """A label for that store, with a new unique mark."""
    return Label(secrets.randbits(62) + 1, url)


def encode_label(label: Label) -> bytes:
    return f"{label.mark}\n{label.owner}\n".encode()


def decode_label(data: bytes) -> Label:
    mark, _, rest = data.decode("utf-8", "replace").partition("\n")
    try:
        return Label(int(mark), rest.strip())
    except ValueError:
        return Label(0, "")


def mark_for(url: str, label: Label, place: str, what: str) -> int:
    """The mark, if the label belongs to that store. `place`: where the label is; `what`: "folder" or "prefix"."""
    if not label.mark:
        raise StoreRefused(
            f"cannot keep blobs in {place}: {LABEL} there was not written by Holdfast. Check the address, or name a "
            f"{what} of its own."
        )
    if label.owner != url:
        raise StoreRefused(
            f"cannot keep blobs in {place}: it belongs to another store ({LABEL} there says "
            f"{label.owner}). Two stores would remove each other's blobs: name a {what} of its own."
        )
    return label.mark


def check_mark(expected: int, found: Label | None, place: str, hint: str) -> None:
    """Raises `StoreUnavailable` unless the label found at that place has the mark."""
    if found is None or found.mark != expected:
        raise StoreUnavailable(f"what is at {place} is not the home of this store's blobs. {hint}")
