"""How often in a row a loop met the same error, so that the log can say it sparingly."""

from __future__ import annotations


class Failures:
    """Counted from 1. A different error is a new one; so is the same one after a success."""

    def __init__(self) -> None:
        self._words = ""
        self._count = 0

    def again(self, error: Exception) -> int:
        """Counts a failure. Returns how many there were in a row."""
        words = f"{type(error).__name__}: {error}"
        self._count = self._count + 1 if words == self._words else 1
        self._words = words
        return self._count

    def end(self) -> None:
        """It worked."""
        self._count = 0
