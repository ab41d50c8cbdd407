"""One run, held by this worker: outcomes in, commands out, one commit after the other.

A session reacts; it has no task of its own. Outcomes of bodies, messages, due times and verdicts call it, each on the
worker's event loop, and each ends in at most one turn. Bodies start only after the row that records their attempt is
durable, and stop only after the row that does without them is. A fenced session is dropped without a trace.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from datetime import datetime
from typing import TYPE_CHECKING, cast

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.messages import ended
from holdfast.core.program import Program
from holdfast.core.rounds import ROUND
from holdfast.core.run import Run
from holdfast.core.step import STOPPED
from holdfast.engine import telling
from holdfast.engine.flight import Flight
from holdfast.engine.pacing import Pace
from holdfast.engine.telling import close
from holdfast.engine.wheel import Alarm
from holdfast.errors import HoldfastError
from holdfast.ports.journal import Commit, Committed, Fenced, Park, Unread
from holdfast.ports.transactions import RolledBack, Settlement
from holdfast.turn import park as parking
from holdfast.turn import rules as deciding
from holdfast.turn.commit import finish
from holdfast.turn.draft import Draft
from holdfast.turn.payloads import inline, offload
from holdfast.turn.rules import deadline_failure, decide, impose_end, pause_reason, taken_up

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine

LOG = logging.getLogger("holdfast.worker")


class Session:
    """See the module."""

    def __init__(self, engine: Engine, no: int, epoch: int, inbox_read: int, run: Run, program: Program) -> None:
        self.engine = engine
        self.run: Run = run
        self.program: Program = program
        self.no: int = no
        self.epoch: int = epoch
        self.inbox_seen: int = inbox_read
        self.unsent: list[Commit] | None = None  # until the run exists: where its first turn is kept
        self._is_resting = False
        self._inputs: list[e.AnyEvent] = []
        self._flight = Flight(self)
        self._claimed: e.Claimed | None = None
        self._to_start: list[str] = []
        self._commands: dict[str, c.RunStep] = {}
        self._is_committing = self._is_gone = self._is_consuming = False
        self._alarm: Alarm | None = None
        self._has_news = False
        self._pace = Pace(self)
        self._draft: Draft | None = None
        self._park: Park | None = None
        self._drain = ""
        self._pause: e.Paused | None = None

    # -- called from outside -------------------------------------------------------------------------------------------

    def open(self, messages: list[e.AnyEvent], inbox_last: int) -> None:
        """Begins: decides what becomes of the steps that were in flight, and takes the first turn."""
        self._take_up()
        self.messages(messages, inbox_last, then_turn=False)
        if messages:
            self._pace.taken()
        if self._to_start and self.run.round == "due" and deciding.waits_for_round(self.run, self._inputs):
            self._drain = ROUND
        if self._is_early():
            return
        self.turn(is_needed=bool(self._to_start) or not self.program.has_begun)

    def _take_up(self, but: Container[str] = (), unbegun: Container[str] = ()) -> None:
        """Decides what becomes of the steps in flight. The epoch's first turn says who has the run; so does a later
        one if bodies are begun again."""
        self._commands = dict(self.program.open_steps())
        outcomes, claimed, self._to_start = taken_up(
            self.run, self._commands, self.engine.worker_id, but=but, unbegun=unbegun
        )
        self._claimed = claimed if self.run.epoch != self.epoch or claimed.restarted else None
        self._inputs += outcomes

    def _is_early(self) -> bool:
        """The body is to begin later (a delayed start, a new pass), and a message woke the run before: leave it where
        it is, unless it ends the run."""
        run = self.run
        begins_at = run.retry.at if run.retry is not None else None if self.program.has_begun else run.available_at
        if begins_at is None or self.time() >= begins_at:
            if run.retry is not None:
                self._inputs.insert(0, e.PassStarted(number=run.passes + 1))
            return False
        if self._pause is not None or any(isinstance(x, e.CancelRequested) for x in self._inputs):
            return False
        self._is_committing = True
        self.engine.release(self, begins_at if run.deadline is None else min(begins_at, run.deadline))
        return True

    @property
    def is_settling(self) -> bool:
        """Whether a write of this session is under way; its verdict will tell."""
        return self._is_committing

    @property
    def is_ending(self) -> bool:
        """Whether the write under way is the run's end: it is accepted only if nothing is unread."""
        draft = self._draft
        return draft is not None and draft.is_terminal

    def messages(self, events: list[e.AnyEvent], inbox_last: int, *, then_turn: bool = True) -> None:
        """Takes what was in the inbox."""
        self.inbox_seen = max(self.inbox_seen, inbox_last)
        for event in events:
            self._is_consuming = True
            if isinstance(event, e.Paused):
                self._pause = event
            elif isinstance(event, e.CancelRequested):
                grace = self.engine.settings.grace_until(self.time())
                self._inputs.insert(0, msgspec.structs.replace(event, grace_until=grace))  # cancel wins every race
            else:
                self._inputs.append(event)
        if then_turn and events:
            self.turn()

    def news(self) -> None:
        """Something may be in the inbox. During a write, its verdict mostly tells, and often the run is over then."""
        if self._is_committing:
            self._has_news = True
        else:
            self._pace.look()

    def drain(self) -> None:
        """The worker is going: give the run back as soon as it falls quiet."""
        self._drain = self._drain if self._drain == "pause" else "shutdown"
        self.turn()

    def drop(self, why: str, *, event: str = "fenced") -> None:
        """Somebody else has the run, or will: forget it, without a trace."""
        if self._is_gone:
            return
        telling.dropped(self, why, event)
        self._flight.leave(why)
        self._flight.settling.give_up_all()
        self._leave(is_warm=False, is_over=False)

    # -- turns ---------------------------------------------------------------------------------------------------------

    def turn(self, *, is_needed: bool = False) -> None:
        """Takes a turn if there is something to take it for."""
        if self._is_committing or self._is_gone:
            return
        at = self.time()
        draft = self._imposed(at)
        is_imposed = draft is not None
        if draft is None:
            if self._flight.holds_writes_back:
                return
            self._gather(at)
            is_quiet = not self._flight and (self._pause is not None or (bool(self._drain) and bool(self._to_start)))
            if not self._inputs and not is_needed and not is_quiet and not self._flight.settling:
                self._rest(at)
                return
            draft = self._activate(at)
        if draft is not None:
            if draft.is_terminal or draft.ends_pass:
                self._do_without_bodies(draft, is_imposed=is_imposed)
            self._submit(draft)

    def _do_without_bodies(self, draft: Draft, *, is_imposed: bool) -> None:
        """An end waits for no body. It says which run on, and none begins after it; if it is refused, they do. An end
        that is imposed is not written in the transaction of a body, so where there is one writer it needs that."""
        self._to_start += self._flight.withhold()
        deciding.name_left(draft, self._flight.keys)
        if is_imposed:
            self._flight.free_writer("the run has ended")

    def _gather(self, at: datetime) -> None:
        """Adds what time brings. After messages and outcomes, so that those win."""
        self._inputs += () if self._pace.is_behind else deciding.delivered(self.program, self._inputs)
        due = deciding.brought_by_time(self.run, self.program, at, self.engine.settings.cancel_grace)
        if due:
            self._inputs.extend(due)
            self._to_start.extend(x.key for x in due if isinstance(x, e.AttemptStarted))

    def _imposed(self, at: datetime) -> Draft | None:
        """An end that does not ask the program."""
        run = self.run
        grace_until = run.grace_until
        if grace_until is not None and at >= grace_until:
            return impose_end(run, at, self._take_inputs())
        if run.started_at is None and run.deadline is not None and at >= run.deadline:
            return Draft(at, self._take_inputs(), [deadline_failure()])
        return None

    def _activate(self, at: datetime) -> Draft | None:
        inputs = [*self._take_inputs(), *self._flight.settling.take()]
        try:
            commands = self.program.activate(at, cast("list[e.Input]", inputs))
        except HoldfastError as error:
            self._stop_for(error, at)
            return None
        except Exception as error:
            LOG.exception("run %s: its program broke", self.run.id)
            self._stop_for(error, at)
            return None
        draft = decide(self.run, at, inputs, commands, self.engine)
        for event in inputs:
            if isinstance(event, e.StepCompleted | e.StepFailed):
                self._commands.pop(event.key, None)
        for command in commands:
            if isinstance(command, c.RunStep):
                self._commands[command.key] = command
        return draft

    def _stop_for(self, error: Exception, at: datetime) -> None:
        """The program cannot go on: the run is paused, with what to do."""
        self._flight.settling.give_up_all()
        self._flight.withhold()
        self._flight.free_writer("the run was paused")
        self._is_consuming = False
        self._drain = "pause"
        self._to_start = []
        self._submit(Draft(at, [e.Paused(reason=pause_reason(error), detail=str(error))]))

    def _submit(self, draft: Draft) -> None:
        """Sends the turn to the journal."""
        if self._claimed is not None:
            draft.inputs.insert(0, self._claimed)
            self._claimed = None
        if self.run.round:
            self._drain = deciding.drain_by_round(self.run, draft, self._drain)
        if self._drain or self._pause is not None:
            self._give_back(draft)
        park = self._park_after(draft)
        blobs = draft.blobs
        draft.inputs = [offload(event, blobs) for event in draft.inputs]
        self._draft, self._park = draft, park
        self._is_committing = True
        self._set_resting(False)
        is_consuming, self._is_consuming = self._is_consuming, False
        run, no, seen = self.run, self.no, self.inbox_seen
        commit = finish(run, no, self.epoch, draft, inbox_seen=seen, is_consuming=is_consuming, park=park)
        if self.unsent is not None:
            self.unsent.append(commit)
        elif not self._flight.settling.sends(commit):
            self.engine.committer.submit(commit, self.answered)

    def _give_back(self, draft: Draft) -> None:
        """With this turn the run is released (or paused): steps not begun are named, so that nobody counts them."""
        if draft.is_terminal:
            return
        if self._flight:
            return  # not quiet yet: the bodies end first
        asked = [x.key for x in draft.outputs if isinstance(x, e.StepScheduled)]
        gone = {x.key for x in draft.outputs if isinstance(x, e.StepAbandoned)}
        unstarted = tuple(key for key in (*self._to_start, *asked) if key not in gone)
        if self._pause is not None:
            draft.inputs.append(self._pause)
            self._drain, self._pause = "pause", None
        next_round = bool(unstarted) and deciding.waits_for_round(self.run, draft.inputs)
        draft.inputs.append(e.Released(worker=self.engine.worker_id, unstarted=unstarted, next_round=next_round))

    def _park_after(self, draft: Draft) -> Park | None:
        """Whether the run is given back with this turn, and until when."""
        if draft.asks_for_step and not self._drain:
            return None  # most turns
        is_quiet = not self._flight and not self._to_start
        if draft.is_terminal or any(isinstance(x, e.Paused) for x in draft.inputs):
            return Park(None)
        if self._drain and not self._flight:
            return Park(parking.wake_after(self.run, self.program, draft) if self._drain == ROUND else draft.at)
        return parking.park_after(self.run, self.program, draft, is_quiet=is_quiet)

    # -- verdicts ------------------------------------------------------------------------------------------------------

    def answered(self, verdict: Settlement) -> None:
        """The store's word on the turn under way."""
        settling = self._flight.settling
        settling.settled(verdict)
        self._is_committing = False
        draft, park, self._draft, self._park = self._draft, self._park, None, None
        assert draft is not None
        if self._is_gone:
            settling.give_up_all()
            return
        match verdict:
            case Committed():
                self._durable(draft, park, verdict)
            case Fenced():
                if verdict.epoch == self.epoch:  # nobody took it: the store has lost rows, and may count it as ours
                    self.engine.doubt()
                self.drop(f"fenced by epoch {verdict.epoch}")
            case Unread() | RolledBack():
                kept = [x for x in draft.inputs if not isinstance(x, deciding.NOT_KEPT)]
                inputs = [inline(x, draft.blobs) for x in settling.without(kept)]  # its blobs were not stored either
                self._is_committing = True  # no turn before the journal is read again
                self.engine.reload(self, inputs)

    def _durable(self, draft: Draft, park: Park | None, verdict: Committed) -> None:
        is_leaving = self._drain not in {"", ROUND}
        telling.turned(self, draft, park, is_leaving=is_leaving, unread=verdict.inbox_last - self.inbox_seen)
        self.engine.suspects.turned(self, draft)
        if draft.is_terminal or park is not None:
            is_over = draft.is_terminal or is_leaving or any(isinstance(x, e.Paused) for x in draft.inputs)
            self._leave(is_warm=not is_over and (not draft.ends_pass or self.engine.begin_anew(self, draft)))
            if self.run.end is not None:
                self.engine.on_end(ended(self.run.id, self.run.end, draft.at, ""))
            self._flight.leave("the run has ended" if draft.is_terminal else "the run goes on without it")
            return
        for command in draft.commands:
            if isinstance(command, c.RunStep):
                self._to_start.append(command.key)
            elif isinstance(command, c.AbandonStep):
                self._abandon(command.key)
        if not self._drain and self._pause is None:
            to_start, self._to_start = self._to_start, []
            for key in to_start:
                if key in self._commands:
                    self._flight.start(self._commands[key])
        if verdict.inbox_last > self.inbox_seen or self._has_news:
            self._has_news = False
            self._pace.look(verdict.inbox_last)
        if self._flight and not self._inputs and not self._flight.settling and not self.program.awaited_sends():
            self._watch_time()  # the common case: nothing to do before a body lands or a time comes
        else:
            self.turn()

    def _abandon(self, key: str) -> None:
        """Asks the body to stop. What never began, and did not land just now, has an outcome too: sagas wait for it."""
        self._flight.stop(key, "the workflow no longer wants it")
        step = self.run.steps.get(key)
        has_landed = any(isinstance(x, e.StepCompleted | e.StepFailed) and x.key == key for x in self._inputs)
        if step is not None and step.undo and not has_landed and key not in self._flight:
            failure = Failure(type=STOPPED, message="abandoned before its body began")
            self._inputs.append(e.StepFailed(key=key, failure=failure, attempts=step.attempt))

    def _leave(self, *, is_warm: bool, is_over: bool | None = None) -> None:
        """`is_over`: the run has ended; unless said, as its fold says, which is ahead of the store after a fence."""
        self._set_resting(False)
        self._is_gone = True
        if self._alarm is not None:
            self._alarm.stop()
        self._pace.stop()
        self.engine.left(self, is_warm=is_warm, is_over=self.run.end is not None if is_over is None else is_over)

    def landed(self, event: e.AnyEvent | None) -> None:
        """A body's one outcome."""
        if self._is_gone:
            return
        if event is not None:
            self._inputs.append(event)
        self.turn()

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _rest(self, at: datetime) -> None:
        """Nothing to do now: wait in memory for what is near, else give the run back."""
        if self._flight:
            self._watch_time()
            return
        wake = parking.next_wake(self.run, self.program)
        lingers = parking.awaits_children(self.run, Draft(at, [])) and not self._drain
        stays = lingers and (self._pace.is_waiting or not self._is_resting)
        if stays or (wake is not None and wake - at <= parking.NEAR and not self._drain):
            self._set_resting(True)
            if lingers:
                self._wake_at(at + self._pace.linger)
            self._wake_at(wake)
            self.engine.freed()
            return
        self._is_committing = True
        self.engine.release(self, at if self._drain else wake)

    def _watch_time(self) -> None:
        """While bodies run: a timer, a retry or the deadline may come due."""
        self._wake_at(parking.next_wake(self.run, self.program))

    def _wake_at(self, when: datetime | None) -> None:
        if when is not None:
            self._alarm = self._alarm or Alarm(self.engine.wheel, self.turn)
            self._alarm.set(when)

    def _set_resting(self, is_resting: bool) -> None:
        if is_resting is not self._is_resting:
            self._is_resting = is_resting
            self.engine.resting += 1 if is_resting else -1

    def released(self, is_ours: bool) -> None:
        """The store answered a release."""
        self._is_committing = False
        if not is_ours:
            self.drop("taken over")
            return
        telling.given_back(self, None, is_leaving=bool(self._drain))
        # What came meanwhile is unread to the store and to the program: whoever claims the run reads it again.
        self._leave(is_warm=not self._drain)
        self._flight.leave("the run was given back")

    def _take_inputs(self) -> list[e.AnyEvent]:
        taken, self._inputs = self._inputs, []
        return taken

    def rebuilt(
        self, run: Run, program: Program, inputs: list[e.AnyEvent], unread: list[e.AnyEvent], inbox_last: int
    ) -> None:
        """After a refused end: the state of the journal again, what has to be journaled next, and what was unread."""
        self._is_committing = False
        if self._is_gone:
            close(program, run.id)
            return
        self.run, self.program = run, program
        if (broken := self._flight.settling.take_broken()) and (failed := self._flight.event_of(*broken)) is not None:
            inputs = [*inputs, failed]
        self._inputs = deciding.after_refusal(inputs, self._inputs)
        self._is_consuming = True
        landed = {x.key for x in self._inputs if isinstance(x, e.StepCompleted | e.StepFailed | e.AttemptFailed)}
        self._take_up({*landed, *self._flight.keys}, set(self._to_start) if run.epoch == self.epoch else ())
        self.messages(unread, inbox_last, then_turn=False)
        self.turn(is_needed=True)

    def time(self) -> datetime:
        now = self.engine.clock.now()
        last = self.run.updated_at
        return now if last is None or now > last else last
