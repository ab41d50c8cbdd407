"""One run, held by this worker: performs what its machine asks for, and tells it what happens.

The machine (`turn.machine`) decides; the session has the bodies, the open transactions, the alarm and the reads of the
inbox. A session has no task: outcomes, messages, timers and verdicts call it, each on the worker's event loop.

It is a loop, not a chain of calls. A lone turn may be answered while it is submitted, and a body may end while it
starts: such inputs wait in a queue until the earlier effects have been performed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import assert_never

import msgspec

from holdfast.authoring.script.context import StepScope
from holdfast.core import events as e
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.engine import report
from holdfast.engine.bodies import Body
from holdfast.engine.child_pace import Pace
from holdfast.engine.home import Home
from holdfast.engine.together import Together
from holdfast.engine.wheel import Alarm
from holdfast.ports.facts import StepCompleted, StepStarted
from holdfast.ports.journal import Commit, Committed, Unread, Verdict
from holdfast.ports.limits import PlaceAnswer
from holdfast.ports.transactions import OpenTransaction
from holdfast.turn import effects as f
from holdfast.turn import inputs as i
from holdfast.turn.machine import Machine
from holdfast.turn.outcome import Outcome, Succeeded
from holdfast.turn.states import State


class Session:
    """See the module."""

    def __init__(self, home: Home, no: int, epoch: int, inbox_read: int, run: Run, program: Program) -> None:
        self.home = home
        self.worker: str = home.worker_id
        self.machine: Machine = Machine(run, program, home.rules, self._withdraw, no=no, epoch=epoch, seen=inbox_read)
        self.unsent: Commit | None = None  # of a run that does not exist yet: its first turn
        self._given: tuple[i.Input, ...] = ()  # while effects are performed
        self._is_performing = self._is_resting = False
        self._settled: asyncio.Event | None = None  # while a claim waits for the store's answer
        self._bodies: dict[str, Body] = {}
        self._ended: Together[tuple[Body, Outcome]] | None = None  # of a run with several bodies at a time
        self._began: dict[str, datetime] = {}  # when bodies were started, if that is listened to
        self._transactions: dict[str, OpenTransaction] = {}  # of bodies that have returned, by key
        self._alarm: Alarm | None = None
        self._pace = Pace()

    @property
    def run(self) -> Run:
        """Its fold, which is ahead of the store while a turn is being committed."""
        return self.machine.run

    @property
    def program(self) -> Program:
        return self.machine.program

    @property
    def no(self) -> int:
        """Its number in the store."""
        return self.machine.no

    @property
    def epoch(self) -> int:
        return self.machine.epoch

    @property
    def inbox_seen(self) -> int:
        """Number of the last message that was taken from the inbox."""
        return self.machine.seen

    @property
    def is_settling(self) -> bool:
        """Whether the store is being asked; its answer will say whether the run is still ours."""
        return self.machine.is_settling

    # -- what happens --------------------------------------------------------------------------------------------------

    def open(
        self,
        run: Run,
        program: Program,
        messages: Sequence[e.AnyEvent] = (),
        last: int = 0,
        kept: Sequence[e.AnyEvent] = (),
        after: int | None = None,
    ) -> None:
        """The run is where its journal ends: it begins, or continues after a refused turn that left `kept`."""
        if messages and self.machine.state is State.NEW:
            self._pace.taken(len(run.waits))
        self.take(i.Opened(self.home.clock.now(), run, program, messages, last, kept, after))

    def messages(self, events: Sequence[e.AnyEvent], inbox_last: int, after: int) -> None:
        """Takes the messages of the inbox after number `after`."""
        self.take(i.Messages(self.home.clock.now(), events, inbox_last, after))

    def news(self) -> None:
        """Something may be in the inbox."""
        self.take(i.News(self.home.clock.now()))

    def drain(self) -> None:
        """The worker is shutting down."""
        self.take(i.Drain(self.home.clock.now()))

    def drop(self, why: str, *, event: str = "fenced") -> None:
        """Another worker owns this run, or soon will: discard the session without writing."""
        self.take(i.Lost(self.home.clock.now(), why, event))

    def born(self, no: int, verdict: Committed) -> None:
        """The run exists now, with its first turn."""
        self.unsent = None
        self.take(i.Verdict(self.home.clock.now(), verdict, no))

    def released(self, is_ours: bool) -> None:
        """The store answered a release."""
        self.take(i.Released(self.home.clock.now(), is_ours))

    def places(self, asked: tuple[str, ...], answer: PlaceAnswer) -> None:
        """The store answered which steps may begin."""
        self.take(i.Places(self.home.clock.now(), asked, answer.granted, answer.is_ours))

    def unreadable(self, error: Exception) -> None:
        """The journal could not be read again."""
        self.take(i.Unreadable(self.home.clock.now(), error))

    def take(self, given: i.Input) -> None:
        """Gives the machine an input, and performs the effects it returns."""
        if self._is_performing:
            self._given += (given,)
            return
        self._is_performing = True
        try:
            self._perform(self.machine.take(given))
            while self._given:
                given, self._given = self._given[0], self._given[1:]
                self._perform(self.machine.take(given))
        finally:
            self._is_performing = False
        if self._settled is not None and not self.machine.is_settling:
            self._settled.set()
            self._settled = None

    async def settled(self) -> None:
        """Waits for the answer of the store, which is being asked."""
        self._settled = self._settled or asyncio.Event()
        await self._settled.wait()

    # -- what is to be done --------------------------------------------------------------------------------------------

    def _perform(self, effects: list[f.Effect]) -> None:
        home = self.home
        for effect in effects:
            match effect:  # what every run has comes first: a pattern that does not match takes its time
                case f.Submit():
                    if effect.where is f.GROUP:  # most
                        home.committer.submit(effect.commit, self._answered)
                    else:
                        self._submit_apart(effect)
                case f.Start():
                    self._start(effect)
                case f.Turned():
                    if effect.is_told:
                        report.turned(self, effect)
                    if home.suspects.trials:  # mostly none
                        home.suspects.turned(self, effect.draft)
                case f.StepEnded():
                    if StepCompleted in home.telemetry.wanted or not isinstance(effect.outcome, Succeeded):
                        report.step_ended(self, effect, self._began.pop(effect.key, None), self.home.clock.now())
                case f.Ended():
                    home.on_end(effect.end)
                case f.Leave():
                    self._leave(effect)
                case f.WakeAt():
                    self._alarm = self._alarm or Alarm(home.wheel, self._time_came)
                    self._alarm.set(effect.at)
                case f.LookInbox():
                    self._pace.look(len(self.machine.run.waits), lambda: home.fetch_inbox(self))
                case f.Rest():
                    self._rest(is_resting=effect.is_resting)
                case f.Stop():
                    self._bodies[effect.key].stop(effect.why)
                case f.Forget():
                    self._forget(effect.key, effect.why)
                case f.GiveUp():
                    self._transactions.pop(effect.key).give_up()
                case f.Release():
                    home.release(self, effect.until, effect.seen)
                case f.Return():
                    home.give_back(self, effect.until, effect.seen)
                case f.MovePlaces():
                    home.move_places(self, effect)
                case f.Reload():
                    home.reload(self, effect.kept)
                case f.Doubt():
                    home.doubt()
                case f.Close():
                    report.close(home.telemetry, effect.program, self.run.id)
                case f.Dropped() | f.GivenBack() | f.Broken():
                    report.told(self, effect)
                case _:
                    assert_never(effect)
        effects.clear()  # the machine keeps the list, but not the draft

    def _submit_apart(self, effect: f.Submit) -> None:
        if isinstance(effect.where, f.Within):
            self.home.settle(self._settle(effect.where.key, effect.commit))
        else:
            self.unsent = effect.commit

    def _answered(self, verdict: Verdict) -> None:
        self.take(i.Verdict(self.home.clock.now(), verdict))

    async def _settle(self, key: str, commit: Commit) -> None:
        """Commits the turn in the transaction that holds what its step wrote."""
        try:
            said = await self._transactions[key].commit(commit)
        except Exception as error:  # noqa: BLE001 the next worker to open the run reads the outcome in the journal
            del self._transactions[key]
            self.take(i.Unknown(self.home.clock.now(), str(error)))
        else:
            if not isinstance(said, Unread):  # else the transaction is open still
                del self._transactions[key]
            self.take(i.Verdict(self.home.clock.now(), said))

    def _leave(self, effect: f.Leave) -> None:
        if self._alarm is not None:
            self._alarm.stop()
        self._alarm = self._ended = None
        self._pace.stop()
        is_warm = effect.is_warm
        if effect.anew is not None:
            program = self.home.begin_anew(self, effect.anew, effect.blobs)
            is_warm = program is not None
            if program is not None:
                report.close(self.home.telemetry, self.machine.program, self.run.id)
                self.machine.program = program
        self.home.left(self, is_warm=is_warm, is_over=effect.is_over)

    def _rest(self, *, is_resting: bool) -> None:
        if is_resting is not self._is_resting:
            self._is_resting = is_resting
            self.home.resting += 1 if is_resting else -1
        if is_resting:
            self.home.freed()

    def _time_came(self) -> None:
        self.take(i.TimeCame(self.home.clock.now(), self._pace.is_waiting))

    # -- bodies --------------------------------------------------------------------------------------------------------

    def _start(self, effect: f.Start) -> None:
        run, command = self.machine.run, effect.command
        assert run.created_at is not None
        scope = StepScope(
            run=run.id,
            workflow=run.workflow,
            version=run.version,
            key=command.key,
            step=command.spec.name,
            attempt=effect.attempt,
            identity=run.id if run.origin == 1 else run.identity,
            created_at=run.created_at,
            surroundings=self.home.surroundings,
            progress=None if effect.progress == b"null" else msgspec.json.decode(effect.progress),
            advice=command.spec.advice,
            no=self.machine.no,
            epoch=self.machine.epoch,
            attributes=dict(run.attributes) if run.attributes else {},
        )
        if StepStarted in self.home.telemetry.wanted:
            self._began[command.key] = self.home.clock.now()
            report.step_started(self, command.key, command.spec.name, effect.attempt)
        body = self._bodies[command.key] = Body(command, scope, self._reported, self.home.bodies)
        if effect.expires_at is not None:

            def expire() -> None:
                if self._bodies.get(command.key) is body:
                    body.expire(f"timed out after {command.timeout}")

            body.limit = self.home.wheel.at(effect.expires_at, expire)
        self.home.bodies.start(body)

    def _reported(self, body: Body, outcome: Outcome) -> None:
        """Takes the single outcome of a body."""
        key = body.scope.key
        transaction = outcome.transaction if isinstance(outcome, Succeeded) else None
        if self._bodies.get(key) is not body:
            if transaction is not None:
                with suppress(Exception):
                    transaction.give_up()
            return
        outlet = body.scope.outlet
        if outlet is not None and (outlet.unsent or not outlet.is_over):  # its outcome comes after all that it sent
            self.home.surroundings.outlets.finish(outlet, lambda: self._reported(body, outcome))
            return
        if transaction is not None and isinstance(outcome, Succeeded):
            self._taken_out(key)
            self._transactions[key] = transaction
            self.take(i.Held(self.home.clock.now(), key, outcome.value))
        elif len(self._bodies) > 1 or self._ended:
            if self._ended is None:
                self._ended = Together(self._land_together)
            self._ended.add((body, outcome))
        else:
            self._land(body, outcome)

    def _land_together(self, ended: Sequence[tuple[Body, Outcome]]) -> None:
        ours = [each for each in ended if self._bodies.get(each[0].scope.key) is each[0]]
        for number, (body, outcome) in enumerate(ours, 1):
            self._land(body, outcome, is_last=number == len(ours))

    def _land(self, body: Body, outcome: Outcome, *, is_last: bool = True) -> None:
        key, outlet = body.scope.key, body.scope.outlet
        progress = self._taken_out(key)
        stopped, sent = body.stop_reason if body.is_stopping else None, () if outlet is None else outlet.sent
        self.take(i.Landed(self.home.clock.now(), key, outcome, progress, stopped, sent, is_last))

    def _withdraw(self, keys: Sequence[str]) -> list[str]:
        """Withdraws the bodies that have not begun. Returns their keys."""
        withdrawn = [key for key in keys if self._bodies[key].is_withdrawn()]
        for key in withdrawn:
            self._forget(key, "the run has ended")
        return withdrawn

    def _forget(self, key: str, why: str) -> None:
        """Forgets a body with its progress: another attempt may be noting progress by now."""
        body = self._bodies[key]
        self._taken_out(key)
        body.leave(why)
        if body.scope.outlet is not None:
            self.home.surroundings.outlets.lose(body.scope.outlet)

    def _taken_out(self, key: str) -> bytes | None:
        """Takes a body out, with its time limit. Returns its last progress, which nothing else removes."""
        body, surroundings = self._bodies.pop(key), self.home.surroundings
        if body.limit is not None:
            self.home.wheel.take_back(body.limit)
        return surroundings.take_progress(self.machine.run.id, key) if surroundings.notes else None
