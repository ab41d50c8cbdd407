"""Tells facts to listeners, and contains their errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from holdfast.ports.facts import Fact, HookFailed
from holdfast.ports.telemetry import Listener

KINDS: tuple[type[Fact], ...] = get_args(Fact)
"""All kinds of facts."""


class Listeners:
    """The `Telemetry` of a process. It asks listeners what they want when it is made and at each `refresh`."""

    def __init__(self, listeners: Iterable[Listener]) -> None:
        self._listeners = tuple(listeners)
        self._failed: set[tuple[str, str]] = set()
        self._asked: list[frozenset[type[Fact]]] = []
        self._wanting: dict[type[Fact], tuple[Listener, ...]] = {}
        self.wanted: frozenset[type[Fact]] = frozenset()
        self.refresh()

    def refresh(self) -> None:
        """See `Telemetry`. Usually nothing has changed."""
        asked = [listener.wanted() for listener in self._listeners]
        if asked != self._asked:
            pairs = list(zip(self._listeners, asked, strict=True))
            self._wanting = {kind: tuple(x for x, wanted in pairs if kind in wanted) for kind in KINDS}
            self._asked, self.wanted = asked, frozenset().union(*asked)

    def tell(self, fact: Fact) -> None:
        """See `Telemetry`."""
        kind = type(fact)
        for listener in self._wanting.get(kind, ()):
            try:
                listener.on(fact)
            except Exception as error:  # noqa: BLE001 a listener never hurts what it listens to
                self._report(listener, kind, error)

    def _report(self, listener: Listener, kind: type[Fact], error: Exception) -> None:
        """Reports a failing listener, once for each listener and kind. A listener that fails on this very fact is not
        told of it again."""
        failure = (listener.name, kind.__name__)
        if failure not in self._failed:
            self._failed.add(failure)
            self.tell(HookFailed(listener.name, f"on({kind.__name__})", error))
