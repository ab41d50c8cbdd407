"""What a season of chaos has to answer for. Pure: it reads what was acknowledged, the journals, the ledger and the log
of what was done to the workers, and says what does not fit. Nobody's own word counts: a worker may lie.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from holdfast.core import events as e
from holdfast.core.turn import Turn
from tests.lab.chaos.work import Entry

SLACK = 1.0
"""By how many seconds the estimate of a store's clock may be wrong on a busy machine."""

ENDS = (e.Completed, e.Failed, e.Cancelled)


@dataclass(frozen=True)
class Act:
    """Something done on purpose: to a process, or (pid 0) to the store. `at` as in the ledger; `until`: its end."""

    what: str
    at: float
    pid: int = 0
    until: float = 0.0


@dataclass
class Evidence:
    """Everything there is after a season."""

    acked: Mapping[str, object]
    """Acknowledged starts: the run, and the result that the model gives."""
    signals: Sequence[tuple[str, str]] = ()
    """Acknowledged signals: run and message id."""
    journals: Mapping[str, Sequence[Turn]] = field(default_factory=dict[str, Sequence[Turn]])
    results: Mapping[str, object] = field(default_factory=dict[str, object])
    unsound: Mapping[str, str] = field(default_factory=dict[str, str])
    """What `verify` found, by run."""
    ledger: Sequence[Entry] = ()
    acts: Sequence[Act] = ()
    slots: Sequence[str] | None = None
    """Runs that a schedule has to have started (they are in `acked` too); None: unknown."""


@dataclass
class Step:
    """What a journal says of one step: how many attempts, and under which epoch and when it was completed."""

    attempts: int = 0
    completions: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])


def judged(found: Evidence) -> list[str]:
    """Everything that does not fit; empty if nothing was lost, doubled or wrong."""
    bodies: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in found.ledger:
        if entry.what in {"start", "end"}:
            bodies[entry.run].append(entry)
    problems = [f"run {run}: acknowledged, and lost" for run in found.acked if not found.journals.get(run)]
    problems += [f"run {run}: a body began, and there is no such run" for run in bodies if run not in found.journals]
    problems += [f"run {run}: verify says: {problem}" for run, problem in found.unsound.items()]
    problems += _messages(found)
    if found.slots is not None:
        foreign = {run for run in found.journals if "@" in run}.difference(found.slots)
        problems += [f"run {run}: C6: there is no such slot" for run in sorted(foreign)]
    for run, turns in found.journals.items():
        about = [*_order(turns), *_pauses(turns), *_ending(turns), *_executions(turns, bodies[run])]
        if run in found.acked and not about:
            about += _result(found, run, turns)
        problems += [f"run {run}: {problem}" for problem in about]
    return [*problems, *_zombies(found)]


def _messages(found: Evidence) -> Iterator[str]:
    """S12: each acknowledged signal is in the journal exactly once."""
    taken = Counter(
        (run, event.message)
        for run, turns in found.journals.items()
        for turn in turns
        for event in turn.events
        if isinstance(event, e.SignalReceived)
    )
    for run, message in found.signals:
        if taken[run, message] == 0 and run in found.journals:
            yield f"run {run}: signal {message} was acknowledged, and lost"
    for (run, message), count in taken.items():
        if count > 1:
            yield f"run {run}: signal {message} is in the journal {count} times"


def _order(turns: Sequence[Turn]) -> Iterator[str]:
    """S1 and S4: no gap, no row twice, seqs and epochs in order, and every new epoch says who took the run: a worker,
    or the operator who resumed it."""
    ordinals = [turn.ordinal for turn in turns]
    if ordinals != list(range(1, len(turns) + 1)):
        yield f"S1: its ordinals are {ordinals}"
    for before, after in pairwise(turns):
        if after.seq <= before.seq:
            yield f"S1: row {after.ordinal} has seq {after.seq}, after {before.seq}"
        if after.epoch < before.epoch:
            yield f"S4: row {after.ordinal} is of epoch {after.epoch}, after one of epoch {before.epoch}"
        if after.epoch > before.epoch and not isinstance(after.events[0], e.Claimed | e.Resumed):
            yield f"S4: row {after.ordinal} begins epoch {after.epoch}, and nobody claimed it"


def _pauses(turns: Sequence[Turn]) -> Iterator[str]:
    """S14: nobody changed the code, so nothing diverges; only what lost its worker again and again is put aside."""
    for turn in turns:
        for event in turn.events:
            if isinstance(event, e.Paused) and event.reason != "quarantined":
                yield f"S14: row {turn.ordinal} paused it, {event.reason}: {event.detail}"


def _ending(turns: Sequence[Turn]) -> Iterator[str]:
    """S10: one end, and nothing after it."""
    events = [event for turn in turns for event in turn.events]
    ends = [place for place, event in enumerate(events) if isinstance(event, ENDS)]
    if len(ends) > 1:
        yield f"S10: it ended {len(ends)} times"
    elif ends and ends[0] != len(events) - 1:
        yield "S10: its end is not the last thing in its journal"


def steps_of(turns: Sequence[Turn]) -> dict[str, Step]:
    """Attempts and completions of every step, as the journal has them."""
    steps: defaultdict[str, Step] = defaultdict(Step)
    for turn in turns:
        for event in turn.events:
            match event:
                case e.StepScheduled() | e.AttemptStarted():
                    steps[event.key].attempts += 1
                case e.Claimed():
                    for key in event.restarted:
                        steps[key].attempts += 1
                case e.StepCompleted():
                    steps[event.key].completions.append((turn.epoch, turn.at.timestamp()))
                case _:
                    pass
    return dict(steps)


def _executions(turns: Sequence[Turn], bodies: Sequence[Entry]) -> Iterator[str]:
    """S7 and S8: a step completes once, after its body ended; no body begins without its attempt in the journal, twice
    for one attempt, or in a process that claimed the run after the step was completed."""
    steps = steps_of(turns)
    for key, step in steps.items():
        mine = [entry for entry in bodies if entry.key == key]
        starts = [entry for entry in mine if entry.what == "start"]
        if len(starts) > step.attempts:
            yield f"S8: {key} ran {len(starts)} times, its journal knows of {step.attempts}"
        if len(step.completions) > 1:
            yield f"S7: {key} was completed {len(step.completions)} times"
        for epoch, at in step.completions[:1]:
            if not any(entry.what == "end" and entry.wall <= at + SLACK for entry in mine):
                yield f"S7: {key} was completed before a body of it ended"
            if late := [entry.epoch for entry in starts if entry.epoch > epoch]:
                yield f"S7: {key} was completed under epoch {epoch}, and began again under {late[0]}"
    begun = Counter((entry.key, entry.attempt) for entry in bodies if entry.what == "start")
    for (key, attempt), count in begun.items():
        if count > 1:
            yield f"S8: attempt {attempt} of {key} began {count} times"
        if key not in steps or attempt > steps[key].attempts:
            yield f"S8: attempt {attempt} of {key} began, and its journal does not know it"


def _result(found: Evidence, run: str, turns: Sequence[Turn]) -> Iterator[str]:
    """It ended, and as the model says."""
    last = turns[-1].events[-1]
    if not isinstance(last, e.Completed):
        yield f"it did not complete: its journal ends with {type(last).__name__}"
    elif found.results.get(run) != found.acked[run]:
        yield f"its result is {found.results.get(run)!r}, the model says {found.acked[run]!r}"


def _zombies(found: Evidence) -> Iterator[str]:
    """S3: what a stopped process held, and another took over meanwhile, gets no row of the old epoch after the first of
    the new one."""
    claims: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in found.ledger:
        if entry.what == "claim":
            claims[entry.run].append(entry)
    for act in (act for act in found.acts if act.what == "stop"):
        for run, made in claims.items():
            old = max((x.epoch for x in made if x.pid == act.pid and x.at < act.at), default=0)
            new = min((x.epoch for x in made if x.pid != act.pid and x.at > act.at and x.epoch > old), default=0)
            if not old or not new:
                continue
            turns = found.journals.get(run, ())
            taken_over = next((turn.ordinal for turn in turns if turn.epoch >= new), None)
            late = [turn for turn in turns if turn.epoch <= old and taken_over and turn.ordinal > taken_over]
            if late:
                yield (
                    f"run {run}: S3: row {late[0].ordinal} is of epoch {late[0].epoch}, written by process {act.pid} "
                    f"that had been stopped, after epoch {new} had taken over"
                )


# -- figures -----------------------------------------------------------------------------------------------------------


def recoveries(found: Evidence) -> tuple[list[float], int]:
    """How long each run waited whose body was under way in a process that was killed, until a body of it began in
    another; and how many are left out, because whoever took the run over was hit too, or the store was away."""
    hits: defaultdict[int, list[float]] = defaultdict(list)
    for act in found.acts:
        if act.pid:
            hits[act.pid].append(act.at)
    outages = [act for act in found.acts if act.until and not act.pid]
    by_run: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in found.ledger:
        by_run[entry.run].append(entry)
    times: list[float] = []
    left_out = 0
    for act in (act for act in found.acts if act.what == "kill"):
        for entries in by_run.values():
            if not _was_under_way(entries, act):
                continue
            later = [x for x in entries if x.at > act.at and x.pid != act.pid]
            began = next((x.at for x in later if x.what == "start"), None)
            takers = {x.pid for x in later if x.what == "claim" and (began is None or x.at <= began)}
            was_hit = any(act.at < at and (began is None or at < began) for pid in takers for at in hits[pid])
            was_away = any(x.at < (began or x.at + 1) and x.until > act.at for x in outages)
            if began is None or was_hit or was_away:
                left_out += 1
            else:
                times.append(began - act.at)
    return sorted(times), left_out


def _was_under_way(entries: Sequence[Entry], act: Act) -> bool:
    before = [x for x in entries if x.at <= act.at and x.what in {"start", "end"}]
    return bool(before) and before[-1].pid == act.pid and before[-1].what == "start"


def takeovers(found: Evidence) -> tuple[int, int]:
    """How many stopped processes lost a run to another while they were stopped, and how many of their turns were
    fenced after they woke up."""
    zombies = fenced = 0
    for act in (act for act in found.acts if act.what == "stop"):
        held = {x.run for x in found.ledger if x.what == "claim" and x.pid == act.pid and x.at < act.at}
        zombies += any(
            x.what == "claim" and x.pid != act.pid and act.at < x.at < act.until and x.run in held for x in found.ledger
        )
        fenced += sum(x.what == "fenced" and x.pid == act.pid and x.at > act.until for x in found.ledger)
    return zombies, fenced


def p99(times: Sequence[float]) -> float:
    """Of sorted times; 0 if there are none."""
    return times[min(len(times) * 99 // 100, len(times) - 1)] if times else 0.0
