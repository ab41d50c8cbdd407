"""A season: four workers on one store, work without a pause, and a deck of things done to them, shuffled by a seed.

First comes the poison, a run that kills whoever takes it: what the others still get done is counted. Then the deck.
Then everything has to end, and the oracle judges.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psycopg

from holdfast.core.status import Status
from tests.lab.chaos import work
from tests.lab.chaos.nursery import PATIENCE, is_alive
from tests.lab.chaos.oracle import Act, judged, p99, recoveries, takeovers
from tests.lab.chaos.site import TTL, Lateness, Site, until
from tests.support.postgres import server_url
from tests.support.postgres_guard import Server
from tests.support.proxy import WRITES, Proxy

WORKERS = 4
PACE = (0.15, 0.6)
"""Seconds between two acts, by chance."""

DECK = {"kill": 80, "zombie": 13, "term": 5}
ON_SERVER = {"restart": 5, "terminate": 6}
CUT_EVERY = 40
"""Of the writes to the server, one in so many is done and never answered."""

SLOW_EVERY = 100
SLOW = (0.1, 1.0)
"""One in so many comes later, by so many seconds."""

WINDOW = 10.0
"""Seconds in which the work done beside the poison is counted, and the work done before it."""

KEPT = 0.7
"""L5: what part of it has to be left."""

RECOVERED = 4.5
"""L2: within so many seconds 99 of 100 go on. (Later by what four processes of a busy machine are late, each.)"""

BUSY = 4


@dataclass
class Outcome:
    """What a season came to."""

    kind: str
    seed: int
    counts: Counter[str] = field(default_factory=Counter[str])
    recovered: list[float] = field(default_factory=list[float])
    kept: float = 0.0
    lateness: float = 0.0
    problems: list[str] = field(default_factory=list[str])


class Season:
    """One play of the deck."""

    def __init__(self, site: Site, server: Server | None) -> None:
        self.site = site
        self.server = server
        self.rng = site.rng
        self.counts: Counter[str] = Counter()
        self._zombie: asyncio.Task[None] | None = None

    async def play(self) -> None:
        """The whole deck, then the end of all work."""
        deck = [act for act, count in {**DECK, **(ON_SERVER if self.server else {})}.items() for _ in range(count)]
        self.rng.shuffle(deck)
        acts = {
            "kill": self.kill,
            "zombie": self.zombie,
            "term": self.term,
            "restart": self.restart,
            "terminate": self.terminate,
        }
        async with self.site.fed():
            for act in deck:
                await acts[act]()
                await asyncio.sleep(self.rng.uniform(*PACE))
            if self._zombie is not None:
                await self._zombie
        await self.site.supervised()
        await self.site.finish()

    def done(self, what: str, pid: int = 0, *, at: float, until: float = 0.0) -> None:
        """Into the log of what was done."""
        self.counts[what] += 1
        self.site.acts.append(Act(what, at, pid, until))

    async def kill(self) -> None:
        """SIGKILL, of one worker or of two at once; back under the same id, or another comes."""
        names = {await self.site.a_busy_one()}
        if self.rng.random() < 0.2:
            names.add(await self.site.a_busy_one())
        for name in sorted(names):
            pid = self.site.workers.pop(name)
            os.kill(pid, signal.SIGKILL)
            self.done("kill", pid, at=time.monotonic())
        for name in sorted(names):
            is_same = self.rng.random() < 0.5
            self.counts["same id" if is_same else "another id"] += 1
            await self.site.launch(name if is_same else self.site.new_name())

    async def term(self) -> None:
        """SIGTERM: it gives back what it has and ends; another comes."""
        name = await self.site.a_busy_one()
        pid = self.site.workers.pop(name)
        os.kill(pid, signal.SIGTERM)
        self.done("term", pid, at=time.monotonic())
        await until(lambda: not is_alive(pid), "a worker stops")
        await self.site.launch(self.site.new_name())

    async def zombie(self) -> None:
        """SIGSTOP for two leases, then SIGCONT. What else is done goes on meanwhile; one at a time is stopped."""
        if self._zombie is not None:
            await self._zombie
        while True:
            name = await self.site.a_busy_one()
            pid = self.site.workers[name]
            self.site.stalled.add(pid)
            os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            feeding = asyncio.ensure_future(self.site.feed())
            await asyncio.wait([feeding], timeout=1)
            if feeding.done() or self.server is not None:  # a server keeps no lock for it; the line may be slow
                break
            # It was stopped in the middle of a write, and keeps the lock of the file: everybody waits for it.
            self.wake(pid)
            self.done("lock held", at=began, until=time.monotonic())
            await feeding
        self._zombie = asyncio.ensure_future(self._woken(pid, began))
        await feeding

    async def _woken(self, pid: int, began: float) -> None:
        await asyncio.sleep(2 * TTL - (time.monotonic() - began))
        self.done("stop", pid, at=began, until=time.monotonic())
        self.wake(pid)

    def wake(self, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)
        self.site.stalled.discard(pid)

    async def restart(self) -> None:
        """The server stops as if its power were gone, and is started again."""
        assert self.server is not None
        began = time.monotonic()
        self.server.stop(signal.SIGQUIT)
        self.server.start()  # in this thread: the kernel ends the server with the thread that started it
        self.done("restart", at=began, until=time.monotonic() + TTL)  # those who asked it look again within a lease

    async def terminate(self) -> None:
        """The server ends half of the connections."""
        assert self.server is not None
        with psycopg.connect(server_url(port=self.server.port), autocommit=True) as connection:
            found = connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast'")
            pids = sorted(pid for (pid,) in found.fetchall())
            for pid in self.rng.sample(pids, len(pids) // 2):
                connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
                self.counts["connection ended"] += 1
        self.done("terminate", at=time.monotonic())

    async def poison(self) -> float:
        """L5: a run that kills its worker until it is quarantined. What the others get done meanwhile, as part of what
        they got done before; cured and resumed, it ends."""
        site = self.site
        async with site.fed():
            await until(lambda: len(site.ledger.ended) >= 8, "the work is under way")
            before = await self._ended_in(WINDOW)
            run = await site.insist(lambda: site.app.start(work.poison(), id="poison"))
            site.acked.start("poison", work.CURED)
            beside = await self._ended_in(WINDOW)
            limit = time.monotonic() + PATIENCE
            while await site.insist(run.status) is not Status.PAUSED:
                if time.monotonic() > limit:
                    raise TimeoutError("the poison is not quarantined")
                await site.supervised()
                await asyncio.sleep(0.02)
            site.antidote.touch()
            await site.insist(run.resume)
            await run.result(timeout="60s")
        self.counts["poison"] += sum(entry.what == "start" and entry.run == "poison" for entry in site.ledger.look())
        return beside / max(1, before)

    async def _ended_in(self, seconds: float) -> int:
        """How many bodies ended, with every worker that dies launched again."""
        limit = time.monotonic() + seconds
        began = len(self.site.ledger.look())
        while time.monotonic() < limit:
            await self.site.supervised()
            await asyncio.sleep(0.02)
        return sum(entry.what == "end" and entry.key in work.KEYS for entry in self.site.ledger.look()[began:])


@contextmanager
def own_server(folder: Path) -> Iterator[Server]:
    """A server that may be stopped."""
    folder.mkdir()
    server = Server(folder)
    server.make()
    server.start()
    try:
        yield server
    finally:
        server.stop(signal.SIGQUIT)


def some(rng: Random, every: int) -> Callable[[bytes], bool]:
    """One in so many of the writes that pass."""

    def is_one(data: bytes) -> bool:
        return any(word in data for word in WRITES) and rng.randrange(every) == 0

    return is_one


class Line(Proxy):
    """The way to the server: of the writes that pass, some are never answered; while it is bad, some come late."""

    def __init__(self, port: int, rng: Random) -> None:
        self.is_bad = False
        cuts, slows = (some(Random(rng.random()), every) for every in (CUT_EVERY, SLOW_EVERY))
        pauses = Random(rng.random())
        super().__init__(
            port,
            cuts,
            slows=lambda data: pauses.uniform(*SLOW) if self.is_bad and slows(data) else 0.0,
        )


def season(kind: str, seed: int) -> Outcome:
    """One season on a store of that kind, from nothing to the verdict."""
    rng = Random(f"chaos:{kind}:{seed}")
    with tempfile.TemporaryDirectory(prefix="holdfast-chaos-") as name:
        folder = Path(name)
        if kind == "sqlite":
            return asyncio.run(_season(kind, seed, f"sqlite:///{folder / 'chaos.db'}", folder, rng))
        with own_server(folder / "server") as server, Line(server.port, rng) as line:
            url = server_url("chaos", port=line.port)
            outcome = asyncio.run(_season(kind, seed, url, folder, rng, server, line))
            outcome.counts.update({"cut": line.cut, "slowed": line.slowed})
            return outcome


async def _season(
    kind: str, seed: int, url: str, folder: Path, rng: Random, server: Server | None = None, line: Line | None = None
) -> Outcome:
    outcome = Outcome(kind, seed)
    late = Lateness()
    site = Site(url, folder, rng, is_many_hosts=server is not None)
    played = Season(site, server)
    try:
        async with site.app:
            for _ in range(WORKERS):
                await site.launch(site.new_name())
            try:
                await site.pulse.begin()
                outcome.kept = await played.poison()
                if line is not None:
                    line.is_bad = True
                await played.play()
            except TimeoutError as error:  # the evidence says why
                outcome.problems.append(f"the season broke off: {error}")
            if line is not None:
                line.is_bad = False
            found = await site.evidence()
    finally:
        late.close()
        await site.close()
    outcome.counts = played.counts
    outcome.lateness = late.worst
    outcome.problems += [*judged(found), *site.failures()]
    outcome.recovered, outcome.counts["left out"] = recoveries(found)
    zombies, outcome.counts["fenced"] = takeovers(found)
    outcome.counts += Counter(
        {
            "zombies": zombies,
            "runs": len(site.acked.starts),
            "slots": len(found.slots or ()),
            "signals": len(found.signals),
            "bodies": sum(entry.what == "start" for entry in found.ledger),
            "shifted": site.shifted,
            "deaf": site.deaf,
            "resumed": site.resumed,
        }
    )
    if outcome.kept < KEPT:
        outcome.problems.append(f"L5: beside the poison only {outcome.kept:.0%} of the work was done")
    limit = RECOVERED + BUSY * late.worst
    if p99(outcome.recovered) > limit:
        outcome.problems.append(f"L2: 99 of 100 went on after {p99(outcome.recovered):.1f} s, not {limit:.1f} s")
    return outcome
