"""A run without an engine: drives a program by hand, in memory, in virtual time.

Steps' bodies run here, at once; outcomes are fed in the order a test, or a seed, chooses. What the engine adds to a
program (retries of steps and of the whole body, `continue_as`) is decided by the same pure rules of `core`. Every row
goes through its stored form, so what is replayed is what a store would give back. All chance comes from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast.authoring.script.channels import Channel
from holdfast.authoring.script.script_program import ScriptProgram
from holdfast.authoring.script.update import AnyUpdate
from holdfast.authoring.script.workflows import Call
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure, from_exception
from holdfast.core.passes import last_beginning
from holdfast.core.retry import Retry
from holdfast.core.run import Run
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.core.status import Status
from holdfast.core.step import STOPPED, on_attempt_failed, on_workflow_failed
from holdfast.core.turn import FORMAT, Row, Turn, checksum, decode_row, encode_events, genesis, micros
from holdfast.errors import InvalidInput, Permanent, UsageError

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = Settings(step_retry=Retry.none)
MOST_TURNS = 10_000

Happening = Callable[["PureRun"], e.Input | None]


class PureRun:
    """One run, and everything that happened to it."""

    def __init__(self, call: Call[Any], *, seed: object = 0, run: str = "run", settings: Settings = SETTINGS) -> None:
        self.specs: dict[tuple[str, str], WorkflowSpec] = {(call.spec.name, call.spec.version): call.spec}
        self.settings = settings
        self.chance = random.Random(f"pure:{seed}")
        self.at = BEGIN
        self.turns: list[Turn] = []
        self.fold = Run(run)
        self.commands: list[c.Command] = []
        self.blobs: dict[str, bytes] = {}
        self.messages = 0
        self.asked: dict[str, c.RunStep] = {}
        self._write([e.Started(workflow=call.spec.name, version=call.spec.version, value=msgspec.Raw(call.args))])
        self.program = self._new_program()

    # -- hands on the run ----------------------------------------------------------------------------------------------

    def turn(self, *inputs: e.Input, after: timedelta = timedelta(milliseconds=10)) -> list[c.Command]:
        """One turn: these inputs, and what the program asks for, written as a row."""
        self.at += after
        self.commands = self.program.activate(self.at, inputs)
        self.asked |= {command.key: command for command in self.commands if isinstance(command, c.RunStep)}
        claimed = [e.Claimed(worker="w")] if self.fold.status is Status.PENDING else []
        self._write([*claimed, *inputs, *(self._recorded(command) for command in self.commands)])
        last = self.turns[-1].events[-1] if self.turns[-1].events else None
        if isinstance(last, e.Continued | e.RetryPlanned):
            self.program.close()
            self.program = self._new_program()
        return self.commands

    def outcome(self, key: str) -> e.StepCompleted | e.StepFailed | e.AttemptFailed:
        """Runs the body of a step, here and now."""
        command = self.asked[key]
        spec = command.spec
        args, kwargs = spec.arguments.decode(command.args)
        try:
            value = spec.function(*args, **kwargs)
            if isinstance(value, Coroutine):
                value = run_here(value)
            return e.StepCompleted(key=key, value=msgspec.Raw(spec.result.encode(value, "result")))
        except Exception as error:  # noqa: BLE001 whatever the body raises is its outcome
            failure = from_exception(error, declared=spec.raises)
            is_final = failure.declared or isinstance(error, Permanent | UsageError | InvalidInput)
            step = self.fold.steps[key]
            return on_attempt_failed(step, failure, command.retry, self.at, self.chance.random(), is_final=is_final)

    def do(self, *keys: str) -> list[c.Command]:
        """Runs these steps, or all that are open, and feeds their outcomes in one turn."""
        return self.turn(*(self.outcome(key) for key in keys or tuple(self.program.open_steps())))

    def signal(self, channel: Channel[Any], value: Any) -> e.SignalReceived:
        """A signal, to be fed."""
        self.messages += 1
        data = msgspec.Raw(channel.encode(value))
        return e.SignalReceived(message=f"m{self.messages}", name=channel.name, value=data)

    def update(self, update: AnyUpdate[Any, Any], value: Any) -> e.UpdateReceived:
        """A question, to be fed."""
        self.messages += 1
        data = msgspec.Raw(update.encode(value))
        return e.UpdateReceived(message=f"m{self.messages}", name=update.name, value=data)

    def publication(self, key: str, channel: Channel[Any], value: Any) -> e.TopicReceived:
        """A publication for the wait of that key."""
        self.messages += 1
        data = msgspec.Raw(channel.encode(value))
        return e.TopicReceived(key=key, message=f"m{self.messages}", name=channel.name, value=data)

    def child_end(self, key: str, value: Any = None, failure: Failure | None = None) -> e.ChildEnded:
        """The end of the child started under that key."""
        wait = self.fold.waits[key]
        data = msgspec.Raw(msgspec.json.encode(value))
        status: e.EndStatus = "completed" if failure is None else "failed"
        return e.ChildEnded(key=key, run=wait.run, status=status, value=data, failure=failure, ended_at=self.at)

    def fire(self) -> list[c.Command]:
        """Moves time to the next timer, or the next retry of a step or of the body, and feeds what is due."""
        if self.fold.retry is not None:
            self.at = max(self.at, self.fold.retry.at)
            return self.turn(e.PassStarted(number=self.fold.passes + 1), after=timedelta(0))
        times = [step.retry_at for step in self.fold.steps.values() if step.retry_at and not step.is_abandoned]
        timer = self.program.next_timer()
        self.at = max(self.at, min([*times, timer] if timer is not None else times))
        due: list[e.Input] = [
            e.AttemptStarted(key=key, attempt=step.attempt + 1)
            for key, step in self.fold.steps.items()
            if step.retry_at and step.retry_at <= self.at
        ]
        due += [e.TimerFired(key=key) for key in self.program.due_timers(self.at)]
        return self.turn(*due, after=timedelta(0))

    @property
    def end(self) -> e.Terminal | None:
        """How the run ended, if it has."""
        return self.fold.end

    @property
    def result(self) -> Any:
        """The value of a completed run; its failure as an assertion otherwise."""
        assert isinstance(self.end, e.Completed), self.end
        return msgspec.json.decode(self.end.value)

    @property
    def failure(self) -> Failure:
        """Of a failed run."""
        assert isinstance(self.end, e.Failed), self.end
        return self.end.failure

    # -- whole runs ----------------------------------------------------------------------------------------------------

    def finish(self, *inputs: e.Input) -> PureRun:
        """Goes on in order until the run ends: all open steps, else the next timer."""
        if not self.program.has_begun or inputs:
            self.turn(*inputs)
        while self.end is None:
            self._guard()
            if self.runnable():
                self.do(*self.runnable())
            else:
                self.fire()
        self.program.close()
        return self

    def finish_by_chance(self, happenings: Iterable[Happening] = ()) -> PureRun:
        """Goes on in an order drawn from the seed: outcomes one by one or together, timers early or late, and each of
        `happenings` at some point."""
        self.turn()
        waiting = list(happenings)
        while self.end is None:
            self._guard()
            given_up = [key for key, step in self.fold.steps.items() if step.is_abandoned]
            choices = [*self.runnable(), *given_up, *(["happening"] if waiting else [])]
            can_fire = self.fold.retry is not None or self.program.next_timer() is not None or self._retries()
            if can_fire and (not choices or self.chance.random() < 0.25):
                self.fire()
                continue
            assert choices, "nothing left that could happen"
            chosen = self.chance.sample(choices, self.chance.choice([1, 1, 1, 2, 3]) % (len(choices) + 1) or 1)
            inputs = [x for x in (self._happens(choice, waiting) for choice in chosen) if x is not None]
            if inputs:
                self.turn(*inputs)
        self.program.close()
        return self

    def runnable(self) -> list[str]:
        """Keys of the steps whose bodies may run now."""
        waiting = {key for key, step in self.fold.steps.items() if step.retry_at is not None}
        return [key for key in self.program.open_steps() if key not in waiting]

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _happens(self, choice: str, waiting: list[Happening]) -> e.Input | None:
        if choice != "happening":
            step = self.fold.steps[choice]
            if step.is_abandoned and self.chance.random() < 0.5:
                failure = Failure(type=STOPPED, message="the workflow no longer wants it")
                return e.StepFailed(key=choice, failure=failure)
            return self.outcome(choice)
        event = waiting[0](self)
        if event is not None:
            waiting.pop(0)
        return event

    def _retries(self) -> bool:
        return any(step.retry_at is not None and not step.is_abandoned for step in self.fold.steps.values())

    def _guard(self) -> None:
        if len(self.turns) > MOST_TURNS:
            raise AssertionError("the run does not end")

    def _recorded(self, command: c.Command) -> e.AnyEvent:
        if isinstance(command, c.Fail) and not command.from_step:
            policy = self.specs[self.fold.workflow, self.fold.version].retry
            return on_workflow_failed(command.failure, policy, self.fold.passes, self.at, self.chance.random(), None)
        return c.record(command, self.blobs)

    def _write(self, events: Sequence[e.AnyEvent]) -> None:
        body = encode_events([_untraced(event) for event in events])
        ordinal, at = self.fold.ordinal + 1, micros(self.at)
        digest = checksum(self.fold.checksum if self.turns else genesis(self.fold.id), ordinal, 1, at, body)
        turn = decode_row(Row(self.fold.id, ordinal, 1, at, FORMAT, digest, body))
        self.turns.append(turn)
        self.fold.apply(turn)

    def _new_program(self) -> ScriptProgram:
        beginning, _ = last_beginning(self.fold.id, self.turns)
        spec = self.specs[self.fold.workflow, self.fold.version]
        return ScriptProgram(spec, beginning, self.settings)


def _untraced(event: e.AnyEvent) -> e.AnyEvent:
    """Without the traceback: it names files of this machine."""
    failure = getattr(event, "failure", None)
    if failure is None:
        return event
    return msgspec.structs.replace(event, failure=msgspec.structs.replace(failure, traceback=""))


def run_here(body: Coroutine[Any, Any, Any]) -> Any:
    """The result of a body that does not really wait."""
    try:
        body.send(None)
    except StopIteration as end:
        return end.value
    body.close()
    raise AssertionError(f"{body!r} waits; a pure run takes only bodies that do not")


def open_pass(spec: WorkflowSpec, turns: Sequence[Turn], settings: Settings = SETTINGS) -> tuple[ScriptProgram, Any]:
    """A fresh program for the last pass of a journal, and the turns of that pass."""
    beginning, rest = last_beginning(turns[0].run, turns)
    return ScriptProgram(spec, beginning, settings), rest


def replay(spec: WorkflowSpec, turns: Sequence[Turn], settings: Settings = SETTINGS) -> ScriptProgram:
    """A fresh program that stands where the journal ends. The caller closes it."""
    program, rest = open_pass(spec, turns, settings)
    try:
        program.replay(rest)
    except BaseException:
        program.close()
        raise
    return program


def check_replays(spec: WorkflowSpec, turns: Sequence[Turn], settings: Settings = SETTINGS, *, first: int = 1) -> int:
    """Replays every prefix of a journal, feeds the next turn live, and compares what is asked for with what was.

    `first` is the length of the shortest prefix. Returns how many prefixes were compared. `Diverged` or
    `AssertionError` says where it differs.
    """
    compared = 0
    for end in range(first, len(turns)):
        beginning, rest = last_beginning(turns[-1].run, turns[:end])
        if (beginning.start.workflow if isinstance(beginning.start, e.Started) else spec.name) != spec.name:
            continue
        program = ScriptProgram(spec, beginning, settings)
        try:
            program.replay(rest)
            turn = turns[end]
            inputs: Any = [x for x in turn.events if not isinstance(x, e.OUTPUTS)]
            asked = [c.record(command, {}) for command in program.activate(turn.at, inputs)]
            assert _comparable(asked) == _comparable([x for x in turn.events if isinstance(x, e.OUTPUTS)]), (
                f"row {turn.ordinal}: {asked} is not {turn.events}"
            )
            compared += 1
        finally:
            program.close()
    return compared


def _comparable(events: Sequence[e.AnyEvent]) -> list[bytes]:
    """Encoded, without the traceback (its lines are the driver's), without what the engine makes of a failure, and
    without whether a step counts towards the limit: a replay does not compare that, and older journals lack it."""
    plain: list[e.AnyEvent] = []
    for event in events:
        if isinstance(event, e.Failed | e.RetryPlanned):
            plain.append(e.Failed(failure=Failure(type=event.failure.type, message=event.failure.message)))
        elif isinstance(event, e.StepScheduled | e.ChildStarted):
            plain.append(msgspec.structs.replace(event, uncounted=False))
        else:
            plain.append(event)
    return [msgspec.json.encode(event) for event in plain]
