"""`crash_sweep`: a run is performed once, then again with a disturbance at every point it passed."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from holdfast import sync
from holdfast.app import App
from holdfast.authoring.script.resources import Resource
from holdfast.authoring.script.workflows import AnyWorkflow, Call
from holdfast.core.durations import Duration, parse_duration
from holdfast.errors import InvalidInput, NotAllowedHere
from holdfast.testing.fake import Fake
from holdfast.testing.sweep import determinism, sweep_verdict
from holdfast.testing.sweep.elsewhere import INSIDE, Elsewhere
from holdfast.testing.sweep.memory import Memory
from holdfast.testing.sweep.performance import Performance, Performed, Play, Sent
from holdfast.testing.sweep.points import Point, parse, said
from holdfast.testing.sweep.reachable import effective_functions, reached, replayed_functions
from holdfast.testing.sweep.sweep_report import Finding, SweepReport

T = TypeVar("T")


def crash_sweep(
    call: Call[Any],
    *,
    signals: Sequence[Sent] = (),
    fakes: Sequence[Fake] = (),
    app: App | sync.App | None = None,
    pairs: bool | int = False,
    only: str | None = None,
    ignore: Iterable[Any] = (),
    within: Duration = "400d",
    processes: int = 3,
) -> SweepReport:
    """Tests that a workflow survives a crash at every point. Runs it on virtual time, once undisturbed, then again with
    a disturbance at each point it passed. Each time it must end with the same result, the same journal and the same
    effects.

    The points: before the body of a step, after it and before its outcome is durable, its lease lost, the run on two
    workers at once, its outcome last of those that come together; before and after each commit, a commit whose answer
    is lost; a cancel after each commit. A step may run again (`once=True` may not), so what it changes must be the same
    afterwards: of globals, closures and faked resources that bodies of steps name. What workflow code keeps in memory
    is lost with its worker.

    `signals`: what is sent after the start, updates too, in order; a duration between them lets time pass. `fakes`: as
    `sim.use`. `app`: as `Sim(app)`. `pairs`: also two disturbances in one run, all pairs or that many. `only`: one
    point, as the report prints it. `ignore`: objects whose content is not compared, such as a counter of calls.
    `within`: how long the run may take. `processes`: how many processes, with different hash seeds, replay the journal.
    Call `assert_ok()` on the report. Works in plain and in `async def` tests.
    """
    if not isinstance(call, Call):
        raise InvalidInput(f"crash_sweep takes a call such as fulfil(order), got {call!r}")
    if INSIDE in os.environ:
        raise NotAllowedHere(
            "crash_sweep() is called while its module is imported, and sweeping imports that module again: call it in "
            "a test function"
        )
    if isinstance(pairs, int) and pairs < 0:
        raise InvalidInput(f"pairs={pairs}: give a number of pairs of disturbances, or True for all")
    play = Play(call, signals, list(fakes), app, parse_duration(within, what="within"))
    sweep = _Sweep(play, list(ignore))
    chosen = parse(only) if only else None
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return sweep.run(pairs, chosen, processes)
    return _in_a_thread(lambda: sweep.run(pairs, chosen, processes))


class _Sweep:
    def __init__(self, play: Play, ignored: list[Any]) -> None:
        self._play = play
        self._report = SweepReport(f"crash_sweep({play.call.spec.name}(…))")
        specs = reached(play.call.spec, play.app)
        replayed = replayed_functions(specs)
        self._replayed = replayed
        play.calls = [list(fake.calls) for fake in play.fakes]
        values = [(x.real.name, x.fake) for x in play.fakes if isinstance(x.real, Resource)]
        play.memory = Memory(replayed, ignored)
        play.outside = Memory(effective_functions(specs, play.fakes), ignored, also=values).without(play.memory)

    def run(self, pairs: bool | int, only: tuple[Point, ...] | None, processes: int) -> SweepReport:
        with _quiet():
            self._run(pairs, only, processes)
        return self._report

    def _run(self, pairs: bool | int, only: tuple[Point, ...] | None, processes: int) -> None:
        reference = self._perform(())
        self._require_end(reference)
        for finding in sweep_verdict.at_rest(reference):
            self._report.add(finding)
        calls = [list(fake.calls) for fake in self._play.fakes]
        for text in determinism.addresses_used(self._replayed):
            self._report.add(Finding(text, determinism.ADDRESSES))
        if only is not None:
            self._try(reference, only)
        else:
            with self._begin_elsewhere(reference, processes) as elsewhere:
                self._sweep(reference, pairs)
                self._hear(elsewhere)
        self._play.memory.restore()
        self._play.outside.restore()
        for fake, undisturbed in zip(self._play.fakes, calls, strict=True):
            fake.calls[:] = undisturbed

    def _begin_elsewhere(self, reference: Performed, processes: int) -> Elsewhere:
        faked = [fake.real.name for fake in self._play.fakes if isinstance(fake.real, AnyWorkflow)]
        seeds = () if reference.ending.paused else range(1, processes + 1)
        return Elsewhere(reference.stage, reference.served, faked, seeds)

    def _hear(self, elsewhere: Elsewhere) -> None:
        for seed, answer in elsewhere.answers():
            if answer.skipped and answer.skipped not in self._report.skipped:
                self._report.skipped.append(answer.skipped)
            for problem in answer.problems:
                what = "in another process the run takes a different path"
                details = [f"with PYTHONHASHSEED={seed}: {problem}"]
                self._report.add(Finding(what, sweep_verdict.REPLAY + sweep_verdict.SETS, details=details))

    def _sweep(self, reference: Performed, pairs: bool | int) -> None:
        second = Performance(self._play, ()).run(keeps_memory=True)
        for finding in sweep_verdict.again(reference, second):
            self._report.add(finding)
        followers: list[tuple[Point, ...]] = []
        for point in _unique(reference.stage.passed):
            performed = self._try(reference, (point,))
            if pairs and performed is not None:
                followers += [(point, other) for other in _unique(performed.stage.since)]
        wanted = len(followers) if pairs is True else int(pairs)
        for chosen in _spread(followers, wanted):
            self._try(reference, chosen)

    def _try(self, reference: Performed, ordered: tuple[Point, ...]) -> Performed | None:
        self._report.points.append(said(ordered))
        performed = self._perform(ordered)
        for finding in sweep_verdict.disturbed(reference, performed, ordered):
            self._report.add(finding)
        return performed

    def _perform(self, ordered: tuple[Point, ...]) -> Performed:
        return Performance(self._play, ordered).run()

    def _require_end(self, reference: Performed) -> None:
        if reference.waiting and not reference.ending.paused:
            raise InvalidInput(
                f"{self._report.call}: undisturbed, the run does not end: it is {reference.waiting}. Give what it "
                "waits for with signals=[(approved, True)], fake what does not return with fakes=[…], or let more time "
                "pass with within=…"
            )


def _unique(points: Iterable[Point]) -> list[Point]:
    return list(dict.fromkeys(points))


def _spread(chosen: list[tuple[Point, ...]], most: int) -> list[tuple[Point, ...]]:
    """Up to that number of them, evenly spread, always the same ones."""
    if most >= len(chosen):
        return chosen
    return [chosen[number * len(chosen) // most] for number in range(most)]


@contextmanager
def _quiet() -> Generator[None]:
    """Silences logging: hundreds of takeovers, and what a workflow logs each time."""
    logger = logging.getLogger("holdfast")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _in_a_thread(work: Any) -> SweepReport:
    """Runs in a thread, for `async def` tests, whose own event loop is blocked meanwhile."""
    done: list[SweepReport] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001 it belongs to the caller
            errors.append(error)

    thread = threading.Thread(target=run, name="holdfast-sweep")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return done[0]
