"""Numbers with their nouns."""

from __future__ import annotations


def counted(number: int, word: str) -> str:
    """A number and its noun: "1 run", "2,000 runs"."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
