"""The page of the docs about speed: made from `results.json`, so that no figure is ever typed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from benchmarks import readme, split
from benchmarks.admission_section import admission_section
from benchmarks.lease_section import lease_section
from benchmarks.peers import PEERS
from benchmarks.report import HEADINGS, MISSED, Line, tables
from benchmarks.rules_section import rules_section
from benchmarks.scale import SCALES
from benchmarks.verb_section import verb_section

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "speed.md"

_OPENING = """\
# How fast it is

This page is made by `python3 dev.py bench` from `benchmarks/results.json`; `python3 dev.py bench --render` makes it
again. Figures of one machine say little about another. What carries over are the ratios: Holdfast and {peer} {version}
were measured in one run, in turns, each with the durability it has by default, and a ratio is always of two figures
of the same round.
"""

_WORKLOADS = """\
## What is measured

Step bodies return a small dict. Holdfast's store is SQLite in WAL mode with `synchronous=FULL`; {peer} keeps SQLite
as it configures it.

- **W1**: {w1_runs} runs of one step, all at once, from start to completed. Of {peer} {peer_runs}, as it is slower;
  rates are compared.
- **W2**: one run of {w2_steps} steps in sequence. **W3**: {w3_runs} runs of {w3_steps} steps at once.
- **W4**: one run of one step after the other, from start to result, in the process of the worker and from another
  one. {peer} without its queue; through its queue, with default polling, the figure is told in a line of its own.
- **W5**: {w5_runs} runs blocked in step 6 of 10, their process killed with SIGKILL, until all have completed. Holdfast
  waits for the dead worker's lease, which is told apart; {peer} takes its runs up when the same executor is launched
  again.
- **W6**: a run with {w6_steps} completed steps resumed by a new process, until the next one begins. Beside it a process
  that imports asyncio and the driver of the database, connects and asks one question: its ratio is the most that any
  engine on that driver can reach.
- **W7**: runs that sleep for an hour: {w7_runs}, of {peer} {peer_runs}. **W8**: bytes that a step adds
  on the disk, to a store that has some already.
- **W9**: what one more step, claim or child costs when there are many more: few, more and many are {w9_steps}
  steps of one run one after the other, {w9_rows} rows, {w9_children} steps of one run, or children of one
  parent, all at once. Holdfast alone: {peer} would take hours.

"Sync bodies" are plain functions in threads, either called from an async workflow or from a plain one; they are to
reach 60 % of the targets. "× raw" is the ratio to 1-row commits of plain apsw on WAL with `synchronous=FULL`, taken
just before and after; of a latency it is how many of them take as long.
"""

_ON_POSTGRESQL = """\
## On PostgreSQL

The same workloads with all stores on one PostgreSQL server of this machine, fsync and synchronous commit on. Server,
clients and workers share the cores. "× raw" is the ratio to inserts of one row by plain psycopg, prepared, each a
transaction. Absurd works with four workers, which have a connection each; W1 to W4 are measured of it. W8 is of one
round: it does not vary.
"""

_REPEAT = """\
## Repeat it

`python3 dev.py bench` takes about a quarter of an hour on a quiet machine, and so does `python3 dev.py bench --store
postgresql`, which starts a server of its own. `--only W1,W4` and `--quick` are for a look; `--only W1,W4 --record`
keeps what it measures and leaves the other figures. `--profile W3` says where the time of a step goes. What a step
costs in statements, syncs and hops between threads is counted by a test (`tests/unit/benchmarks/test_costs.py`), so
that it cannot grow unnoticed.
`python -m benchmarks.leases --record` measures leases by etcd and NATS, about ten minutes.
"""

NOTES: dict[str, str] = {
    "W1": (
        "The time is Python's: hundreds of runs share each commit, so the disk is idle. What was done: run, "
        "lease and first turn in one transaction; ends told in memory instead of read back; one wake-up of the "
        "event loop for all answers of a transaction; values that the collector need not see; ended runs that are "
        "free without it; a start without a task of its own; an end that returns nothing, since SQLite makes a table "
        "for what an update returns. "
        "Between a tenth and a fifth is the collector's, since all the runs are in memory at once. "
        "What is left is spread thinly over "
        "asyncio, the program's own loop, the fold and the codec, as the profile shows. A sync workflow begins a "
        "thread of its own: threads that are used again keep what one body left in them for the next, which saved a "
        "twentieth here, and a fifth on PostgreSQL, when it was tried."
    ),
    "W2": (
        "A sync body is handed to a thread and back, next to a commit that takes little longer. An async body "
        "needs neither."
    ),
    "W3": (
        "As in W1, Python takes the time: a step is one fenced update, which returns nothing, and one row, and "
        "hundreds share a commit. Arguments and results are encoded and decoded so that a live run sees what a replay "
        "would see, and every body is a task of asyncio. To begin it at once, without a pass of the "
        "event loop, was tried: fewer instructions, and an eighth more time."
    ),
    "W4": (
        "Two commits, one after the other, are the floor: made and begun, then ended. They are written "
        "inline, without another thread; a run of one step took three commits before it was made already begun."
    ),
    "W5": ("The time is that of replaying the runs and of writing the steps that are left."),
    "W6": (
        "Most of it is the start of the interpreter and imports, as the profile shows. Machines, flows, the "
        "command line, `multiprocessing` and every optional package are loaded only when they are used, and "
        "bytecode is compiled before, for both sides. The line below says what is left without Holdfast: interpreter, "
        "asyncio and the driver. The replay itself is the figure from the program's start."
    ),
    "W7": (
        "An idle worker looks for what other processes wrote, asks for due runs once a second, and beats "
        "every five seconds. SQLite cannot tell one process of another's commit, so latency between processes "
        "is bought with looks, eight a second. A look is a timer and the state of the log's file; SQLite is asked "
        "only when that has changed. What is left is mostly that a process wakes up at all."
    ),
}
"""By workload: what holds a missed figure back, and what was tried. Shown only where a target is missed."""


NOTES_ON_POSTGRESQL: dict[str, str] = {
    "W1": (
        "As on SQLite it is Python's time, most of it in the engine. Run, lease and first turn are one call of a "
        "function on the server, hundreds of runs in one transaction, and the row of a run is written once, as its "
        "first turn leaves it; the ends of a batch are one update and one insert. What is left on the server, on the "
        "other core, is mostly the making of runs: a row in seven indexes, two rows of the journal."
    ),
    "W2": (
        "A step is one prepared statement, a fenced update and one row, in one round trip; the raw figure is one row "
        "alone. A lone turn is written by the event loop itself, which waits some milliseconds at most, without the "
        "two hops to a thread and back. Sync bodies are handed to a thread and back."
    ),
    "W3": (
        "As in W1, Python takes the time; the server needs a fraction of it, on the other core. A batch is one call, "
        "its columns sent as binary arrays, and all turns that continue or end are one update and one insert."
    ),
    "W4": (
        "Two transactions one after the other are the floor: made and begun, then ended, each a prepared statement "
        "without a thread in between. From another process it is a chain of nine: made, a notice, claimed, read, two "
        "turns, a notice, and two reads by the waiting client. A notice wakes it directly, and "
        "an end is read with the row that was found; both had cost three milliseconds."
    ),
    "W5": (
        "The time is that of replaying the runs and of writing the steps that are left, as many runs at once as a "
        "worker has slots by default. Runs that are taken over together are read together."
    ),
    "W6": (
        "Most of it is the start of the interpreter, asyncio and psycopg, and connecting: the line below says what "
        "these take alone, without Holdfast, and its ratio is the most that could be reached. The replay itself is "
        "the figure from the program's start."
    ),
    "W7": (
        "An idle worker asks once a second in all: in five seconds four looks for due runs and one heartbeat, which "
        "looks too."
    ),
    "W8": (
        "A row of a table of PostgreSQL has a head of 28 bytes, and its entry in the index of the key takes 24, more "
        "where runs are written in turns and pages are split. A short run adds its own row of some 220 bytes, with "
        "room beside it for updates, which is in seven indexes: made, and ended."
    ),
}
"""The same on PostgreSQL."""

_DATABASES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def render(everything: Mapping[str, Any]) -> str:
    """The page, of the results of all stores."""
    results = everything["sqlite"]
    peer = next(one for one in PEERS["sqlite"] if one.name in results["rounds"])
    sizes = {name: _said(size) for name, size in asdict(SCALES[results["scale"]]).items()}
    facts = {**sizes, "peer": peer.title, "version": results["versions"][peer.name]}
    other = everything.get("postgresql")
    return "\n".join(
        [
            _OPENING.format(**facts),
            *_section(results, NOTES, "##"),
            *([_ON_POSTGRESQL, *_section(other, NOTES_ON_POSTGRESQL, "###")] if other else ()),
            *verb_section(),
            *rules_section(),
            *admission_section(),
            *lease_section(),
            _WORKLOADS.format(**facts),
            *([split.render(results["split"], _machine_of_split(results))] if "split" in results else ()),
            _REPEAT,
        ]
    )


def _machine_of_split(results: Mapping[str, Any]) -> str:
    return f"On {results['split']['machine']}, {_DATABASES[results['store']]}:"


def _section(results: Mapping[str, Any], notes: Mapping[str, str], heading: str) -> list[str]:
    """The tables of one store, and what is missed in them."""
    peers = [one for one in PEERS[results["store"]] if one.name in results["rounds"]]
    found = tables(results["rounds"], [peer.name for peer in peers], results["store"])
    said = [_machine(results)]
    for peer, lines in zip(peers, found, strict=True):
        said += [*_table(lines, peer.title), ""]
    together = [line for lines in found for line in lines if lines is found[0] or line.figure.times is not None]
    return [*said, *_missed(together, results.get("profiles", {}), notes, heading)]


def _said(size: object) -> str:
    if isinstance(size, tuple):
        *first, last = [f"{one:,}" for one in cast("tuple[int, ...]", size)]
        return f"{', '.join(first)} and {last}"
    return f"{size:,}" if isinstance(size, int) else str(size)


def write(everything: Mapping[str, Any]) -> None:
    """Makes the page, and the short table of the README."""
    PAGE.write_text(render(everything), encoding="utf-8")
    readme.write(everything["sqlite"])


def _machine(results: Mapping[str, Any]) -> str:
    machine, versions = results["machine"], results["versions"]
    sizes = "" if results["scale"] == "full" else f" Sizes are {results['scale']}: a look, not a record."
    load = f" The machine's load was {machine['load_before']} before."
    rounds = results["rounds_wanted"]
    earlier = results.get("earlier", ())
    if earlier:
        load += f" The figures of {', '.join(earlier)} are of an earlier measurement."
    said = "One round." if rounds == 1 else f"Medians of {rounds} rounds, with the least and the most."
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB; Python {versions['python']}, "
        f"{_DATABASES[results['store']]} {versions[results['store']]}. {said}{sizes}{load}\n"
    )


def _table(lines: list[Line], peer: str) -> list[str]:
    headings = [heading.format(peer=peer) for heading in HEADINGS]
    return [
        f"| {' | '.join(headings)} |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---|",
        *(f"| {' | '.join(line.cells())} |" for line in lines),
    ]


def _missed(lines: list[Line], profiles: Mapping[str, str], notes: Mapping[str, str], heading: str) -> list[str]:
    judged = [line for line in lines if line.verdict]
    missed = [line for line in judged if line.verdict == MISSED]
    said = [f"{len(judged) - len(missed)} of {len(judged)} targets are met.", ""]
    if not missed:
        return said
    said += [f"{heading} What is missed, and why", ""]
    workloads = list(dict.fromkeys(line.figure.workload for line in missed))
    for workload in workloads:
        names = "; ".join(line.figure.title.strip("… ") for line in missed if line.figure.workload == workload)
        said += [f"**{workload}** ({names}). {notes.get(workload, '')}".rstrip(), ""]
        if workload in profiles:
            said += ["```text", profiles[workload], "```", ""]
    return said
