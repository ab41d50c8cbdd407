"""The simulation holds, repeats, and would notice: a store or worker that breaks a promise is found out."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.adapters.memory import lease_operations
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.memory.transaction import Transaction
from holdfast.adapters.memory.turns import commit_turn
from holdfast.authoring.script.script_program import ScriptProgram
from holdfast.core import commands
from holdfast.core import events as e
from holdfast.core import schedule as slot_rules
from holdfast.core.pieces import cut
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.core.suspicion import NONE, Suspicion
from holdfast.engine import engine
from holdfast.ports.journal import Commit, Committed, Fenced, Verdict
from holdfast.ports.leases import ClaimRequest, Claims
from holdfast.ports.schedules import Move, Moving
from holdfast.turn import park, rules
from holdfast.turn.draft import Draft
from holdfast.turn.inputs import Opened
from holdfast.turn.machine import Machine
from holdfast.turn.park import next_wake
from holdfast.turn.rules import taken_up
from holdfast.turn.stored_pieces import StoredPieces
from tests.lab.sim.campaign import compared
from tests.lab.sim.crash_points import CANONICAL, crash_points, try_all
from tests.lab.sim.faults import Fault
from tests.lab.sim.loop import SimulatedClock
from tests.lab.sim.scenario import RunPlan, Scenario
from tests.lab.sim.shrinking import keep, kept, shrunk
from tests.lab.sim.world import TTL, Result, World, scenario_of
from tests.support.examples import count

ROOT = Path(__file__).resolve().parents[2]
_open = Machine._open


@pytest.mark.examples
@pytest.mark.parametrize("first", range(0, 120, 30))
def test_seeds(first: int, rng: Random) -> None:
    """Promise: whatever goes wrong, nothing is lost, doubled or wrong, and everything comes to its end. (The lab beside
    the suite tries a thousand new seeds.)"""
    for seed in rng.sample(range(first, first + 30), count(30, few=2)):
        problems = World(seed).run().problems
        assert not problems, f"seed {seed}: {problems[0]}; see it with `python3 dev.py lab --seed {seed}`"


@pytest.mark.parametrize(("seed", "scenario", "faults"), [pytest.param(*rest, id=name) for name, *rest in kept()])
def test_kept_seeds(seed: int, scenario: Scenario, faults: list[Fault]) -> None:
    """Promise: what was once found and mended stays so."""
    assert World(seed, scenario=scenario, faults=faults).run().problems == []


def test_a_seed_repeats() -> None:
    """Promise: the same seed is the same story, call by call."""
    for seed in range(200, 206):
        assert World(seed).run().trace == World(seed).run().trace


def test_a_seed_repeats_whatever_the_hashes_are() -> None:
    """Promise: no order of a set decides anything; seen in processes that hash strings differently."""
    program = "from tests.lab.sim.world import World\nfor seed in range(8): print(World(seed).run().trace)"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in ("1", "2", "3")
    }
    assert len(found) == 1
    assert len(found.pop().split()) == 8


@pytest.mark.parametrize("name", ["sequence", "signal", "saga", "left bodies"])
def test_a_crash_at_every_point(name: str) -> None:
    """Promise: one worker dies before or after any call to the store, and the run ends as the model says. (The lab
    does all scenarios, and pairs.)"""
    points = crash_points(name)
    assert len(points) > 20
    tried, crashes, problems = try_all(name, [[point] for point in points])
    assert problems == []
    assert tried == len(points)
    assert crashes >= tried


def test_there_are_at_least_twelve_scenarios() -> None:
    """Promise: of every way to write a workflow there is one."""
    assert len(CANONICAL) >= 12
    assert {"sequence", "machine", "flow", "batch"} <= set(CANONICAL)


def test_the_same_journals_on_sqlite() -> None:
    """Promise (S21): the same story leaves the same journals, bit for bit, in memory and in a file."""
    for seed in range(300, 306):
        assert compared(seed) == []


# -- it would notice ---------------------------------------------------------------------------------------------------


class Unfenced(MemoryStore):
    """Takes whatever turn fits, whoever sends it."""

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Verdict]:
        with self._writing() as write:
            return [self._apply(write, commit) for commit in batch]

    def _apply(self, write: Transaction, commit: Commit) -> Verdict:
        verdict = commit_turn(write, commit)
        run = self._tables.runs.get(commit.no)
        if isinstance(verdict, Fenced) and run is not None and run.next_ordinal == commit.row.ordinal:
            write.change(run.no, epoch=commit.row.epoch)
            verdict = commit_turn(write, commit)
        return verdict


class Deaf(MemoryStore):
    """Parks a run whatever is unread."""

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Verdict]:
        verdicts = await super().commit(batch)
        for commit, verdict in zip(batch, verdicts, strict=True):
            run = self._tables.runs[commit.no]
            is_parked = isinstance(verdict, Committed) and not run.instance and not run.status.is_terminal
            if commit.park is not None and is_parked:
                with self._writing() as write:
                    write.change(run.no, available_at=commit.park.until)
        return verdicts


class Reworded(MemoryStore):
    """Leaves something out of every turn."""

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Verdict]:
        return await super().commit([self.reword(commit) for commit in batch])

    def reword(self, commit: Commit) -> Commit:
        raise NotImplementedError


class Generous(MemoryStore):
    """Lets anybody give a run back."""

    async def release(self, run: int, *, epoch: int, until: datetime | None, inbox_seen: int, note: str = "") -> bool:
        now = self._tables.runs[run].epoch if run in self._tables.runs else epoch
        return await super().release(run, epoch=now, until=until, inbox_seen=inbox_seen, note=note)


class Hasty(MemoryStore):
    """Takes any decision about a schedule, however old what it was made from."""

    async def move_schedule(self, move: Move) -> Moving:
        known = await self.schedule(move.name)
        return await super().move_schedule(msgspec.structs.replace(move, revision=known.revision if known else 0))


class Thievish(MemoryStore):
    """Frees the runs of workers that live."""

    def _is_live(self, instance: str) -> bool:
        return False


class Uncounting(MemoryStore):
    """Does not count a claim when it is made."""

    async def claim(self, request: ClaimRequest) -> Claims:
        claims = await super().claim(request)
        with self._writing() as write:
            runs = [write.change(run.no, claims=run.claims - 1) for run in claims.runs]
        return Claims(runs, claims.next_due, claims.put_off)


class Chatty(MemoryStore):
    """Sends the messages of turns that it refuses."""

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Verdict]:
        verdicts = await super().commit(batch)
        refused = [commit for commit, verdict in zip(batch, verdicts, strict=True) if isinstance(verdict, Fenced)]
        for message in (message for commit in refused for message in commit.messages):
            await self.send(message)
        return verdicts


class Forgiving(Reworded):
    """Takes every turn for progress."""

    def reword(self, commit: Commit) -> Commit:
        return msgspec.structs.replace(commit, is_progress=True)


class Watchful(Reworded):
    """Never drops the watch of a topic before the run's end."""

    def reword(self, commit: Commit) -> Commit:
        return msgspec.structs.replace(commit, unwatch=())


class Discreet(Reworded):
    """Tells nobody that a child was cancelled."""

    def reword(self, commit: Commit) -> Commit:
        told = tuple(x for x in commit.messages if x.kind != "child" or b'"cancelled"' not in x.body)
        return msgspec.structs.replace(commit, messages=told)


def first_problem(open_store: Callable[..., MemoryStore], seeds: int = 250, first: int = 0) -> str:
    """What the first seed that meets a problem says. `first` spares the search: the seed that met it last time."""
    for seed in range(first, first + seeds):
        result = World(seed, open_store=open_store).run()
        if result.problems:
            return result.problems[0]
    return ""


def first_scheduled_problem(store: Callable[[SimulatedClock], MemoryStore], first: int) -> str:
    """What is wrong first, in the seeds that have schedules."""
    scheduled = (seed for seed in range(first, first + 2000) if scenario_of(seed).schedules)
    results = (World(seed, open_store=store).run() for seed in scheduled)
    return next(result.problems[0] for result in results if result.problems)


def test_a_store_that_does_not_fence_is_found_out() -> None:
    assert first_problem(Unfenced, first=29).startswith("S3")


def given_back_late() -> Iterator[Result]:
    """A parent that waits for its slow child is given back without a turn. Its worker stalls past its lease just then,
    and gives back what another has taken. Chance decides which call to the store that is."""
    scenario = Scenario(workers=2, slots=100, runs=[RunPlan(id="parent", plan=[["child", ["step", "slow", 3000, 0]]])])
    stalls = [Fault("write", number, "stall", TTL * 2) for number in (1, 2)]
    for seed in range(10):
        yield from (
            World(seed, scenario=scenario, faults=[stall], open_store=Generous, dusk=8).run() for stall in stalls
        )


def test_a_store_that_takes_any_release_is_found_out() -> None:
    found = next((result.problems[0] for result in given_back_late() if result.problems), "")
    assert "S3" in found
    assert "given back under epoch" in found


def test_a_store_that_takes_runs_from_the_living_is_found_out() -> None:
    assert first_problem(Thievish).startswith("S16")


def test_a_store_that_takes_late_decisions_about_schedules_is_found_out() -> None:
    """Two workers that both think it is their duty decide the same slot."""
    assert first_scheduled_problem(Hasty, first=4000).startswith("C7")


def test_slots_that_are_dropped_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots that were missed are not counted."""
    monkeypatch.setattr(slot_rules._Turn, "take_slot", _left_out)
    assert first_scheduled_problem(MemoryStore, first=4000).startswith("C7")


def test_a_store_that_does_not_count_claims_is_found_out() -> None:
    assert first_problem(Uncounting).startswith("L5")


def test_a_refused_turn_that_leaves_a_message_is_found_out() -> None:
    """A worker stalls past its lease at the end of a child. The next one repeats the child's step before it tells the
    parent of the end, so a message of the refused turn is new. Chance decides which worker is which."""
    scenario = Scenario(workers=2, slots=100, runs=[RunPlan(id="parent", plan=[["child", ["step", "slow", 600, 0]]])])
    stall = Fault("write", 2, "stall", TTL * 1.2)
    worlds = (World(seed, scenario=scenario, faults=[stall], open_store=Chatty) for seed in range(20))
    problems = next((found for world in worlds if (found := world.run().problems)), [""])
    assert problems[0].startswith("S3")


def test_a_worker_that_begins_what_kills_it_for_ever_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is quarantined, however often it was claimed. Chance decides how often the killer kills before its step is
    done."""
    monkeypatch.setattr(engine, "is_convicted", _never_convicted)
    scenario = Scenario(workers=1, slots=100, runs=[RunPlan("killer", [["poison", "p"]])])
    worlds = (World(seed, scenario=scenario, faults=[], dusk=5) for seed in range(40))
    problems = next((found for world in worlds if (found := world.run().problems)), [""])
    assert problems[0].startswith("L5")


def test_a_worker_that_blames_everybody_aboard_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some deaths every run is quarantined that was there, whoever killed them. Chance decides how often the
    killer kills before its step is done."""
    monkeypatch.setattr(lease_operations, "after_death", _without_suspects)
    monkeypatch.setattr(engine, "is_convicted", _convicted_by_claims)
    killer, innocent = RunPlan("killer", [["poison", "p"]]), RunPlan("innocent", [["step", "slow", 2000, 0]])
    scenario = Scenario(workers=1, slots=100, runs=[killer, innocent])
    worlds = (World(seed, scenario=scenario, faults=[], dusk=5) for seed in range(40))
    problems = next((found for world in worlds if (found := world.run().problems)), [""])
    assert problems[0].startswith("L5: run innocent")
    assert "lost its workers" in problems[0]


def test_a_count_that_begins_anew_without_progress_is_found_out() -> None:
    """A run that kills its worker would never be quarantined."""
    assert first_problem(Forgiving).startswith("L5")


def test_a_store_that_loses_wake_ups_is_found_out() -> None:
    assert "lost wake-up" in first_problem(Deaf)


def test_a_worker_that_forgets_its_timers_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is given back, and nobody will wake it."""
    monkeypatch.setattr(park, "next_wake", _never)
    assert "has to be awake" in first_problem(MemoryStore)


def test_a_store_that_keeps_watches_is_found_out() -> None:
    assert "watch a topic" in first_problem(Watchful)


def test_a_cancelled_child_that_tells_nobody_is_found_out() -> None:
    """Its parent stands still: liveness says so."""
    assert first_problem(Discreet, first=20).startswith("L")


def test_a_deadline_that_wakes_nobody_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is given back for longer than it has time."""
    monkeypatch.setattr(park, "next_wake", _without_deadline)
    assert "has to be awake" in first_problem(MemoryStore)


def test_a_worker_that_stops_bodies_before_the_end_is_durable_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """And that begins all of them again when the end is refused, those included that may run once."""
    monkeypatch.setattr(Machine, "_open", _without_bodies)
    monkeypatch.setattr(rules, "taken_up", _all_again)
    assert first_problem(MemoryStore, first=91).startswith("S9")


def test_a_second_cancel_that_interrupts_the_clean_up_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptProgram, "_deliver_cancel", _cancel_again)
    assert first_problem(MemoryStore, first=46).startswith("S17")


@pytest.mark.parametrize("fault", ["left out", "in another order"])
def test_arguments_that_their_pieces_do_not_make_are_found_out(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker takes pieces for stored that are not, or names them in a wrong order."""
    if fault == "left out":
        monkeypatch.setattr(StoredPieces, "leave_out", _without_last)
    else:
        monkeypatch.setattr(commands, "cut", lambda args: reversed(list(cut(args))))
    scenario = Scenario(workers=1, slots=100, runs=[RunPlan("talk", [["converse", "a", 3, 200, 0]])])
    problems = World(1, scenario=scenario, faults=[]).run().problems
    assert problems[0].startswith("S18: run talk"), problems
    assert "piece" in problems[0]


def test_a_failing_seed_is_shrunk() -> None:
    """Promise: what is kept of a failing seed are the faults that matter."""
    results = (World(seed, open_store=Unfenced).run() for seed in range(29, 1000))
    failing = list(islice((result for result in results if result.problems and len(result.struck) > 2), 2))
    least = [shrunk(result.seed, result, open_store=Unfenced) for result in failing]
    assert all(result.problems for result in least)
    assert sum(len(result.struck) for result in least) < sum(len(result.struck) for result in failing)


def test_a_failing_seed_is_kept(tmp_path: Path) -> None:
    """Promise: what was kept fails again from its file alone, with the store that made it fail, and is never replaced
    by a later find of the same seed."""
    failing = next(result for result in given_back_late() if result.problems)
    path = keep(failing, tmp_path)
    assert keep(failing, tmp_path) == path
    ((name, seed, scenario, faults),) = kept(tmp_path)
    again = World(seed, scenario=scenario, faults=faults, open_store=Generous).run()
    assert (name, again.problems[0]) == (str(seed), failing.problems[0])
    failing.struck.clear()  # the same seed, another story
    assert keep(failing, tmp_path) != path
    assert [name for name, *_ in kept(tmp_path)] == [f"{seed}-2", f"{seed}"]


def _never_convicted(suspicion: Suspicion, claims: int, max_claims: int) -> bool:
    return False


def _convicted_by_claims(suspicion: Suspicion, claims: int, max_claims: int) -> bool:
    return claims >= 3


def _left_out(turn: object, slot: datetime) -> None:
    return None


def _without_suspects(before: Suspicion, claims: int, added: int) -> Suspicion:
    return NONE


def _without_last(stored: StoredPieces, draft: Draft) -> None:
    for event in draft.outputs:
        if isinstance(event, e.StepScheduled) and event.pieces:
            draft.blobs.pop(event.pieces[-1], None)


def _never(run: Run, program: Program) -> datetime | None:
    return None


def _without_deadline(run: Run, program: Program) -> datetime | None:
    return next_wake(msgspec.structs.replace(run, deadline=None), program)


def _without_bodies(machine: Machine, given: Opened, at: datetime) -> None:
    machine._effects += machine._flight.forget_all("the run has ended")
    _open(machine, given, at)


def _all_again(run: Run, commands: Any, worker: str, *, but: Any = (), unbegun: Any = ()) -> Any:
    if isinstance(unbegun, tuple):
        return taken_up(run, commands, worker)
    keys = [step.key for step in run.in_flight if step.key in commands and step.key not in but]
    return [], e.Claimed(worker=worker, restarted=tuple(keys)), keys


def _cancel_again(program: ScriptProgram, event: e.CancelRequested) -> None:
    program.cancel = event
    assert program._main is not None
    program._main.cancel()
