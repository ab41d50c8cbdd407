"""What is done to a store while its disk fails: turns, blobs, signals and ends of a few runs, slots of a schedule, by
chance from a seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from random import Random

import apsw
import msgspec

from holdfast import Schedule, workflow
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.core import events as e
from holdfast.core.declaration import made_by_hand
from holdfast.core.schedule import Advance, advance, run_id
from holdfast.errors import StoreError
from holdfast.ports.inbox import Accepted
from holdfast.ports.journal import Committed, Unread
from holdfast.ports.store import Store
from holdfast.schedules.book import state_of, write
from holdfast.testing.conformance.world import DONE, START, Holder, World, signal

RUNS = 3
TRIES = 8


@workflow
async def beat() -> None:
    """What the schedule starts."""


PULSE = Schedule("pulse", beat(), every="1s", overlap="allow", missed="all", catch_up="1h")


def slot(second: int) -> str:
    """The run of the slot at that second."""
    return run_id(PULSE.name, START + timedelta(seconds=second))


@dataclass
class Acknowledged:
    """What the store said it holds."""

    rows: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    messages: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    blobs: list[str] = field(default_factory=list[str])

    def copy(self) -> Acknowledged:
        """As it is now."""
        return Acknowledged(list(self.rows), list(self.messages), list(self.blobs))

    async def missing(self, world: World) -> list[str]:
        """What of it is not there."""
        lost: list[str] = []
        for run in dict.fromkeys(name for name, _ in self.rows):
            kept = {row.ordinal for row in await world.store.history(run)}
            lost += [f"row {ordinal} of {run}" for name, ordinal in self.rows if name == run and ordinal not in kept]
        for run, message in self.messages:
            delivery = await world.store.send(signal(run, message))
            if isinstance(delivery, Accepted) and not delivery.is_repeat:
                lost.append(f"message {message} to {run}")
        for name in self.blobs:
            try:
                await world.store.get_blob(name)
            except Exception as error:  # noqa: BLE001 whatever it is, the blob is not there
                lost.append(f"blob {name[:8]}: {error}")
        return [*lost, *await self._slots_missing(world)]

    async def _slots_missing(self, world: World) -> list[str]:
        """A slot is decided together with its run: neither is there without the other."""
        stored = await world.store.schedule(PULSE.name)
        decided = 0 if stored is None else round((state_of(stored).cursor - START).total_seconds())
        wanted = {slot(second) for second in range(1, decided + 1)}
        made = {run.id for run in await world.runs() if run.id.startswith(f"{PULSE.name}@")}
        return [
            *(f"run {run} of a slot that was decided" for run in sorted(wanted - made)),
            *(f"decision of the slot whose run is {run}" for run in sorted(made - wanted)),
        ]


class Trace:
    """Some work on a store. Every acknowledgement is noted at once; what fails is tried again a few times."""

    def __init__(self, store: Store, rng: Random, noted: Acknowledged) -> None:
        self._world = World(store, VirtualClock(START))
        self._rng = rng
        self._noted = noted
        self.refused = 0
        self._seconds = 0

    async def run(self, turns: int) -> None:
        """So many turns, of some runs in no particular order."""
        holders = [holder for number in range(RUNS) if (holder := await self._begun(f"run-{number}")) is not None]
        for number in range(turns):
            if holders:
                await self._turn(self._rng.choice(holders), number)
            if self._rng.random() < 0.3:
                await self._slot()
        for holder in holders:
            await self._ended(holder)

    async def _begun(self, run: str) -> Holder | None:
        for _ in range(TRIES):
            try:
                if await self._world.store.get(run) is None:
                    await self._world.create(self._world.new(run))
                self._note(run, 1)
                row = await self._world.get(run)
                return await (self._world.holder(run) if not row.instance else self._world.reader(row))
            except (StoreError, ValueError):
                self.refused += 1
        return None

    async def _turn(self, holder: Holder, number: int) -> None:
        if self._rng.random() < 0.3:
            await self._signalled(holder.id, f"message-{number}")
        blobs: dict[str, bytes] = {}
        value = f'"{number}"'
        if self._rng.random() < 0.3:
            data = self._rng.randbytes(self._rng.randint(1, 20_000))
            blobs[sha256(data).hexdigest()] = data
            value = f'"{next(iter(blobs))}"'
        turn = holder.turn(e.StepScheduled(key=f"step:{number}", value=msgspec.Raw(value.encode())), blobs=blobs)
        for _ in range(TRIES):
            try:
                verdict = await holder.submit(turn)
            except StoreError:
                self.refused += 1
                continue
            assert isinstance(verdict, Committed), verdict
            self._note(holder.id, turn.row.ordinal)
            self._noted.blobs += blobs
            return

    async def _signalled(self, run: str, message: str) -> None:
        for _ in range(TRIES):
            try:
                delivery = await self._world.store.send(signal(run, message))
            except StoreError:
                self.refused += 1
                continue
            assert isinstance(delivery, Accepted), delivery
            self._noted.messages.append((run, message))
            return

    async def _slot(self) -> None:
        """The next slot, as a worker decides it: from what is stored, again after every refusal."""
        self._seconds += 1
        store, now = self._world.store, START + timedelta(seconds=self._seconds)
        for _ in range(TRIES):
            try:
                stored = await store.schedule(PULSE.name)
                if stored is None:
                    state = made_by_hand(None, PULSE.definition, by="lab", now=START)
                    await write(store, PULSE.name, 0, Advance(state, next_at=now), START)
                    continue
                due = advance(PULSE.name, state_of(stored), now, ())
                if due.starts and not await write(store, PULSE.name, stored.revision, due, now):
                    continue
            except StoreError:
                self.refused += 1
                continue
            for second in range(1, self._seconds + 1):
                self._note(slot(second), 1)
            return

    async def _ended(self, holder: Holder) -> None:
        for _ in range(TRIES):
            try:
                row = await self._world.get(holder.id)
                verdict = await holder.submit(
                    holder.turn(DONE, inbox_seen=row.inbox_last, is_consuming=True)
                    if row.inbox_last
                    else holder.turn(DONE)
                )
            except StoreError:
                self.refused += 1
                continue
            if isinstance(verdict, Unread):
                continue
            assert isinstance(verdict, Committed), verdict
            self._note(holder.id, holder.run.ordinal)
            return

    def _note(self, run: str, ordinal: int) -> None:
        if (run, ordinal) not in self._noted.rows:
            self._noted.rows.append((run, ordinal))


def integrity(path: str) -> str:
    """What SQLite itself says of the file; empty if it is sound."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        ((said,),) = connection.execute("PRAGMA integrity_check").fetchall()
    finally:
        connection.close()
    return "" if said == "ok" else str(said)
