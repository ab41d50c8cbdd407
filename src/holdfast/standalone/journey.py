"""One run of a machine in this process: its state, what it has done, and its log.

The modules that drive it (`alone`), perform its states, undo them and end it build on this one, which knows none of
them.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.authoring.machine.model import Model, Node
from holdfast.authoring.machine.observers import Audience
from holdfast.core.machine_history import Completed, LogRow, Past, rehydrate
from holdfast.errors import Conflict, HoldfastError, RunNotFound, StoreError, VersionMismatch

if TYPE_CHECKING:
    from holdfast.ports.machine_log import MachineLog

LOG = logging.getLogger("holdfast.machine")
PATH = 1000
"""Maximum number of states in the path that an error shows."""


class Stop(BaseException):
    """Private: the run was cancelled through its event and has reached a boundary."""


class TooLate(BaseException):
    """Private: the run's total time is over."""


@dataclass(slots=True, eq=False)
class Done:
    """A completed visit. One completed by an earlier process is decoded when it is undone."""

    visit: int
    label: str
    given: Any = None
    left: Any = None
    stored: Completed | None = None
    is_written: bool = False

    @staticmethod
    def of(stored: Completed) -> Done:
        return Done(stored.visit, stored.state, stored=stored, is_written=True)


class Journey:
    """See the module."""

    def __init__(
        self,
        model: Model,
        store: MachineLog | None,
        id: str,
        *,
        keep_log: bool,
        cancel: asyncio.Event | None,
    ) -> None:
        self.model = model
        self.id: str = id or (f"{model.name}-{secrets.token_hex(4)}" if model.options.audience else model.name)
        self.store = store
        self.audience: Audience = model.options.audience
        self.cancel = cancel
        self.path: deque[type | str] = deque(maxlen=PATH)
        self.stack: list[Done] = []
        self.cursors: list[bytes] = []
        self.visit: int = 0
        self.attempt: int = 0
        self.here: Node | None = None
        self.until: float | None = None
        self.keep_log = keep_log
        self.sequence: int = 0
        self._lock = asyncio.Lock()

    def boundary(self) -> None:
        """Between two bodies, where a run stops. A cancel has priority over the time limit."""
        if self.cancel is not None and self.cancel.is_set():
            raise Stop
        if self.until is not None and asyncio.get_running_loop().time() >= self.until:
            raise TooLate

    def begin(self, attempt: int) -> None:
        """An attempt of a body begins."""
        self.attempt = attempt

    @property
    def last_label(self) -> str:
        """The state the run is in."""
        return self.path_shown()[-1] if self.path else ""

    def path_shown(self) -> list[str]:
        """The labels of the visited states, the last ones if there are very many."""
        return [x if isinstance(x, str) else x.__name__ for x in self.path]

    # -- the log -------------------------------------------------------------------------------------------------------

    async def append(self, kind: str, node: Node, blob: bytes | None, *, is_final: bool = False) -> None:
        """One row, durable when this returns. A row that cannot be written fails the run."""
        visit = self.visit + 1 if is_final else self.visit
        await self.write(kind, node.label, node.task, visit, blob)

    async def write(self, kind: str, label: str, task: str, visit: int, blob: bytes | None) -> None:
        """As `append`, by label."""
        if self.store is None:
            return
        async with self._lock:
            row = LogRow(self.sequence, kind, label, task, visit, self.model.version, blob)
            try:
                await _waited(self.store.append(self.id, row))
            except Exception as error:
                raise await self._refused(row, error) from error
            self.sequence += 1
        self.tell_run("checkpoint", row.sequence)

    async def _refused(self, row: LogRow, error: Exception) -> HoldfastError:
        """Why a row was not written: another process wrote it, or the store failed."""
        is_there = isinstance(error, Conflict)
        if not is_there:
            with contextlib.suppress(Exception):
                rows = await self._rows()
                is_there = any(x.sequence == row.sequence for x in rows)
        if not is_there:
            return StoreError(f"machine {self.model.name}, run {self.id}: row {row.sequence} was not written: {error}")
        if row.sequence == 0:
            return Conflict(
                f"machine {self.model.name}: run {self.id} has a log already. Continue it with resume({self.id!r}, "
                "store=…); or clear it first. The log is unchanged."
            )
        return Conflict(
            f"machine {self.model.name}, run {self.id}: row {row.sequence} was written by another process, which "
            "is running this machine, so this one stopped and undid nothing."
        )

    async def _rows(self) -> Sequence[LogRow]:
        assert self.store is not None
        loaded: Any = self.store.load(self.id)
        rows: Sequence[LogRow] = await _waited(loaded)
        return rows

    async def load(self) -> Past:
        """The log, folded and checked."""
        model = self.model
        try:
            rows = await self._rows()
        except HoldfastError:
            raise
        except Exception as error:
            raise StoreError(f"machine {model.name}, run {self.id}: its log cannot be read: {error}") from error
        if not rows:
            raise RunNotFound(f"machine {model.name}: no log of run {self.id!r}; start it with run(…, id={self.id!r})")
        past = rehydrate(self.id, rows)
        stored = past.final.version
        if stored != model.version:
            raise VersionMismatch(
                f"machine {model.name}, run {self.id}: its log was written by version {stored!r}, this is "
                f"{model.version!r}. Resume it with that version.",
                stored=stored,
                expected=model.version,
            )
        older = sorted(past.versions - {stored})
        if older:
            LOG.warning("run %s: its log has rows of other versions: %s", self.id, ", ".join(map(repr, older)))
        return past

    async def clear(self) -> None:
        """The run is over: drops its log. A failure of this is reported and never fatal."""
        if self.store is None or self.keep_log:
            return
        try:
            await _waited(self.store.clear(self.id))
        except Exception as error:  # noqa: BLE001 the run has ended, whatever the store does
            LOG.warning("run %s: its log could not be cleared: %r", self.id, error)
            self.tell_run("clear_failed", error)

    # -- telling -------------------------------------------------------------------------------------------------------

    def tell(self, hook: str, *facts: object, node: Node | None = None) -> None:
        """Tells observers about the state this is about."""
        if self.audience:
            about = node or self.here
            self.audience.tell(hook, self.id, about.label if about is not None else "", *facts)

    def tell_run(self, hook: str, *facts: object) -> None:
        """Tells observers about the run."""
        if self.audience:
            self.audience.tell(hook, self.id, *facts)


async def _waited(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer
