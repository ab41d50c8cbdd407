"""Makes the turns of one run: from what came in to the commit that is submitted, or rests if there is nothing to write.

The other half of the machine (`machine`) takes the inputs and the verdicts. Pure, like all of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TypeAlias, cast

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.errors import HoldfastError
from holdfast.ports.journal import Park
from holdfast.turn import effects as f
from holdfast.turn import park as parking
from holdfast.turn import rules
from holdfast.turn.commit import finish
from holdfast.turn.draft import Draft
from holdfast.turn.flight import Flight
from holdfast.turn.intent import HOLD, PAUSE, STAY
from holdfast.turn.limited import LOOK, Lines
from holdfast.turn.payloads import offload_all
from holdfast.turn.rules import Rules
from holdfast.turn.states import FLYING, GONE, IDLE, NEW, RELEASING, WAITS_FOR_STORE, WRITING, State
from holdfast.turn.step_gate import StepGate
from holdfast.turn.stored_pieces import StoredPieces

_BUSY = WAITS_FOR_STORE | {GONE}

Withdraw: TypeAlias = Callable[[Sequence[str]], list[str]]
"""Takes back those of these bodies that have not begun, and says which: injected, like chance."""


class Writer:
    """What is known of a run that is held, and the next turn of it."""

    __slots__ = (
        *("_claimed", "_commands", "_draft", "_effects", "_flight", "_gate", "_has_news", "_inputs", "_intent"),
        *("_is_consuming", "_is_resting", "_lines", "_park", "_pause", "_pieces", "_rules", "_shown", "_step_limit"),
        *("_unstarted", "_withdraw_bodies", "epoch", "is_unborn", "no", "program", "run", "seen", "state"),
    )

    def __init__(
        self, run: Run, program: Program, rules: Rules, withdraw: Withdraw, *, no: int, epoch: int, seen: int = 0
    ) -> None:
        self.run: Run = run
        self.program: Program = program
        self.no: int = no
        self.epoch: int = epoch
        self.seen: int = seen  # number of the last message that was taken from the inbox
        self.is_unborn: bool = no == 0
        self.state: State = NEW
        self._rules = rules
        self._withdraw_bodies = withdraw
        self._effects: list[f.Effect] = []
        self._inputs: list[e.AnyEvent] = []  # for the next turn
        self._flight = Flight()
        self._pieces: StoredPieces | None = None  # of a run that has any
        self._commands: dict[str, c.RunStep] = {}
        self._unstarted: list[str] = []  # steps whose bodies begin once they may
        self._claimed: e.Claimed | None = None
        self._is_consuming = self._is_resting = self._has_news = False
        self._shown = 0  # number of the newest message that a commit has shown
        self._draft: Draft | None = None
        self._park: Park | None = None
        self._intent = STAY
        self._pause: e.Paused | None = None  # asked for, not written yet
        self._gate: StepGate | None = None
        self._step_limit: int | None = None
        self._lines: Lines | None = None  # of most runs

    # -- turns ---------------------------------------------------------------------------------------------------------

    def _turn(self, at: datetime, *, is_needed: bool = False, is_looking: bool = False) -> None:
        """Takes a turn if there is something to take it for."""
        if self.state in _BUSY:
            return
        flight, run = self._flight, self.run
        draft: Draft | None = None
        is_overdue = run.started_at is None and run.deadline is not None
        if is_overdue or run.cancel is not None or run.past_deadline is not None:
            draft = self._imposed(at)
        is_imposed = draft is not None
        if draft is None:
            if flight.flying and self._rules.is_exclusive and flight.has_writer:
                self.state = FLYING  # a turn would wait for the body, and the body's outcome for the turn
                return
            if run.retries or run.deadline is not None or self._lines is not None or not self.program.is_plain:
                self._gather(at)
            has_begun = self._lines is not None and bool(self._lines.granted) and self._intent is STAY
            if not self._inputs and not is_needed and not flight.held and not has_begun:
                is_due = self._pause is not None or (self._intent is not STAY and bool(self._unstarted))
                if flight or not is_due:
                    self._rest(at, is_looking=is_looking)
                    return
            draft = self._activate(at)
        if draft is not None:
            if (draft.is_terminal or draft.ends_pass) and (flight.flying or flight.held):
                self._do_without_bodies(draft, is_imposed=is_imposed)
            self._submit(draft)

    def _imposed(self, at: datetime) -> Draft | None:
        """An end that does not ask the program."""
        run = self.run
        grace_until = run.grace_until
        if grace_until is not None and at >= grace_until:
            return rules.impose_end(run, at, self._take_inputs())
        if run.started_at is None and run.deadline is not None and at >= run.deadline:
            return Draft(at, self._take_inputs(), [rules.deadline_failure()])
        return None

    def _gather(self, at: datetime) -> None:
        """Adds what time brings. After messages and outcomes, so that those win."""
        run, program = self.run, self.program
        is_plain = program.is_plain
        if not is_plain and self._shown <= self.seen and program.awaited_sends():  # else the inbox may say otherwise
            self._inputs += rules.delivered(program, self._inputs)
        timers = () if is_plain else program.due_timers(at)
        if timers or run.retries or run.deadline is not None:  # mostly nothing
            due = rules.brought_by_time(run, timers, at, self._rules.settings.cancel_grace)
            self._inputs.extend(due)
            self._unstarted.extend(self._free_of_limits(x.key for x in due if isinstance(x, e.AttemptStarted)))
        if self._lines is not None and self._lines.waiting:
            self._inputs += self._lines.expired(run, at)

    def _take_inputs(self) -> list[e.AnyEvent]:
        taken, self._inputs = self._inputs, []
        return taken

    def _activate(self, at: datetime) -> Draft | None:
        inputs, self._inputs = self._inputs, []
        if self._flight.held:
            inputs.append(self._flight.take())
        try:
            commands = self.program.activate(at, cast("list[e.Input]", inputs))
        except HoldfastError as error:
            self._stop_for(error, at)
            return None
        except Exception as error:  # noqa: BLE001 the author's code is called in there
            self._effects.append(f.Broken(error))
            self._stop_for(error, at)
            return None
        draft = rules.decide(self.run, at, inputs, commands, self._rules, self._step_limit)
        asked = self._commands
        for event in inputs:
            if type(event) is e.StepCompleted or type(event) is e.StepFailed:
                asked.pop(event.key, None)
        for command in commands:
            if type(command) is c.RunStep:
                asked[command.key] = command
                if command.spec.limits:
                    self._lines_of_run().want(command)
        return draft

    def _lines_of_run(self) -> Lines:
        lines = self._lines = self._lines or Lines()
        return lines

    def _free_of_limits(self, keys: Iterable[str]) -> list[str]:
        """Those that begin as soon as that is recorded. The others want a place first."""
        free: list[str] = []
        for key in keys:
            command = self._commands.get(key)
            if command is not None and command.spec.limits:
                self._lines_of_run().want(command)
            else:
                free.append(key)
        return free

    def _stop_for(self, error: Exception, at: datetime) -> None:
        """The program cannot continue: the run is paused, with what to do."""
        self._effects += self._flight.give_up_all()
        self._withdraw()
        self._free_writer("the run was paused")
        self._is_consuming = False
        self._intent = PAUSE
        self._unstarted = []
        self._submit(Draft(at, [e.Paused(reason=rules.pause_reason(error), detail=str(error))]))

    def _do_without_bodies(self, draft: Draft, *, is_imposed: bool) -> None:
        """An end waits for no body: it names those still running, and none begins after it. If the store refuses the
        end, they begin after all. An imposed end needs its own transaction, so it takes a single writer from a body."""
        self._unstarted += self._withdraw()
        rules.name_left(draft, self._flight.keys)
        if is_imposed:
            self._free_writer("the run has ended")

    def _withdraw(self) -> list[str]:
        """Takes back the bodies that have not begun, those included that were to start for this very input."""
        flying = self._flight.flying
        if not flying:
            return []
        unsaid = {x.command.key for x in self._effects if isinstance(x, f.Start)}
        if unsaid:
            self._effects[:] = [x for x in self._effects if not isinstance(x, f.Start)]
        begun = tuple(key for key in flying if key not in unsaid)
        withdrawn = unsaid.union(self._withdraw_bodies(begun) if begun else ())
        keys = [key for key in flying if key in withdrawn]
        for key in keys:
            self._flight.land(key)
        return keys

    def _free_writer(self, why: str) -> None:
        """In a store with one writer: takes it from bodies that hold it or wait for it, before a turn that does not
        wait for them."""
        if self._rules.is_exclusive:
            self._effects += self._flight.give_up_held()
            self._effects += self._flight.forget_writers(why)

    def _submit(self, draft: Draft) -> None:
        if self._claimed is not None:
            draft.inputs.insert(0, self._claimed)
            self._claimed = None
        if self._lines is not None and not draft.is_terminal and not draft.ends_pass:
            self._unstarted += self._lines.recorded(draft.inputs)
        gate = self._gate
        if gate is not None:
            self._intent = self._intent.at_gate(draft, is_held=gate.holds(self.run, draft.inputs))
        if self._intent is not STAY or self._pause is not None:
            self._give_back(draft)
        park = None  # of most turns
        if not draft.asks_for_step or self._intent is not STAY:
            park = self._park_after(draft)
        if park is not None and park.until is None and not draft.is_terminal:
            draft.inputs += self._stuck(draft)
        offload_all(draft.inputs, draft.blobs)
        if draft.blobs:
            self._pieces = self._pieces or StoredPieces()
            self._pieces.leave_out(draft)
        self._draft, self._park = draft, park
        self.state = WRITING
        if self._is_resting:
            self._rest_is(False)
        commit = finish(self.run, self.no, self.epoch, draft, self.seen, park, is_consuming=self._is_consuming)
        self._is_consuming = False
        taken = self._flight.taken
        where = f.BIRTH if self.is_unborn else f.GROUP if taken is None else f.Within(taken.key)
        self._effects.append(f.Submit(commit, where))

    def _give_back(self, draft: Draft) -> None:
        """With this turn the run is released (or paused): steps not begun are named, so that no attempt is counted."""
        if draft.is_terminal or self._flight:
            return  # not quiet yet: the bodies end first
        asked = [x.key for x in draft.outputs if isinstance(x, e.StepScheduled)]
        gone = {x.key for x in draft.outputs if isinstance(x, e.StepAbandoned)}
        unstarted = tuple(key for key in (*self._unstarted, *asked) if key not in gone)
        if self._pause is not None:
            draft.inputs.append(self._pause)
            self._intent, self._pause = PAUSE, None
        is_held = bool(unstarted) and self._gate is not None and self._gate.holds(self.run, draft.inputs)
        draft.inputs.append(e.Released(worker=self._rules.worker, unstarted=unstarted, next_round=is_held))

    def _park_after(self, draft: Draft) -> Park | None:
        """Whether the run is given back with this turn, and until when."""
        if draft.is_terminal or any(isinstance(x, e.Paused) for x in draft.inputs):
            return Park(None)
        intent, flight = self._intent, self._flight
        if intent is not STAY and not flight:
            is_held = intent is HOLD
            return Park(parking.wake_after(self.run, self.program, draft) if is_held else draft.at)
        is_quiet = (
            not flight and not self._unstarted and (self._lines is None or not self._lines.has_to_ask(draft.inputs))
        )
        park = parking.park_after(self.run, self.program, draft, is_quiet=is_quiet)
        if park is None or self._lines is None:
            return park
        end = self._lines.next_end(self.run)
        return park if end is None or (park.until is not None and park.until <= end) else Park(end)

    def _stuck(self, draft: Draft) -> list[e.AnyEvent]:
        """The pause of a run that is about to be parked for good: neither time nor a message will wake its code."""
        if draft.ends_pass or any(isinstance(x, e.Paused) for x in draft.inputs):
            return []
        where = None if self._shown > self.seen else self.program.stuck_at()
        return [] if where is None else [rules.stuck(where)]

    # -- nothing to write ----------------------------------------------------------------------------------------------

    def _rest(self, at: datetime, *, is_looking: bool) -> None:
        """Nothing to do now: wait in memory for what is near, else give the run back."""
        if self._lines is not None:
            self._ask_for_places(at)
        if self._flight:
            self._watch_time(at)
            return
        wake = parking.next_wake(self.run, self.program)
        is_staying = self._intent is STAY
        if self._lines is not None:
            wake = parking.earlier(wake, self._lines.next_end(self.run))
            if is_staying and self._lines.has_to_ask():
                self.state = IDLE  # the answer comes
                if self._lines.is_put_off:
                    self._effects.append(f.WakeAt(at + LOOK))
                return
        lingers = is_staying and parking.awaits_children(self.run, Draft(at, []))
        if (lingers and (is_looking or not self._is_resting)) or (
            is_staying and wake is not None and wake - at <= parking.NEAR
        ):
            self.state = IDLE
            self._rest_is(True)
            if lingers:
                self._effects.append(f.WakeAt(at + parking.linger(self.run)))
            if wake is not None:
                self._effects.append(f.WakeAt(wake))
            return
        draft = Draft(at, [])
        if is_staying and wake is None and (stuck := self._stuck(draft)):
            draft.inputs += stuck
            self._submit(draft)
            return
        self._release(wake if is_staying else at)

    def _ask_for_places(self, at: datetime, *, again: bool = False) -> None:
        """Tells the store of places that are free, and asks it for those that are wanted."""
        lines = self._lines
        if lines is None or lines.is_asking or self.is_unborn:
            return
        if not again and (lines.is_put_off or not lines.has_unasked):
            return
        move, failed = lines.ask(self.run, again=again, may_begin=self._intent is STAY and self._pause is None)
        if move is not None:
            self._effects.append(move)
        if failed:
            self._inputs += failed
            self._effects.append(f.WakeAt(at))

    def _watch_time(self, at: datetime) -> None:
        """While bodies run: a timer, a retry or the deadline may come due; or a place may be free."""
        lines = self._lines
        if lines is not None and lines.waiting and not lines.is_asking:
            self._effects.append(f.WakeAt(parking.earlier(at + LOOK, lines.next_end(self.run))))
        self.state = FLYING
        run, program = self.run, self.program
        has_limit = run.retries or run.deadline is not None or run.cancel is not None or run.past_deadline is not None
        wake = parking.next_wake(run, program) if has_limit else None if program.is_plain else program.next_timer()
        if wake is not None:
            self._effects.append(f.WakeAt(wake))

    def _rest_is(self, is_resting: bool) -> None:
        """Reported again when it rests again: its slot may be wanted."""
        if is_resting or self._is_resting:
            self._is_resting = is_resting
            self._effects.append(f.Rest(is_resting))

    def _release(self, until: datetime | None) -> None:
        self.state = RELEASING
        self._effects.append(f.Release(until, self.seen))
