"""Worker processes with limited steps, one of them killed again and again; and what the store admitted meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from holdfast import App
from tests.lab.limits.member import AT_ONCE, BURST, RATE, job
from tests.support import warm

ROOT = Path(__file__).resolve().parents[3]
SLACK = 1
"""Admissions more than the rule says: the ledger's clock is read a moment after the store's."""


@dataclass
class Season:
    """What happened. `begun` are the instants at which bodies began, `most_held` the most places of one key."""

    begun: list[float] = field(default_factory=list[float])
    ended: int = 0
    kills: int = 0
    seconds: float = 0.0
    most_held: int = 0

    @property
    def share(self) -> float:
        """Of what the rate allows, what began."""
        return len(self.begun) / (RATE * self.seconds) if self.seconds else 0.0

    def worst_window(self, lateness: float) -> float:
        """The most that a window had above the rate. Bodies begin up to `lateness` seconds after they were admitted."""
        times, worst = sorted(self.begun), 0.0
        for first in range(len(times)):
            for last in range(first, min(first + 4 * RATE, len(times))):
                allowed = (times[last] - times[first] + lateness) * RATE + BURST
                worst = max(worst, last - first + 1 - allowed)
        return worst


def hired(url: str, ledger: Path, name: str) -> subprocess.Popen[str]:
    """A worker process."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, "-m", "tests.lab.limits.member", url, str(ledger), name]
    return warm.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, text=True)


async def season(url: str, ledger: Path, *, workers: int, jobs: int, seconds: float, every: float) -> Season:
    """Lets workers do the jobs for that long, one killed in each `every` seconds and started again under its id; then
    until all are done."""
    found, app = Season(), App(url, workflows=[job])
    async with app:
        store = (await app.client()).store
        runs = [await app.start(job(number), id=f"job-{number}") for number in range(jobs)]
        members = [hired(url, ledger, f"w{number}") for number in range(workers)]
        try:
            while not _size(ledger):  # noqa: ASYNC110 a file is looked at
                await asyncio.sleep(0.02)
            began = killed_at = time.monotonic()
            while time.monotonic() - began < seconds and _ends(ledger) < jobs:
                await asyncio.sleep(0.05)
                found.most_held = max([found.most_held, *(line.held for line in await store.lines("customer"))])
                if time.monotonic() - killed_at >= every:
                    killed_at = time.monotonic()
                    place = found.kills % workers
                    members[place].send_signal(signal.SIGKILL)
                    members[place].communicate()
                    members[place] = hired(url, ledger, f"w{place}")
                    found.kills += 1
            found.seconds = time.monotonic() - began
            found.begun = _begun(ledger)
            results = await asyncio.gather(*(run.result("120s") for run in runs))
            found.ended = sum(result == number for number, result in enumerate(results))
        finally:
            for member in members:
                member.send_signal(signal.SIGKILL)
                member.communicate()
        assert not list(await store.lines("api")), "somebody waits still"
    return found


def wrong_with(found: Season, jobs: int, lateness: float) -> list[str]:
    """What breaks the promise."""
    problems: list[str] = []
    if (worst := found.worst_window(lateness)) > SLACK:
        problems.append(f"a window had {worst:.0f} admissions more than rate and burst allow")
    if found.most_held > AT_ONCE:
        problems.append(f"a customer had {found.most_held} places, {AT_ONCE} are allowed")
    if found.ended != jobs:
        problems.append(f"{found.ended} of {jobs} jobs ended well")
    return problems


def _size(ledger: Path) -> int:
    return ledger.stat().st_size if ledger.exists() else 0


def _begun(ledger: Path) -> list[float]:
    return [float(line.split()[0]) for line in ledger.read_text().splitlines() if " begin " in line]


def _ends(ledger: Path) -> int:
    return ledger.read_bytes().count(b" end ") if ledger.exists() else 0
