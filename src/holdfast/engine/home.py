"""The engine as seen by the parts that look after its runs: what they share, and what they report to."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from holdfast.authoring.registry import Registry
from holdfast.core.recovery import Kind
from holdfast.core.specs import Settings
from holdfast.core.turn import Row
from holdfast.engine.committer import Committer
from holdfast.engine.session import Home, Session
from holdfast.engine.store_reads import Asking
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store


class EngineHome(Home, Protocol):
    """What a part needs from the engine."""

    store: Store
    registry: Registry
    settings: Settings
    asking: Asking
    committer: Committer
    sessions: dict[str, Session]
    opening: set[str]
    is_draining: bool

    def knows(self, run: str, /) -> bool:
        """Whether it advances the run, or is about to."""
        ...

    def met(self, kind: Kind, run: str, detail: str, /) -> None:
        """Counts something that recovery found."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None], /) -> None:
        """Runs a task beside the sessions for as long as the engine lives."""
        ...

    async def take_on(self, rows: Sequence[RunRow], known: Mapping[str, Row] | None = None, /) -> None:
        """Advances claimed runs."""
        ...
