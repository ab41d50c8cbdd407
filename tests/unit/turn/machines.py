"""A machine in the hand: a program that does what it is told, a clock that stands, and every state within reach."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast.authoring.limit import Limit
from holdfast.authoring.script.steps import step
from holdfast.authoring.script.workflows import workflow
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.fold import fold
from holdfast.core.redaction import NOTHING_HIDDEN, Redaction
from holdfast.core.retry import Retry
from holdfast.core.specs import Settings, StepSpec
from holdfast.core.turn import Turn, decode_row
from holdfast.ports.journal import Committed, Fenced, Unread
from holdfast.ports.transactions import RolledBack, Settlement
from holdfast.turn import effects as f
from holdfast.turn import inputs as i
from holdfast.turn.machine import Machine
from holdfast.turn.outcome import Broke, Succeeded
from holdfast.turn.rules import Rules
from holdfast.turn.start import new_run
from holdfast.turn.states import State

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTINGS = Settings()
Inputs = Sequence[e.AnyEvent]


@workflow(name="flow")
async def flow() -> None:
    """Never run: its machine is given a program of the test's."""


@workflow(name="patient", retry=Retry(attempts=3, first="10s"))
async def patient() -> None:
    """Never run; an error outside its steps begins a new pass."""


@step
async def act() -> None:
    """Never run."""


@step
def work() -> None:
    """Never run; would be a thread."""


@dataclass
class FakeProgram:
    """A program that answers with what was put into `answers`, one list for each activation."""

    answers: list[list[c.Command] | Exception] = field(default_factory=list[Any])
    steps: dict[str, c.RunStep] = field(default_factory=dict[str, c.RunStep])
    timer: datetime | None = None
    sends: dict[str, str] = field(default_factory=dict[str, str])
    has_begun: bool = True
    redaction: Redaction = NOTHING_HIDDEN
    fed: list[tuple[datetime, list[e.AnyEvent]]] = field(default_factory=list[Any])
    closed: int = 0
    stuck: str | None = None
    is_plain: bool = False

    def activate(self, at: datetime, inputs: Inputs) -> list[c.Command]:
        """Notes what came, and answers."""
        self.fed.append((at, list(inputs)))
        self.has_begun = True
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer

    def replay(self, turns: Sequence[Turn]) -> None:
        """Nothing is recorded."""

    def next_timer(self) -> datetime | None:
        """As it was set."""
        return self.timer

    def due_timers(self, now: datetime) -> list[str]:
        """The one timer, once."""
        if self.timer is not None and self.timer <= now:
            self.timer = None
            return ["timer"]
        return []

    def objection(self, event: e.UpdateReceived) -> str | None:
        """Every update is welcome."""
        return None

    def stuck_at(self) -> str | None:
        """As it was set."""
        return self.stuck

    def awaited_sends(self) -> Mapping[str, str]:
        """As they were set."""
        return self.sends

    def open_steps(self) -> Mapping[str, c.RunStep]:
        """As they were set."""
        return self.steps

    def close(self) -> bool:
        """Counts."""
        self.closed += 1
        return True


def run_step(key: str, *, tx: bool = False, of: Any = act, **more: Any) -> c.RunStep:
    """A step asked for."""
    spec: StepSpec = of.spec
    if tx:
        spec = msgspec.structs.replace(spec, tx=True)
    return c.RunStep(key=key, spec=spec, args=b"{}", retry=Retry(attempts=3), **more)


api = Limit("api", at_once=1)


@step(limits=[api])
async def limited() -> None:
    """Never run; wants a place first."""


@step(limits=[api], limit_wait="10s")
async def impatient() -> None:
    """Never run; waits for ten seconds."""


customer = Limit("customer", at_once=1)


@step(limits=[customer.by("name")])
async def keyed(name: str) -> None:
    """Never run; its arguments say which place it wants."""


WORKFLOWS = {"flow": flow.spec, "patient": patient.spec}


def never_withdrawn(keys: Sequence[str]) -> list[str]:
    """All bodies have begun."""
    return []


class Bench:
    """One machine, fed by hand; each effect is kept in the order in which it came."""

    def __init__(
        self,
        *answers: list[c.Command] | Exception,
        is_exclusive: bool = False,
        withdraw: Callable[[Sequence[str]], list[str]] = never_withdrawn,
        no: int = 7,
        program: FakeProgram | None = None,
        settings: Settings = SETTINGS,
        workflow: str = "flow",
        **started: Any,
    ) -> None:
        self.program = program or FakeProgram(list(answers), has_begun=False)
        self.at = AT
        _, turn = new_run("run", e.Started(workflow=workflow, **started), AT)
        self.durable = [turn]
        self._pending: Turn | None = None
        run = fold("run", self.durable)
        rules = Rules(settings, "worker", is_exclusive, lambda: 0.5, lambda run: WORKFLOWS[run.workflow])
        self.machine = Machine(run, self.program, rules, withdraw, no=no, epoch=1)
        self.effects: list[f.Effect] = []

    # -- inputs --------------------------------------------------------------------------------------------------------

    def take(self, given: i.Input) -> list[f.Effect]:
        """One input. Turns are kept as the store would: pending until they are committed."""
        if isinstance(given, i.Verdict) and isinstance(given.said, Committed) and self._pending is not None:
            self.durable.append(self._pending)
        self.effects = self.machine.take(given)
        for effect in self.effects:
            if isinstance(effect, f.Submit):
                self._pending = decode_row(effect.commit.row)
        return self.effects

    def later(self, seconds: float = 1) -> datetime:
        """Time passes."""
        self.at += timedelta(seconds=seconds)
        return self.at

    def open(self, *messages: e.AnyEvent, last: int = 0) -> list[f.Effect]:
        """The first input."""
        return self.take(i.Opened(self.later(), self.machine.run, self.program, messages, last or len(messages)))

    def said(self, said: Settlement | None = None, no: int = 0) -> list[f.Effect]:
        """A verdict."""
        return self.take(i.Verdict(self.later(), said if said is not None else Committed(1, self.machine.seen), no))

    def lands(self, key: str, value: bytes = b"1") -> list[f.Effect]:
        """A body returns."""
        return self.take(i.Landed(self.later(), key, Succeeded(value)))

    def breaks(
        self, key: str, kind: str = "ValueError", stopped: str | None = None, *, is_final: bool = False
    ) -> list[f.Effect]:
        """A body raises."""
        broke = Broke(Failure(type=kind, message="no"), is_final)
        return self.take(i.Landed(self.later(), key, broke, None, stopped))

    def reopened(self, *kept: e.AnyEvent, messages: Sequence[e.AnyEvent] = (), last: int = 0) -> list[f.Effect]:
        """The journal was read again, up to the last turn that was committed."""
        return self.take(self.opened_again(kept, messages, last))

    def opened_again(self, kept: Sequence[e.AnyEvent], messages: Sequence[e.AnyEvent] = (), last: int = 0) -> i.Opened:
        """What a machine hears that waits for its journal."""
        run = fold("run", self.durable)
        return i.Opened(self.later(), run, self.program, messages, last, kept)

    def taken_over(self, *answers: list[c.Command], steps: Sequence[c.RunStep] = ()) -> Bench:
        """Another worker has the run now, and its program asks still for these steps."""
        program = FakeProgram(list(answers), {command.key: command for command in steps})
        again = Bench(program=program)
        again.durable, again.at, again.machine.epoch = self.durable, self.at, self.machine.epoch + 1
        return again

    # -- what came out -------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """Where the machine stands."""
        return self.machine.state

    def only(self, kind: type[Any]) -> Any:
        """The one effect of that kind."""
        [found] = self.all(kind)
        return found

    def all(self, kind: type[Any]) -> list[Any]:
        """The effects of that kind that came last."""
        return [x for x in self.effects if isinstance(x, kind)]

    @property
    def written(self) -> tuple[e.AnyEvent, ...]:
        """The events of the turn that was submitted."""
        return decode_row(self.only(f.Submit).commit.row).events


REFUSALS: dict[str, Settlement] = {
    "unread": Unread(3),
    "fenced": Fenced(2, 9),
    "ours": Fenced(1, 9),
    "rolled back": RolledBack(ValueError("no")),
}
