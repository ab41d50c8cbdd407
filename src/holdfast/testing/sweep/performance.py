"""Performs a run once, from start to end, with the requested disturbances."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from holdfast import sync
from holdfast.app import App
from holdfast.authoring.registry import Registry
from holdfast.authoring.script.channels import Channel, Topic
from holdfast.authoring.script.update import AnyUpdate
from holdfast.authoring.script.workflows import Call
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.status import Status
from holdfast.errors import RunFinished, UpdateRefused, UpdateTimeout
from holdfast.testing.fake import Fake
from holdfast.testing.sim import BEGINNING
from holdfast.testing.sweep.actors import Actor
from holdfast.testing.sweep.determinism import Watch
from holdfast.testing.sweep.final_state import Ending, ending_of, stream_facts
from holdfast.testing.sweep.memory import Memory
from holdfast.testing.sweep.points import CRASHES, Point
from holdfast.testing.sweep.stage import Killed, Stage
from holdfast.testing.virtual_loop import at_once

ROOT = "sweep"
"""The id of the run."""

Sent: TypeAlias = tuple[Channel[Any] | AnyUpdate[Any, Any], Any] | Duration
"""A signal, publication or update to send, or a time to let pass before the next."""


@dataclass(slots=True)
class Play:
    """What is performed repeatedly."""

    call: Call[Any]
    sent: Sequence[Sent]
    fakes: Sequence[Fake]
    app: App | sync.App | None
    within: timedelta
    memory: Memory = field(default_factory=lambda: Memory(()))
    outside: Memory = field(default_factory=lambda: Memory(()))
    calls: list[list[dict[str, Any]]] = field(default_factory=list[list[dict[str, Any]]])
    """The earlier calls of each fake."""


@dataclass(slots=True)
class Performed:
    """One performance: the stage afterwards, how the run ended, and the state of the outside."""

    stage: Stage
    ending: Ending
    outside: dict[str, tuple[str, str]]
    served: Registry
    waiting: str = ""


class Performance:
    """One performance of a play."""

    def __init__(self, play: Play, ordered: tuple[Point, ...]) -> None:
        self._play = play
        self.stage: Stage = Stage(ROOT, ordered)
        self.stage.go_on = self._drive
        self.stage.outside = play.outside
        self._watch = Watch(self.stage.note)
        self._actors: list[Actor] = []
        self._sent: set[int] = set()

    def run(self, *, keeps_memory: bool = False) -> Performed:
        """Performs it. `keeps_memory`: the process continues from the performance before."""
        play = self._play
        if not keeps_memory:
            play.memory.restore()
        play.outside.restore()
        for fake, calls in zip(play.fakes, play.calls, strict=True):
            fake.calls[:] = calls
        try:
            self._drive()
            rows = self.stage.journal()
            ending = ending_of(ROOT, rows)
            ending.facts.update(stream_facts(self.stage.store, dict.fromkeys(row.run for row in rows)))
            row = at_once(self.stage.store.get(ROOT))
            waiting = "" if row is None or row.status.is_terminal else self._actors[-1].get(ROOT).waiting
            return Performed(self.stage, ending, play.outside.pictures(), self._actors[-1].served, waiting)
        finally:
            for actor in self._actors:
                actor.bury()

    def _drive(self) -> None:
        while True:
            actor = Actor(self.stage, self._play.app, self._play.fakes, self._watch)
            self._actors.append(actor)
            try:
                self._go(actor)
                return
            except Killed:
                if self.stage.done[-1].kind in CRASHES:
                    self._play.memory.restore()

    def _go(self, actor: Actor) -> None:
        play, stage = self._play, self.stage
        actor.begin()
        run = actor.start(play.call, id=ROOT)
        until = BEGINNING
        for number, item in enumerate(play.sent):
            if not isinstance(item, tuple):
                until += parse_duration(item, what="signals=")
                actor.pass_time(max(until - stage.clock.now(), timedelta()))
            elif number not in self._sent and not run.status().is_terminal:
                channel, value = item
                self._sent.add(number)
                if isinstance(channel, AnyUpdate):
                    with suppress(UpdateTimeout, UpdateRefused, RunFinished):  # the journal has the outcome
                        run.update(channel, value, id=f"update-{number}")
                elif isinstance(channel, Topic):
                    actor.publish(channel, value, id=f"message-{number}")
                else:
                    run.signal(channel, value, id=f"signal-{number}")
        actor.pass_time(play.within, until_end_of=ROOT)
        if any(view.status in {Status.PENDING, Status.RUNNING} for view in actor.runs()):
            actor.pass_time(play.within)  # children that are not awaited
