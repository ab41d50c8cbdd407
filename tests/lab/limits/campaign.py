"""Limits over worker processes that are killed, as a level: never more than is allowed, nearly all of it, none lost."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.lab.levels import Effort, Report, level, unheard
from tests.lab.limits.member import RATE
from tests.lab.limits.season import season, wrong_with
from tests.support.postgres import new_schema, server_url

LEAST_SHARE = 0.9
LATENESS = 0.25
"""Seconds between an admission and the line in the ledger, on a machine that does other work too."""


@level("limits", "limits over worker processes, one killed every second")
def limited(effort: Effort) -> Report:
    """Four workers on SQLite and on PostgreSQL, for 60 s each, or half of the time that there is."""
    report = Report()
    seconds = 60.0 if effort.seconds is None else max(5.0, min(60.0, effort.seconds / 2))
    jobs = int(RATE * seconds * 1.1)
    for kind in ("sqlite", "postgres"):
        with tempfile.TemporaryDirectory(prefix="holdfast-limits-") as folder, unheard():
            url = server_url(new_schema()) if kind == "postgres" else f"sqlite:///{folder}/limits.db"
            ledger = Path(folder) / "ledger"
            found = asyncio.run(season(url, ledger, workers=4, jobs=jobs, seconds=seconds, every=1.0))
        effort.say(f"{kind}: {found.share:.0%} of the rate, {found.kills} kills, {found.most_held} places at most")
        report.problems += [f"{kind}: {each}" for each in wrong_with(found, jobs, LATENESS)]
        if found.share < LEAST_SHARE:
            report.problems.append(f"{kind}: {found.share:.0%} of the rate began, at least {LEAST_SHARE:.0%} are meant")
        report.figures[f"{kind}: share of the rate"] = round(found.share, 2)
        report.figures[f"{kind}: kills"] = found.kills
        report.figures[f"{kind}: most places of a customer"] = found.most_held
    return report
