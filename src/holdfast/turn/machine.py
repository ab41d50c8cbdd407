"""One held run as a machine: inputs in, effects out. It decides and does nothing.

There is no store, no event loop, no clock and no log here: time comes with the inputs, randomness is injected, and a
step or transaction is a key. It calls the program itself. `states.ALLOWED` says which states follow which;
`docs/explanation/how-a-run-is-executed.md` draws it.

Invariants: one turn is on its way at a time, and the fold is ahead of the store only then. A body starts only after the
row that records its attempt is durable, and is asked to stop only after the row that does without it is. A run that is
lost leaves no trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import assert_never

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.messages import ended
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.ports.journal import Committed, Fenced, Park, Unread
from holdfast.ports.transactions import RolledBack
from holdfast.turn import effects as f
from holdfast.turn import inputs as i
from holdfast.turn import rules
from holdfast.turn.draft import Draft
from holdfast.turn.intent import HOLD, LEAVE, PAUSE, STAY
from holdfast.turn.outcome import Succeeded
from holdfast.turn.payloads import inline
from holdfast.turn.states import FLYING, GONE, IDLE, NEW, REBUILDING, RELEASING, WAITS_FOR_STORE, WRITING, State
from holdfast.turn.step_gate import gate_of
from holdfast.turn.writer import Writer


class Machine(Writer):
    """See the module. `take` is the one verb."""

    __slots__ = ()

    run: Run
    program: Program
    state: State
    seen: int
    no: int
    is_unborn: bool

    @property
    def is_settling(self) -> bool:
        """Whether the store is being asked; its answer will say whether the run is still ours."""
        return self.state in WAITS_FOR_STORE

    @property
    def is_ending(self) -> bool:
        """Whether the pending turn is the run's end. From any thread."""
        draft = self._draft
        return draft is not None and draft.is_terminal

    # -- inputs --------------------------------------------------------------------------------------------------------

    def take(self, given: i.Input) -> list[f.Effect]:
        """Takes one input and returns its effects, in order."""
        self._effects = effects = list[f.Effect]()
        if self.state is NEW and not isinstance(given, i.Opened | i.Lost):
            self._expect()
        last = self.run.updated_at
        at = given.at if last is None or given.at > last else last
        match given:
            case i.Landed():
                self._landed(given, at)
            case i.Verdict():
                self._answered(given, at)
            case i.TimeCame():
                self._ask_again(at)
                self._turn(at, is_looking=given.is_looking)
            case i.Places():
                self._placed(given, at)
            case i.Messages():
                if self._read(given.events, given, at) and given.events:
                    self._turn(at)
            case i.News():
                self._news()
                self._ask_again(at)
            case i.Opened():
                self._open(given, at)
            case i.Held():
                self._hold(given, at)
            case i.Released():
                self._released(is_ours=given.is_ours)
            case i.Drain():
                self._intent = LEAVE
                self._turn(at)
            case i.Lost():
                self._lose(given.why, given.event)
            case i.Unknown():
                self._expect(WRITING)
                self._lose(f"the outcome of its transaction is unknown: {given.why}", "abandoned")
                effects.append(f.Doubt())
            case i.Unreadable():
                self._expect(REBUILDING)
                self._lose(f"cannot be rebuilt from its journal: {given.error}", "abandoned")
                effects.append(f.Return(at, self.seen))
            case _:
                assert_never(given)
        return effects

    def _expect(self, *states: State) -> None:
        if self.state is not GONE and self.state not in states:
            raise AssertionError(f"run {self.run.id}: not while it is {self.state.value}")

    # -- one beginning -------------------------------------------------------------------------------------------------

    def _open(self, given: i.Opened, at: datetime) -> None:
        """Decides about the steps in flight, and takes the first turn. If the run was read again, its running bodies
        stay, and the inputs of its refused turn come first."""
        self._expect(NEW, REBUILDING)
        if self.state is GONE:
            self._effects.append(f.Close(given.program))
            return
        is_again = self.state is REBUILDING
        run, program = given.run, given.program
        self.run, self.program, self.state = run, program, IDLE
        if is_again:
            failed = self._flight.failed_again(run, at, self._rules.chance)
            self._inputs = rules.after_refusal([*given.kept, *failed], self._inputs)
        self._is_consuming = is_again
        self._gate, self._step_limit = gate_of(run), rules.step_limit(self._rules.spec_of(run), self._rules.settings)
        self._take_up(run, program)
        if given.messages or given.last:
            self._read(given.messages, given, at)
        gate, is_due = self._gate, run.round == "due"
        if is_due and gate is not None and self._unstarted and self._intent is STAY:
            self._intent = HOLD if gate.holds(run, self._inputs) else STAY
        if is_again or not self._is_early(at):
            self._turn(at, is_needed=is_again or bool(self._unstarted) or not program.has_begun)

    def _take_up(self, run: Run, program: Program) -> None:
        """The steps in flight to restart, without those that the refused turn settled or whose bodies still run."""
        if not run.steps:  # a run that begins
            self._commands, self._unstarted = {}, []
            self._claimed = e.Claimed(worker=self._rules.worker) if run.epoch != self.epoch else None
            return
        landed = {x.key for x in self._inputs if isinstance(x, e.StepCompleted | e.StepFailed | e.AttemptFailed)}
        self._commands = dict(program.open_steps())
        outcomes, claimed, self._unstarted = rules.taken_up(
            run,
            self._commands,
            self._rules.worker,
            but={*landed, *self._flight.keys},
            unbegun=set(self._unstarted) if run.epoch == self.epoch else (),
        )
        if any(command.spec.limits for command in self._commands.values()):
            claimed = self._take_up_limited(run, claimed)
        self._claimed = claimed if run.epoch != self.epoch or claimed.restarted else None
        self._inputs += outcomes

    def _take_up_limited(self, run: Run, claimed: e.Claimed) -> e.Claimed:
        """Of the steps to start, those under limits need a place first, unless they have one."""
        lines = self._lines_of_run()
        lines.forget()
        limited = {key for key, command in self._commands.items() if command.spec.limits}
        for key in [key for key in self._unstarted if key in limited]:
            if run.steps[key].is_unstarted:
                lines.wait(self._commands[key])
            elif key in claimed.restarted:
                lines.want(self._commands[key])
            else:
                continue
            self._unstarted.remove(key)
        return msgspec.structs.replace(claimed, begun=tuple(key for key in claimed.begun if key not in limited))

    def _is_early(self, at: datetime) -> bool:
        """Whether the body must begin later (a delayed start, a new pass) and a message woke the run early: then it
        stays, unless the message ends it."""
        run = self.run
        has_begun = self.program.has_begun
        begins_at = run.retry.at if run.retry is not None else None if has_begun else rules.begins_at(run, self._inputs)
        is_preceded = bool(run.after) and rules.is_preceded(run, self._inputs)
        if not is_preceded and (begins_at is None or at >= begins_at):
            if run.retry is not None:
                self._inputs.insert(0, e.PassStarted(number=run.passes + 1))
            return False
        if self._pause is not None or any(isinstance(x, e.CancelRequested) for x in self._inputs):
            return False
        if is_preceded or begins_at is None:  # only the end of those before it wakes it
            self._release(None)
        else:
            self._release(begins_at if run.deadline is None else min(begins_at, run.deadline))
        return True

    # -- what comes in -------------------------------------------------------------------------------------------------

    def _read(self, events: Sequence[e.AnyEvent], given: i.Messages | i.Opened, at: datetime) -> bool:
        """Takes messages, each once. Two reads of the inbox may overlap: the second one is discarded, and
        the inbox is read again."""
        if given.after is not None and given.after != self.seen:
            self._news()
            return False
        self.seen = max(self.seen, given.last)
        for event in events:
            self._is_consuming = True
            if isinstance(event, e.Paused):
                self._pause = event
            elif isinstance(event, e.CancelRequested):
                grace = self._rules.settings.grace_until(at)
                self._inputs.insert(0, msgspec.structs.replace(event, grace_until=grace))  # cancel wins every race
            elif type(event) is e.UpdateReceived:
                self._inputs.insert(rules.place_of_update(self._inputs), event)
            else:
                self._inputs.append(event)
        return True

    def _news(self) -> None:
        """Looks at the inbox. During a write the verdict tells, and often the run is over then."""
        if self.state in WAITS_FOR_STORE:
            self._has_news = True
        elif self.state is not GONE:
            self._effects.append(f.LookInbox())

    def _landed(self, given: i.Landed, at: datetime) -> None:
        if self.state is GONE:
            return
        started = self._flight.land(given.key)
        outcome = given.outcome
        if type(outcome) is not Succeeded:
            outcome = rules.redacted(outcome, self.program.redaction)
        event = rules.event_of(
            self.run, started.command, outcome, given.progress, given.stopped, at, self._rules.chance
        )
        if given.sent and isinstance(event, e.StepCompleted | e.StepFailed | e.AttemptFailed):
            event = msgspec.structs.replace(event, sent=given.sent)
        self._effects.append(f.StepEnded(given.key, started.attempt, outcome, event))
        if event is not None:
            self._inputs.append(event)
        if given.is_last:
            self._turn(at)

    def _hold(self, given: i.Held, at: datetime) -> None:
        if self.state is GONE:
            self._effects.append(f.GiveUp(given.key))
            return
        self._expect(FLYING, WRITING, REBUILDING)
        self._flight.hold(given.key, given.value)
        self._turn(at)

    # -- verdicts ------------------------------------------------------------------------------------------------------

    def _answered(self, given: i.Verdict, at: datetime) -> None:
        if self.state is not WRITING:
            self._expect(WRITING)
        said = given.said
        is_gone = self.state is GONE
        if self._flight.taken is not None:
            self._effects += self._flight.settled(said, self.program.redaction)
        draft, park, self._draft, self._park = self._draft, self._park, None, None
        if is_gone or draft is None:
            self._effects += self._flight.give_up_all()
            return
        self.state = IDLE
        match said:
            case Committed():
                if self.is_unborn:
                    self.no, self.is_unborn = given.no, False
                self._durable(draft, park, said, at)
            case Fenced():
                if said.epoch == self.epoch:  # no other worker has it: the store lost rows, and may count it as ours
                    self._effects.append(f.Doubt())
                self._lose(f"fenced by epoch {said.epoch}", "fenced")
            case Unread() | RolledBack():
                for paused in (x for x in draft.inputs if isinstance(x, e.Paused) and x.reason != "stuck"):
                    self._pause, self._intent = paused, STAY  # asked for still: what comes next may end the run
                kept = [x for x in draft.inputs if not isinstance(x, (*rules.NOT_KEPT, e.Paused))]
                self.state = REBUILDING
                # Its blobs were not stored either.
                self._effects.append(f.Reload([inline(x, draft.blobs) for x in self._flight.without_held(kept)]))
            case _:
                assert_never(said)

    def _durable(self, draft: Draft, park: Park | None, said: Committed, at: datetime) -> None:
        is_leaving = self._intent is PAUSE or self._intent is LEAVE
        is_told = park is not None or not self.program.is_plain or self.run.ordinal == f.FIRST_TURN
        self._effects.append(f.Turned(draft, park, is_leaving, said.inbox_last - self.seen, is_told))
        if self._pieces is not None:
            self._pieces.learn(draft)
        if self._lines is not None:
            self._lines.settled([*draft.inputs, *draft.outputs])
        if draft.is_terminal or park is not None:
            self._leave_with(draft, is_leaving=is_leaving)
            return
        for command in draft.commands:
            if type(command) is c.RunStep:
                if not command.spec.limits:
                    self._unstarted.append(command.key)
            elif type(command) is c.AbandonStep:
                self._abandon(command.key)
        if self._unstarted and self._intent is STAY and self._pause is None:
            self._start_all(at)
        if self._lines is not None:
            self._ask_for_places(at)
        if said.inbox_last > self.seen or self._has_news:
            self._has_news = False
            self._shown = max(self._shown, said.inbox_last)
            self._effects.append(f.LookInbox())
        flight = self._flight
        program, is_idle = self.program, not self._inputs and not flight.held
        if is_idle and flight.flying and flight and (program.is_plain or not program.awaited_sends()):
            self._watch_time(at)  # the common case: nothing to do before a body lands or a time comes
        else:
            self._turn(at)

    def _leave_with(self, draft: Draft, *, is_leaving: bool) -> None:
        """Leaves the run, which has ended or is parked, paused or released with this turn."""
        last = draft.outputs[-1] if draft.ends_pass else None
        is_over = draft.is_terminal or is_leaving or any(isinstance(x, e.Paused) for x in draft.inputs)
        anew = last if isinstance(last, e.Continued) and not is_over else None
        is_warm = not is_over and (last is None or anew is not None)
        self._leave(f.Leave(is_warm, self.run.end is not None, anew, draft.blobs))
        self._tell_lines(is_over=draft.is_terminal)
        if self.run.end is not None:
            self._effects.append(f.Ended(ended(self.run.id, self.run.end, draft.at, "")))
        self._forget_bodies("the run has ended" if draft.is_terminal else "the run continues without it")

    def _start_all(self, at: datetime) -> None:
        unstarted, self._unstarted = self._unstarted, []
        for key in unstarted:
            command = self._commands.get(key)
            if command is not None and (start := self._flight.start(self.run, command, at)) is not None:
                self._effects.append(start)

    def _abandon(self, key: str) -> None:
        """Asks the body to stop. A step that never began, and did not just land, gets an outcome too: sagas wait for
        it."""
        step = self.run.steps.get(key)
        self._effects += self._flight.stop(key, step, "the workflow no longer wants it")
        has_landed = any(isinstance(x, e.StepCompleted | e.StepFailed) and x.key == key for x in self._inputs)
        if step is not None and step.undo and not has_landed and key not in self._flight:
            self._inputs.append(rules.never_began(step))

    # -- waiting and leaving -------------------------------------------------------------------------------------------

    def _released(self, *, is_ours: bool) -> None:
        self._expect(RELEASING)
        if self.state is GONE:
            return
        if not is_ours:
            self._lose("this worker no longer held it", "fenced")
            return
        is_leaving = self._intent is not STAY
        self._effects.append(f.GivenBack(is_leaving))
        # What came meanwhile is unread to the store and to the program: the worker that claims the run reads it again.
        self._leave(f.Leave(not is_leaving, self.run.end is not None))
        self._tell_lines(is_over=False)
        self._forget_bodies("the run was given back")

    def _lose(self, why: str, event: str) -> None:
        """Another worker owns this run, or soon will: gives it up without writing."""
        if self.state is GONE:
            return
        self._effects.append(f.Dropped(why, event))
        self._forget_bodies(why)
        self._leave(f.Leave(is_warm=False, is_over=False))  # the fold may be ahead of the store

    def _ask_again(self, at: datetime) -> None:
        """Asks for places again: one may be free."""
        if self._lines is not None and self._lines.waiting and self.state not in WAITS_FOR_STORE:
            self._ask_for_places(at, again=True)

    def _tell_lines(self, *, is_over: bool) -> None:
        """Frees the places of a run that is no longer held; its waiters may have been woken meanwhile."""
        if self._lines is not None and (move := self._lines.parting(is_over=is_over)) is not None:
            self._effects.append(move)

    def _placed(self, given: i.Places, at: datetime) -> None:
        if self.state is not GONE and self._lines is not None:
            if given.is_ours:
                self._lines.answered(given.asked, given.granted)
            else:
                self._lines.put_off()
            self._turn(at)

    def _leave(self, how: f.Leave) -> None:
        if self._is_resting:
            self._rest_is(False)
        self.state = GONE
        self._withdraw_bodies = list  # its session is released: the two would otherwise wait for the collector
        self._effects.append(how)

    def _forget_bodies(self, why: str) -> None:
        """Ignores its bodies from now on."""
        flight = self._flight
        if flight.held:
            self._effects += flight.give_up_held()
        if flight.flying:
            self._effects += flight.forget_all(why)
