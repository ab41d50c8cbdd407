"""A ledger: a file in which bodies say what they do, outside of every store, so it tells what really happened."""

from __future__ import annotations

import os


def append(ledger: str, line: str) -> None:
    """One line, in a single write: lines of several processes never mix, and a kill leaves a whole line or none."""
    descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)
