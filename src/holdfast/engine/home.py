"""The engine as its sessions see it, and as the parts that look after its runs do: what they share and report to."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.authoring.registry import Registry
from holdfast.core.recovery import Kind
from holdfast.core.specs import Settings
from holdfast.core.turn import Row
from holdfast.engine.committer import Committer
from holdfast.engine.store_reads import Asking
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store

if TYPE_CHECKING:
    from holdfast.core import events as e
    from holdfast.core.program import Program
    from holdfast.engine.bodies import Bodies
    from holdfast.engine.session import Session
    from holdfast.engine.surroundings import WorkerSurroundings
    from holdfast.engine.wheel import Wheel
    from holdfast.ports.clock import Clock
    from holdfast.ports.telemetry import Telemetry
    from holdfast.turn import effects as f
    from holdfast.turn.draft import Draft
    from holdfast.turn.rules import Rules


class Trials(Protocol):
    """The runs on trial (`engine.suspects`), which a turn may clear."""

    @property
    def trials(self) -> Mapping[str, object]: ...

    def turned(self, session: Session, draft: Draft, /) -> None:
        """A turn is durable."""
        ...


class Home(Protocol):
    """What a session needs from its engine."""

    worker_id: str
    rules: Rules
    clock: Clock
    wheel: Wheel
    bodies: Bodies
    committer: Committer
    surroundings: WorkerSurroundings
    telemetry: Telemetry
    on_end: Callable[[e.ChildEnded], None]
    resting: int  # sessions that need no slot

    @property
    def suspects(self) -> Trials: ...

    def fetch_inbox(self, session: Session, /) -> None:
        """Reads its inbox; `messages` follows."""
        ...

    def freed(self) -> None:
        """A slot is free."""
        ...

    def release(self, session: Session, until: datetime | None, inbox_seen: int, /) -> None:
        """Releases the run; `released` follows."""
        ...

    def give_back(self, session: Session, until: datetime, inbox_seen: int, /) -> None:
        """Releases the run without an answer."""
        ...

    def move_places(self, session: Session, effect: f.MovePlaces, /) -> None:
        """Sends changes of places to the store; `places` follows if some were asked for."""
        ...

    def reload(self, session: Session, kept: Sequence[e.AnyEvent], /) -> None:
        """Reads the journal again; `open` or `unreadable` follows."""
        ...

    def settle(self, work: Coroutine[Any, Any, None], /) -> None:
        """Runs the commit of a transaction, for which a closing engine waits."""
        ...

    def doubt(self) -> None:
        """The store may list runs as ours that are unknown here."""
        ...

    def begin_anew(self, session: Session, start: e.Continued, blobs: Mapping[str, bytes], /) -> Program | None:
        """The program of the pass after `continue_as`, from memory if possible."""
        ...

    def left(self, session: Session, *, is_warm: bool, is_over: bool) -> None:
        """The run is no longer held by the session."""
        ...


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
