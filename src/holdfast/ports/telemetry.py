"""Telemetry: engine, worker, client and stores report facts (`ports.facts`) to listeners.

Logging is one listener among others; a user's hooks are the rest. A fact is built only if a listener wants its kind, so
what is not listened to costs one look at a set::

    if StepStarted in telemetry.wanted:
        telemetry.tell(StepStarted(…))
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias

from holdfast.ports.facts import Fact

Tell: TypeAlias = Callable[[Fact], None]
"""Takes facts that are reported whether or not they are wanted: rare ones."""


class Listener(Protocol):
    """A listener of facts."""

    @property
    def name(self) -> str: ...

    def wanted(self) -> frozenset[type[Fact]]:
        """The kinds that it wants. May change: it is read again whenever a run is claimed."""
        ...

    def on(self, fact: Fact, /) -> None:
        """Takes a fact of a kind it wants or recently wanted. From any thread; must not wait. Its errors are
        contained."""
        ...


class Telemetry(Protocol):
    """Reports facts to listeners."""

    @property
    def wanted(self) -> Collection[type[Fact]]:
        """The kinds that a listener wants."""
        ...

    def tell(self, fact: Fact, /) -> None:
        """Tells the listeners. Never raises, from any thread."""
        ...

    def refresh(self) -> None:
        """Asks the listeners again what they want."""
        ...
