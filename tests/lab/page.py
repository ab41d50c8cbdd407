"""`docs/explanation/reliability.md`: what the last kept campaign found, how to read it, and how to see it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "reliability.md"

HEAD = """# How hard Holdfast was hit

<!-- Made by `python3 dev.py lab --write` from reliability.json. Do not edit. -->

Each level of the lab hits Holdfast in a way of its own and then asks the store, not the worker, what became of it.
These are the figures of one campaign; [reliability.json](../../reliability.json) holds them for programs.

```console no-run: it takes as long as it says
$ {command}
```
"""

TAIL = """
## How to read it

A figure counts what was tried. What was found is the list of problems: a run lost, a completed step run again, an
acknowledged write gone, a result that is not the model's, a run that stands still. It is empty, or the campaign failed.
*Sometimes* counts what has to come up for a campaign to prove anything, such as a turn that was fenced; one of them at
0 fails the campaign too.

**Simulation.** A seed decides everything; seeds are counted from 0, or from `--first`. It decides the workers (1 to
5), the runs (1 to 20, of a grammar of steps, parallel branches, children, signals, topics, timers, deadlines, cancels,
retries, at-most-once steps, sagas, clean-ups, machines, flows, batches, lives after `continue_as`), who moves next,
and what goes wrong: workers killed at any call to the store or stalled past their lease, commits refused or done with
the answer lost, ends refused because a signal came just then, clocks set, hosts rebooted, two workers under one id,
hints lost, doubled and reordered, a lease manager that grants a run twice, code replaced under open runs. Worker,
engine, client and store are the real ones; time, chance and the way to the store are not. After every write the store
is compared with a fold of its own, and every body that begins with what the journal allows: one function a promise, in
`tests/lab/sim/invariants.py`. Then the faults stop, and everything has to end in time.

**Crash points.** Twenty-two scenarios, and for each a crash before and after every call its workers make to the store,
then pairs of crashes.

**Properties.** Machines that do anything in any order against a model of a few lines: stores asked the same by workers
that come and go, leases and claims, blobs in a folder whose writers die, the codec, the loader of flows and its
expressions, timers and retries. Every example has up to 50 steps; hypothesis makes what breaks short.

**Damage.** Garbage in one to three columns of a run, its messages, its exposed values or a worker's row: instants that
no calendar holds, statuses that there are not, texts that are not UTF-8, bytes that are no JSON. Every other run has to
end, every list, `show`, `verify` and `doctor` to answer; the damaged run is named, is not claimed again and again, and
ends when it is killed. Starts with such instants have to be refused.

**Disk faults and power cuts.** SQLite on a disk whose calls fail, once or for good, and on one that loses its power:
what was not synced is gone or torn. Afterwards the file is sound and nothing acknowledged is missing; no slot of a
schedule is decided without its run, and no run is there without the decision.

**Crowds.** 2, 10, 30 and 50 processes write to one SQLite file without a break. None may get less than half its fair
share of the commits or be refused, and all of them together may ask for the file 30 times for each commit, at most.

**Limits.** Four workers whose steps stand under a rate of 50 a second and five at once for each customer, on SQLite and
on PostgreSQL; one is killed every second and started again under its id. No window may have more than rate and burst
allow, no customer more than five, every job has to end, and at least 90 % of the rate has to be used.

**Bits.** A store in which every table has rows, on SQLite and on PostgreSQL, copied again and again: in each copy one
value of one column is another, by a bit, a letter, or because it is gone. Every column of every table has its turn.
`holdfast verify` finds it, or a reader refuses it; or else it is harmless: users read the same, and every run
comes to the same result. A column that only schedules may hold a run up. The list says what became of each column.

**Chaos.** Real worker processes under load, on SQLite and on PostgreSQL: killed (and back under the same id or
replaced by another), stopped for two leases and woken again, asked to end; the server stopped at once and started
again, its connections ended, commits done whose answer is cut off, writes that come late, hosts whose clock is wrong,
workers that hear no notification. Errands have eight steps, two side by side, one that fails at first, and a signal.
Four records are compared: what the driver was told is done (on its disk before it counts), the journals, a ledger that
every body writes to, and the log of what was done to whom. Below a floor (150 kills, 20 workers stopped past their
lease, 20 turns fenced, 4 stops of the server, 50 answers cut off, 600 runs) a campaign is void. Recovery counts from
the kill to the next body elsewhere, with leases of 2 s and a poll of 0.2 s; 99 of 100 have 4.5 s. The oracle is in
`tests/lab/chaos/oracle.py`, and tested on made-up histories of everything it is there to see. On SQLite all workers
share one host and its clock, so no clock is wrong there. A schedule has a slot every second meanwhile: each has to
become one run, whoever is killed while it decides, and no other run may come of it.

**Sweeps and lint.** What users have for their own code, on workflows that are right, which must raise no alarm, and on
seeded mistakes, which must all be found: each once at every change, 1,000 sweeps in a campaign that is given time.

**Mutants.** Known ways to break Holdfast, kept as patches. Each has to be noticed by the tests it names; five take
turns in a short campaign, and all are tried in one that is given time. The list says at which level of test each was
noticed first, and by which test.

## How to see it again

`python3 dev.py lab` runs a whole campaign, `--seconds 2700` a longer one, `--only NAME` one level. The test command,
`python3 dev.py test`, runs the kept seeds, the crash points and new seeds drawn from the commit.
Without a length every level does what a change has to pass. With one, each gets its share of the time, and more if it
needs more to reach its floors. `python3 dev.py lab --seed 4711` tells the story of one seed line by line: every call,
every turn, every fault. The same seed gives the same story on any machine and under any `PYTHONHASHSEED`. A seed that
fails is shortened to the faults that matter and kept in `tests/lab/seeds/`; the suite plays all of them.
"""


def write_page(figures: Mapping[str, Any]) -> None:
    """Writes the page."""
    PAGE.write_text(page_of(figures), encoding="utf-8")


def page_of(figures: Mapping[str, Any]) -> str:
    """The page."""
    return HEAD.format(command=figures["command"]) + "".join(map(_level, figures["levels"].items())) + TAIL


def _level(named: tuple[str, Mapping[str, Any]]) -> str:
    name, found = named
    lines = [f"\n## {name.capitalize()}\n", f"{found['title'][0].upper()}{found['title'][1:]}.\n"]
    lines += [f"Run by itself: `{found['command']}`.\n"] if "command" in found else []
    lines += ["| | |", "|---|---:|"]
    lines += [f"| {what} | {_shown(figure)} |" for what, figure in found["figures"].items()]
    lines += [f"| *sometimes:* {what} | {_shown(count)} |" for what, count in found["sometimes"].items()]
    lines += [f"| **problems** | **{len(found['problems'])}** |\n"]
    return "\n".join([*lines, *_table(found.get("listed", []))])


def _table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    if not rows:
        return []
    head = [f"| {' | '.join(rows[0])} |", f"|{'---|' * len(rows[0])}"]
    return [*head, *(f"| {' | '.join(row.values())} |" for row in rows), ""]


def _shown(figure: object) -> str:
    return f"{figure:,}" if isinstance(figure, int | float) else str(figure)
