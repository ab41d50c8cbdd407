"""Definitions as data: the part of a step or workflow that the engine needs.

`authoring` makes these from decorated functions; nothing here looks at a running loop or a store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.core.instants import later
from holdfast.core.limit import Demands
from holdfast.core.payload import Arguments, Shape
from holdfast.core.retry import Retry
from holdfast.errors import InvalidInput

Executor: TypeAlias = Literal["async", "thread", "process"]


InputKept: TypeAlias = Literal["keep", "hash"]
"""What the journal records of the arguments of a step."""


class StepSpec(msgspec.Struct, frozen=True, eq=False):
    """A step: what to call, how, and what its outcome means."""

    name: str
    function: Callable[..., Any]
    executor: Executor
    arguments: Arguments
    result: Shape[Any]
    retry: Retry | None = None  # None: the app's default
    timeout: timedelta | None = None
    once: bool = False
    tx: bool = False  # its writes and its outcome are one transaction
    raises: tuple[type[Exception], ...] = ()
    where: str = ""
    advice: str = ""  # to a body that uses a workflow's verb
    compares: bool = True  # a replay compares its arguments with the recorded ones
    input: InputKept = "keep"
    limits: tuple[str, ...] = ()  # names of the limits it stands under
    demands: Demands | None = None  # what an attempt needs of them
    limit_wait: timedelta | None = None  # how long an attempt waits for its places; None: as long as it takes


Check: TypeAlias = Callable[[Any], str | None]
"""Says why a question is refused, or None."""


class UpdateSpec(msgspec.Struct, frozen=True, eq=False):
    """A question that a workflow takes, and its answer."""

    name: str
    question: Shape[Any]
    answer: Shape[Any]
    check: Check | None = None


class Part(msgspec.Struct, frozen=True):
    """What a definition declares about one of its parts: a state of a machine, a step of a flow. For the manifest."""

    name: str
    kind: str  # of a state: how it is declared, or "final"; of a step: "call", "each", "wait", …
    leads_to: tuple[str, ...] = ()  # states that may follow
    needs: tuple[str, ...] = ()  # steps that come before
    calls: tuple[str, ...] = ()  # functions, steps or workflows it is made of
    retry: Retry | None = None
    timeout: timedelta | None = None
    has_undo: bool = False


class WorkflowSpec(msgspec.Struct, frozen=True, eq=False):
    """A workflow of one version."""

    name: str
    version: str
    function: Callable[..., Any]
    is_async: bool
    arguments: Arguments
    result: Shape[Any]
    retry: Retry
    deadline: timedelta | None = None
    raises: tuple[type[Exception], ...] = ()
    code: str = ""
    where: str = ""
    is_remote: bool = False
    accepts: Callable[[], Mapping[str, Shape[Any]]] = dict  # signals it is known to take, by name
    updates: Callable[[], Mapping[str, UpdateSpec]] = dict  # updates it is known to take, by name
    is_closed: bool = False  # it takes no others
    step_limit: int | msgspec.UnsetType | None = msgspec.UNSET  # of its own; unset: the app's
    keep: timedelta | None = None  # how long its runs are kept when they have ended; None: as the app says
    style: Literal["", "machine", "flow"] = ""
    bodies: tuple[Callable[..., Any], ...] = ()  # functions that `function` reaches without naming them
    replayed: tuple[Callable[..., Any], ...] = ()  # those of them that run again on every replay
    parts: Callable[[], tuple[Part, ...]] = tuple  # what it declares, read on request
    definition: bytes = b""  # of a flow: what its runs execute, stored with each of them; `code` is its hash
    declared: int = 0  # how many steps a flow names: they may all run, whatever the app's step limit
    brings: tuple[Any, ...] = ()  # steps and workflows that came with it, and that it may call by name
    is_internal: bool = False  # Holdfast's own: served, but nothing an author declared
    is_unlimited: bool = False  # its runs ask for as much as they need, whatever the app's step limit
    is_begun_when_cancelled: bool = False  # a cancel before its first turn reaches its body all the same

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"{self.name} (version {self.version})" if self.version else self.name


class Settings(msgspec.Struct, frozen=True):
    """What an app decides for all its runs."""

    step_retry: Retry = msgspec.field(default_factory=Retry)
    step_limit: int | None = 1000
    cancel_grace: timedelta = timedelta(minutes=5)
    activation_budget: int = 100_000
    max_claims: int = 20  # claims without progress that quarantine a run, whatever the cause
    snapshot_every: int = 1000  # rows of a run between two snapshots; 0: none
    compact_after: int | None = 10_000  # rows of a journal before it is compacted; None: only when asked for
    keep: timedelta | None = timedelta(days=30)  # how long ended runs are kept that do not say it; None: forever
    paranoid: bool = False  # replay each run whenever it is parked or has ended

    def grace_until(self, at: datetime) -> datetime:
        """When the clean-up of a run that is told to stop must have ended."""
        return later(at, self.cancel_grace)


def check_step_limit(limit: int | msgspec.UnsetType | None, what: str) -> int | msgspec.UnsetType | None:
    if limit is None or limit is msgspec.UNSET:
        return limit
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidInput(f"{what}: give at least 1, or None for no limit")
    return limit


def check_limits(
    step_limit: int | None, snapshot_every: int | msgspec.UnsetType, compact_after: int | msgspec.UnsetType | None
) -> None:
    """Refuses numbers that make no sense, by name."""
    check_step_limit(step_limit, f"step_limit={step_limit}")
    if snapshot_every is not msgspec.UNSET and snapshot_every < 0:
        raise InvalidInput(
            f"snapshot_every={snapshot_every}: give the rows between two snapshots of a run, or 0 for none"
        )
    if compact_after is not msgspec.UNSET and compact_after is not None and compact_after < 1:
        raise InvalidInput(f"compact_after={compact_after}: give at least 1 row, or None to compact only when asked to")
