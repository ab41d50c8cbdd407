"""Checksums of what a store keeps beside journals: unread messages, answers, shown values, parts of streams.

The parts are hashed with their lengths, so that no two lists of parts read the same. The last part is for explicit
references to blobs, which nothing has today. SHA-256 is what a server can compute too: it fills keys into messages
(`_checksum` in the schema of PostgreSQL). 16 bytes are kept of it. Empty: written before there were checksums.
"""

from __future__ import annotations

from hashlib import sha256

from holdfast.errors import CorruptJournal

SIZE = 16


def message_checksum(run: str, id: str, kind: str, body: bytes) -> bytes:
    """Of a message to a run. Its number and time are the store's, and not in it."""
    return _checksum(run.encode(), id.encode(), kind.encode(), body)


def emptied_checksum(run: str, id: str, kind: str, body: bytes, checksum: bytes) -> bytes | None:
    """Of a message that was taken in and loses its body; None if it does not hold, and is to stay as it is."""
    if not checksum:
        return checksum
    return message_checksum(run, id, kind, b"") if checksum == message_checksum(run, id, kind, body) else None


def shown_checksum(run: str, name: str, value: bytes, blob: str) -> bytes:
    """Of a value that a run shows."""
    return _checksum(run.encode(), name.encode(), value, blob.encode())


def checked_shown(run: str, name: str, value: bytes, blob: str, checksum: bytes) -> tuple[bytes, str]:
    """The value and the blob as they were stored; `CorruptJournal` if the checksum does not hold."""
    if checksum and checksum != shown_checksum(run, name, value, blob):
        raise CorruptJournal(
            f"run {run}: the stored copy of {name!r}, which it shows, was changed or damaged. Its journal "
            "has the value too; `holdfast verify` says what else does not hold."
        )
    return value, blob


def parts_checksum(run: str, name: str, step: str, attempt: int, epoch: int, packed: bytes) -> bytes:
    """Of a row of a stream. Its offset is the store's, and not in it: rows follow each other without a gap."""
    return _checksum(run.encode(), name.encode(), f"{epoch}:{attempt}:{step}".encode(), packed)


def answer_checksum(run: str, message: str, outcome: str, value: bytes, blob: str) -> bytes:
    """Of what became of a question to a run; of one that is open, `outcome` and `value` are empty."""
    return _checksum(run.encode(), message.encode(), f"{outcome}:{blob}".encode(), value)


def _checksum(one: bytes, two: bytes, three: bytes, four: bytes) -> bytes:
    """Of four parts, and the place of the references."""
    parts = (len(one), one, len(two), two, len(three), three, len(four), four)
    return sha256(b"%d:%b%d:%b%d:%b%d:%b0:" % parts).digest()[:SIZE]
