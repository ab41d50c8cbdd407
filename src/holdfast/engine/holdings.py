"""Compares what the store says this worker holds with its sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import TypeAlias

from holdfast.engine.home import EngineHome
from holdfast.engine.local_starts import Beginnings
from holdfast.engine.session import Session
from holdfast.engine.snapshots import Snapshots
from holdfast.engine.suspects import Suspects
from holdfast.errors import StoreError
from holdfast.ports.facts import RunStray
from holdfast.ports.leases import Held

Keep: TypeAlias = Callable[[Mapping[str, int]], Awaitable[Collection[str]]]
"""Asks the lease manager about runs that the store no longer counts as ours. Takes their epochs and returns the runs
that stay here."""


MOMENT = 0.05
"""Maximum seconds to wait for the answer of a write that gave a run back which was claimed again."""


async def keep_none(lost: Mapping[str, int]) -> Collection[str]:
    """For leases of the store itself, whose answer is final."""
    return ()


class Holdings:
    """Drops runs that other workers took, and releases runs that this one does not know."""

    def __init__(self, engine: EngineHome, beginnings: Beginnings, snapshots: Snapshots, suspects: Suspects) -> None:
        self._engine = engine
        self._beginnings = beginnings
        self._snapshots = snapshots
        self._suspects = suspects
        self._strays: dict[str, int] = {}
        self._doubts = 0
        self.keep: Keep = keep_none

    def doubt(self) -> None:
        """See `Engine.doubt`."""
        self._doubts = 2

    async def check(self, instance: str) -> None:
        """See `Engine.check_held`."""
        engine = self._engine
        if not engine.sessions and not self._doubts:
            return
        engine.wheel.turn()  # the clock may have been set forward, which timers of the event loop do not notice
        before = dict(engine.sessions)
        for session in before.values():
            self._snapshots.look(session.run, session.no)
        self._suspects.look()
        held = await engine.store.held(instance)
        if self._doubts:
            await self._give_strays_back(instance, held)
        lost: dict[str, Session] = {}
        for name, session in before.items():
            if not self._is_settled(session):
                continue
            known = held.get(name)
            if known is None:
                lost[name] = session
            elif known.epoch != session.epoch:
                session.drop("claimed again by its own worker")
            elif known.inbox_last > session.inbox_seen:
                engine.fetch_inbox(session)
        if lost:
            await self._let_go(lost)

    async def answered(self, runs: Collection[str]) -> None:
        """Waits a moment for the answer that some of these runs wait for. Another connection may claim a run before the
        answer of the write that gave it back is here; without that answer its program would have to be replayed."""
        sessions = self._engine.sessions
        overtaken = [sessions[run] for run in runs if run in sessions and sessions[run].is_settling]
        if not overtaken:  # mostly
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(MOMENT):
                for session in overtaken:
                    await session.settled()

    def _is_settled(self, session: Session) -> bool:
        """Whether the run is here, and no write is under way that would explain the store's answer."""
        return self._engine.sessions.get(session.run.id) is session and not session.is_settling

    async def _let_go(self, lost: Mapping[str, Session]) -> None:
        """Drops runs that the store counts as free, or as another worker's."""
        kept = await self.keep({name: session.epoch for name, session in lost.items()})
        for name, session in lost.items():
            if name not in kept:
                why = await self._why_lost(session)
                if self._is_settled(session):
                    session.drop(why)
            elif self._engine.sessions.get(name) is not session:  # it left while its owner was written back
                await self._engine.store.release(
                    session.no, epoch=session.epoch, until=self._engine.clock.now(), inbox_seen=session.inbox_seen
                )

    async def _why_lost(self, session: Session) -> str:
        """Why a run is no longer ours. It is gone in any case; the reason is only for the log."""
        try:
            row = await self._engine.store.get(session.run.id)
        except StoreError:
            return "its lease is gone"
        if row is not None and row.epoch == session.epoch:
            return "its lease expired, and no other worker has claimed it since"
        return "taken over by another worker"

    async def _give_strays_back(self, instance: str, held: Mapping[str, Held]) -> None:
        """Releases runs that are ours in the store but unknown here, which would wait forever. Only after two
        comparisons, since an answer that explains them may be on its way. They are claimed again then."""
        engine = self._engine
        found = {name: x.epoch for name, x in held.items() if not engine.knows(name)}
        strays = [name for name, epoch in found.items() if self._strays.get(name) == epoch]
        self._strays = found
        self._doubts = 2 if found else self._doubts - 1
        if not self._doubts:
            self._beginnings.give_up()
        for name in strays:
            row = await engine.store.get(name)
            if row is None or (row.instance, row.epoch) != (instance, found[name]):
                continue
            if engine.knows(name) or self._beginnings.found(row):
                continue
            engine.telemetry.tell(RunStray(name))
            await engine.store.release(row.no, epoch=row.epoch, until=engine.clock.now(), inbox_seen=row.inbox_read)
            engine.freed()
