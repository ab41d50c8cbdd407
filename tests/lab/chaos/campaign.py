"""Chaos as a level: seasons on SQLite and on PostgreSQL, side by side, until there was enough of everything.

`python -m tests.lab.chaos.campaign KIND SEED` plays one season again. (The seed decides what is done to whom; when, and
what the processes are at then, is the machine's.)
"""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from tests.lab.chaos.oracle import p99
from tests.lab.chaos.season import Outcome, season
from tests.lab.levels import Effort, Report, level

KINDS = ("sqlite", "postgresql")
FLOORS = {
    "SIGKILLs on SQLite": 75,
    "SIGKILLs on PostgreSQL": 75,
    "workers stopped past their lease and taken over": 20,
    "turns fenced after they woke up": 20,
    "immediate stops of PostgreSQL": 4,
    "commits whose answer was cut off": 50,
    "runs of 8 steps": 600,
}
"""A campaign below one of these is void, not passed."""

MOST = 6
"""Seasons of each kind that are played at most to reach the floors."""


def floors(outcomes: list[Outcome]) -> dict[str, int]:
    """What the floors count."""
    every = added(outcomes)
    kills = Counter({one.kind: 0 for one in outcomes})
    for one in outcomes:
        kills[one.kind] += one.counts["kill"]
    figures = (
        kills["sqlite"],
        kills["postgresql"],
        every["zombies"],
        every["fenced"],
        every["restart"],
        every["cut"],
        every["runs"],
    )
    return dict(zip(FLOORS, figures, strict=True))


def added(outcomes: list[Outcome]) -> Counter[str]:
    """All counts together."""
    every: Counter[str] = Counter()
    for one in outcomes:
        every += one.counts
    return every


def is_enough(outcomes: list[Outcome]) -> bool:
    """Whether every floor is reached."""
    reached = floors(outcomes)
    return all(reached[name] >= least for name, least in FLOORS.items())


def report_of(outcomes: list[Outcome]) -> Report:
    """Figures, floors, problems."""
    every, reached = added(outcomes), floors(outcomes)
    times = sorted(time for one in outcomes for time in one.recovered)
    report = Report()
    report.figures = {
        "seasons": len(outcomes),
        **reached,
        "workers restarted with the same id": every["same id"],
        "workers replaced by another id": every["another id"],
        "SIGTERMs": every["term"],
        "processes stopped in the middle of a write to SQLite": every["lock held"],
        "connections that PostgreSQL ended": every["connection ended"],
        "writes that came up to a second late": every["slowed"],
        "workers on a host with a wrong clock": every["shifted"],
        "workers without notifications": every["deaf"],
        "runs quarantined for losing their workers, and resumed": every["resumed"],
        "bodies begun": every["bodies"],
        "signals acknowledged": every["signals"],
        "slots of a schedule, each one run": every["slots"],
        "runs in a killed worker's hands, measured": len(times),
        "not measured: hit again, or the store was away": every["left out"],
        "seconds to recover, median": round(times[len(times) // 2], 2) if times else 0,
        "seconds to recover, 99 of 100": round(p99(times), 2),
        **{f"recovered in {low} to {low + 1} s": sum(low < time <= low + 1 for time in times) for low in range(5)},
        "recovered later": sum(time > 5 for time in times),
        "this machine's worst lateness, in seconds": round(max(one.lateness for one in outcomes), 2),
        "least work kept beside a run that kills its worker, in %": round(min(one.kept for one in outcomes) * 100),
    }
    report.sometimes = {
        "a poisoned run was quarantined, cured and ended": every["poison"],
        "a worker on a host with a wrong clock": every["shifted"],
        "a worker without notifications": every["deaf"],
        "a connection ended by the server": every["connection ended"],
        "a write that came late": every["slowed"],
        "a slot of a schedule": every["slots"],
    }
    report.problems = [
        f"{problem} (python -m tests.lab.chaos.campaign {one.kind} {one.seed})"
        for one in outcomes
        for problem in one.problems
    ]
    report.problems += [
        f"void: {reached[name]} {name}, {least} are the least"
        for name, least in FLOORS.items()
        if reached[name] < least
    ]
    return report


@level("chaos", "real worker processes on SQLite and on PostgreSQL, killed, stopped and cut off", share=6)
def chaos(effort: Effort) -> Report:
    """Seasons of both kinds at once, until the floors are reached and the time is over."""
    outcomes: list[Outcome] = []
    following = dict.fromkeys(KINDS, effort.first)
    with ProcessPoolExecutor(len(KINDS)) as pool:
        under_way: dict[Future[Outcome], str] = {}
        while True:
            for kind in KINDS:
                played = following[kind] - effort.first
                is_wanted = not played or (effort.seconds is not None and not effort.is_over)
                is_wanted = is_wanted or (not under_way and not is_enough(outcomes) and played < MOST)
                if kind not in under_way.values() and is_wanted:
                    effort.say(f"   season {following[kind]} on {kind}")
                    under_way[pool.submit(season, kind, following[kind])] = kind
                    following[kind] += 1
            if not under_way:
                return report_of(outcomes)
            finished, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for each in finished:
                del under_way[each]
                outcomes.append(each.result())


if __name__ == "__main__":
    told = season(sys.argv[1], int(sys.argv[2]))
    print(told)
    sys.exit(1 if told.problems else 0)
