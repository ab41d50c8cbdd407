"""The suspects that an engine holds, see `core.suspicion`: their trials, and what clears them.

A suspect is cleared by progress, by a release, by a `heartbeat()` with new progress since its last worker died, and by
surviving its trial, measured by the event loop. In each case the worker is told at once that there is room for the next
one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from holdfast.core.suspicion import trial
from holdfast.engine.home import EngineHome
from holdfast.engine.session import Session
from holdfast.ports.runs import RunRow
from holdfast.turn.draft import Draft, is_progress


class _Trial(msgspec.Struct, gc=False):
    session: Session
    timer: asyncio.TimerHandle
    noted: Mapping[str, bytes]
    """The progress of its steps when its last worker died, as far as known."""


class Suspects:
    """The suspects held: mostly none; more than one only if a lease came back."""

    def __init__(self, engine: EngineHome) -> None:
        self._engine = engine
        self.trials: dict[str, _Trial] = {}

    def opened(self, session: Session, row: RunRow) -> None:
        """A run was opened: if it is a suspect, its trial begins."""
        if not row.suspicion.is_suspect:
            return
        seconds = trial(row.claims).total_seconds()
        timer = asyncio.get_running_loop().call_later(seconds, self._acquit, row.id)
        noted = {step.key: step.progress for step in session.run.in_flight if step.progress != b"null"}
        self.trials[row.id] = _Trial(session, timer, noted)

    def turned(self, session: Session, draft: Draft) -> None:
        if session.run.id in self.trials and is_progress(draft):
            self._end(session)

    def left(self, session: Session) -> None:
        """The run is no longer here."""
        if session.run.id in self.trials:
            self._end(session)

    def look(self) -> None:
        """Clears suspects whose step has made progress."""
        noted_now = self._engine.surroundings.noted
        for name, one in list(self.trials.items()):
            if any(noted_now(name, key) not in {None, before} for key, before in one.noted.items()):
                self._acquit(name)

    def close(self) -> None:
        for one in self.trials.values():
            one.timer.cancel()
        self.trials.clear()

    def _acquit(self, run: str) -> None:
        self._engine.spawn(self._write(self.trials[run].session))

    async def _write(self, session: Session) -> None:
        engine = self._engine
        await engine.asking.insist(
            lambda: engine.store.acquit(session.no, epoch=session.epoch), f"run {session.run.id}: its trial is over"
        )
        self._end(session)

    def _end(self, session: Session) -> None:
        one = self.trials.get(session.run.id)
        if one is not None and one.session is session:
            one.timer.cancel()
            del self.trials[session.run.id]
            self._engine.freed()
