"""Numbers with their nouns, and types with their articles."""

from __future__ import annotations


def counted(number: int, word: str) -> str:
    """A number and its noun: "1 run", "2,000 runs"."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def type_of(value: object) -> str:
    """The name of the value's type and its article: "an int"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
