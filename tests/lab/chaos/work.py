"""What the workers of the chaos level do, and the ledger in which they say so.

A ledger is a file of its own, appended to with single writes, so it says what really happened, whatever the store says:
a body began or ended, a run was claimed, a turn was fenced; in which process, under which epoch, and when.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from holdfast import Retry, Signal, current, step, workflow
from holdfast.ports.journal import Answer, Commit, Fenced, Verdict
from holdfast.ports.leases import ClaimRequest, Claims
from holdfast.ports.store import Store
from tests.support.ledger import append

LEDGER = "HOLDFAST_TEST_LEDGER"
ANTIDOTE = "HOLDFAST_TEST_ANTIDOTE"
"""A file; while it is missing, the poison kills."""

PARTS = 7
KEYS = ("part", *(f"part:{number}" for number in range(1, PARTS)), "flaky")
"""The eight steps of an errand."""

LAST = f"part:{PARTS - 1}"
TIP = 7
CURED = "cured"
TICKED = "ticked"

approved = Signal[int]("approved")
EPOCHS: dict[str, int] = {}
"""The epoch under which this process last claimed each run."""


class Entry(NamedTuple):
    """One line of the ledger. `at` is of the clock that never jumps, `wall` of the host's wall clock."""

    what: str
    run: str
    key: str
    attempt: int
    epoch: int
    pid: int
    at: float
    wall: float


def write(what: str, run: str, key: str, attempt: int, epoch: int) -> None:
    """One line in the ledger."""
    wall = time.clock_gettime(time.CLOCK_REALTIME)  # not the one that is shifted
    line = f"{what} {run} {key} {attempt} {epoch} {os.getpid()} {time.monotonic()} {wall}"
    append(os.environ[LEDGER], line)


def note(what: str) -> None:
    """A body began or ended."""
    here = current()
    write(what, here.run_id, here.key, here.attempt, EPOCHS.get(here.run_id, 0))


@step
async def part(number: int, place: int) -> int:
    note("start")
    await asyncio.sleep(0.08 + (number * 7 + place * 3) % 10 / 50)  # work, of 0.08 to 0.26 s
    note("end")
    return number * place


@step(retry=Retry(5, first="10ms", ceiling="20ms"))
async def flaky(number: int) -> int:
    note("start")
    if current().attempt == 1:
        raise ConnectionError("the first try fails")
    note("end")
    return number


@workflow
async def errand(number: int) -> int:
    """Eight steps, two of them side by side, one that fails at first, and a wait for a signal between."""
    done = await part(number, 0)
    done += sum(await asyncio.gather(part(number, 1), part(number, 2)))
    done += await approved.wait()
    done += await flaky(number)
    for place in range(3, PARTS):
        done += await part(number, place)
    return done


def model(number: int) -> int:
    """What an errand comes to."""
    return number * (sum(range(PARTS)) + 1) + TIP


@step
async def fatal() -> str:
    note("start")
    if not os.path.exists(os.environ[ANTIDOTE]):  # noqa: ASYNC240, PTH110 one look
        os.kill(os.getpid(), signal.SIGKILL)
    note("end")
    return CURED


@step
async def tick() -> str:
    note("start")
    note("end")
    return TICKED


@workflow
async def beat() -> str:
    """The run of a slot."""
    return await tick()


@workflow
async def poison() -> str:
    """Kills every worker that takes it, until there is an antidote."""
    return await fatal()


def spy_on(store: Store) -> None:
    """Claims and fenced turns of this process go to the ledger."""
    claim, commit, commit_now = store.claim, store.commit, store.commit_now

    async def claiming(request: ClaimRequest) -> Claims:
        claims = await claim(request)
        for run in claims.runs:
            EPOCHS[run.id] = run.epoch
            write("claim", run.id, "-", 0, run.epoch)
        return claims

    async def committing(batch: Sequence[Commit]) -> Sequence[Answer]:
        verdicts = await commit(batch)
        for turn, verdict in zip(batch, verdicts, strict=True):
            judge(turn, verdict)
        return verdicts

    def committing_now(turn: Commit) -> Verdict | None:
        verdict = commit_now(turn)
        judge(turn, verdict)
        return verdict

    def judge(turn: Commit, verdict: Answer | None) -> None:
        if isinstance(verdict, Fenced):
            write("fenced", turn.row.run, "-", 0, turn.row.epoch)

    store.claim = claiming  # type: ignore[method-assign]
    store.commit = committing  # type: ignore[method-assign]
    store.commit_now = committing_now  # type: ignore[method-assign,assignment]


class Ledger:
    """The ledger as the driver reads it: on from where it last looked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self.ended: set[str] = set()
        """Errands whose last body has ended."""
        self._offset = 0
        self._latest: dict[str, Entry] = {}
        path.touch()

    def look(self) -> list[Entry]:
        """All entries so far."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode().splitlines():
            what, run, key, attempt, epoch, pid, at, wall = line.split()
            entry = Entry(what, run, key, int(attempt), int(epoch), int(pid), float(at), float(wall))
            self.entries.append(entry)
            if what in {"start", "end"}:
                self._latest[run] = entry
            if what == "end" and key == LAST:
                self.ended.add(run)
        return self.entries

    def busy(self) -> Counter[int]:
        """How many runs have a body under way, by process."""
        self.look()
        return Counter(entry.pid for entry in self._latest.values() if entry.what == "start")
