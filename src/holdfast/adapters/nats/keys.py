"""Keys and values below the prefix. Pure: builds and reads them, sends none.

A key of NATS takes letters, digits and a few signs, and a dot separates its parts. What else an id may contain is
written as `=` and two hexadecimal digits for each byte.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import msgspec

from holdfast.adapters.leases.values import Heard, decoded

_PLAIN: Final = re.compile(rb"[A-Za-z0-9_/-]")
_OURS: Final = re.compile(r"[^.]+\.(runs\.[^.]+|workers\.[^.]+\.[^.]+|store)")


class HeldRun(msgspec.Struct, frozen=True):
    """The value of a run's key: held while the heartbeat of that incarnation is there."""

    worker: str
    incarnation: str
    acquired_at: datetime


class Keys:
    """The names of everything below one prefix."""

    def __init__(self, prefix: str) -> None:
        self.base: str = escape(prefix.strip("/"))
        self.store: str = f"{self.base}.store"
        self._runs = f"{self.base}.runs."
        self._workers = f"{self.base}.workers."
        self.all: str = f"{self.base}.>"
        self.workers: str = f"{self._workers}>"

    def run(self, run: str) -> str:
        return self._runs + escape(run)

    def heartbeat(self, worker: str, incarnation: str) -> str:
        return f"{self._workers}{escape(worker)}.{incarnation}"

    def run_of(self, key: str) -> str | None:
        """The run that a key is about; None for other keys."""
        return unescape(key.removeprefix(self._runs)) if key.startswith(self._runs) else None

    def incarnation_of(self, key: str) -> tuple[str, str] | None:
        """Worker and incarnation of a heartbeat's key; None for other keys."""
        if not key.startswith(self._workers):
            return None
        worker, _, incarnation = key.removeprefix(self._workers).partition(".")
        return unescape(worker), incarnation


def is_ours(key: str) -> bool:
    """Whether a key of a bucket is one of a lease manager, below any prefix."""
    return _OURS.fullmatch(key) is not None


def escape(text: str) -> str:
    """Any text as one part of a key."""
    return "".join(chr(byte) if _PLAIN.fullmatch(bytes([byte])) else f"={byte:02X}" for byte in text.encode("utf-8"))


def unescape(part: str) -> str:
    """The text in a part of a key."""
    found = re.sub(rb"=([0-9A-F]{2})", lambda match: bytes.fromhex(match[1].decode()), part.encode())
    return found.decode(errors="replace")


def held_in(key: str, value: bytes) -> HeldRun:
    """The holder of a run. Raises `StoreUnavailable` if other software wrote the value."""
    return decoded("NATS", key, value, HeldRun)


def heard_in(key: str, value: bytes) -> Heard:
    """When a worker was last heard. Raises `StoreUnavailable` if other software wrote the value."""
    return decoded("NATS", key, value, Heard)
