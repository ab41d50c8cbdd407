"""Checksums of what a store keeps besides journals: unread messages, answers, exposed values, parts of streams.

The parts are hashed with their lengths, so that different lists of parts never give the same input. The last part is
for explicit references to blobs, which nothing has today. SHA-256, because the PostgreSQL server must compute it too
when it fills keys into messages (`_checksum` in the schema). 16 bytes of it are kept. Empty: written before there were
checksums.
"""

from __future__ import annotations

from hashlib import sha256

from holdfast.errors import CorruptJournal

SIZE = 16


def message_checksum(run: str, id: str, kind: str, body: bytes) -> bytes:
    """The checksum of a message to a run, without its number and time, which the store sets."""
    return _checksum(run.encode(), id.encode(), kind.encode(), body)


def emptied_checksum(run: str, id: str, kind: str, body: bytes, checksum: bytes) -> bytes | None:
    """The checksum of a message that was taken in and loses its body; None if its checksum does not match and it must
    stay unchanged."""
    if not checksum:
        return checksum
    return message_checksum(run, id, kind, b"") if checksum == message_checksum(run, id, kind, body) else None


def shown_checksum(run: str, name: str, value: bytes, blob: str) -> bytes:
    """The checksum of an exposed value."""
    return _checksum(run.encode(), name.encode(), value, blob.encode())


def checked_shown(run: str, name: str, value: bytes, blob: str, checksum: bytes) -> tuple[bytes, str]:
    """The value and the blob as they were stored. Raises `CorruptJournal` if the checksum does not match."""
    if checksum and checksum != shown_checksum(run, name, value, blob):
        raise CorruptJournal(
            f"run {run}: the stored copy of {name!r}, which it shows, was changed or damaged. Its journal "
            "has the value too; `holdfast verify` finds further damage."
        )
    return value, blob


def parts_checksum(run: str, name: str, step: str, attempt: int, epoch: int, packed: bytes) -> bytes:
    """Of a row of a stream. Its offset is the store's, and not in it: rows follow each other without a gap."""
    return _checksum(run.encode(), name.encode(), f"{epoch}:{attempt}:{step}".encode(), packed)


def answer_checksum(run: str, message: str, outcome: str, value: bytes, blob: str) -> bytes:
    """The checksum of the outcome of a question to a run; for an open one, `outcome` and `value` are empty."""
    return _checksum(run.encode(), message.encode(), f"{outcome}:{blob}".encode(), value)


def _checksum(one: bytes, two: bytes, three: bytes, four: bytes) -> bytes:
    """The checksum of four parts, with an empty part for references."""
    parts = (len(one), one, len(two), two, len(three), three, len(four), four)
    return sha256(b"%d:%b%d:%b%d:%b%d:%b0:" % parts).digest()[:SIZE]
