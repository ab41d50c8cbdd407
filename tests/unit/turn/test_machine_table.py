"""The machine does what the table says: for every state and every input, and along random lives."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.step import STOPPED
from holdfast.ports.journal import Committed
from holdfast.turn import effects as f
from holdfast.turn import inputs as i
from holdfast.turn.outcome import Broke, Outcome, Succeeded
from holdfast.turn.states import ALLOWED, State
from tests.unit.turn.machines import AT, REFUSALS, Bench, FakeProgram, act, limited, run_step, work

SIGNAL = e.SignalReceived(message="m1", name="go")
CHILD = c.StartChild(key="child", run="child", workflow="flow", version="", args=b"{}")
DONE = c.Complete(value=b"1")


def idle() -> Bench:
    """It waits for a child, and a thread that was given up still runs."""
    bench = Bench([run_step("thread", of=work)], [c.AbandonStep(key="thread"), CHILD])
    bench.open()
    bench.said()
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    bench.said()
    return bench


def flying() -> Bench:
    """A body runs, another in a transaction."""
    bench = Bench([run_step("a"), run_step("tx", tx=True)])
    bench.open()
    bench.said()
    return bench


def writing() -> Bench:
    """A turn is on its way, and a body runs."""
    bench = flying()
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    return bench


def releasing() -> Bench:
    """Nothing to wait for in memory, but a thread that was given up runs."""
    bench = Bench([run_step("thread", of=work)], [c.AbandonStep(key="thread"), CHILD])
    bench.open()
    bench.said()
    bench.take(i.Messages(bench.later(), [SIGNAL], 1))
    bench.said()
    bench.take(i.TimeCame(bench.later()))
    return bench


def rebuilding(*, is_exclusive: bool = False) -> Bench:
    """Its end was refused while bodies run, of which one has the writer or waits for it."""
    first = run_step("tx:1", tx=True) if is_exclusive else run_step("a")
    bench = Bench([first, run_step("tx", tx=True)], [DONE], is_exclusive=is_exclusive)
    bench.open()
    bench.said()
    if is_exclusive:  # no turn while a body has the only writer: one has to return first
        bench.take(i.Held(bench.later(), "tx:1", b"1"))
        bench.program.steps = {"tx": run_step("tx", tx=True)}
        bench.said(REFUSALS["rolled back"])
    else:
        bench.take(i.Messages(bench.later(), [SIGNAL], 1))
        bench.said(REFUSALS["unread"])
    return bench


def gone() -> Bench:
    """Another worker has it."""
    bench = flying()
    bench.take(i.Lost(bench.later(), "taken over"))
    return bench


REACHED: dict[State, Callable[[], Bench]] = {
    State.NEW: lambda: Bench([run_step("a")]),
    State.IDLE: idle,
    State.FLYING: flying,
    State.WRITING: writing,
    State.RELEASING: releasing,
    State.REBUILDING: rebuilding,
    State.GONE: gone,
}


def given(kind: type[i.Input], bench: Bench) -> i.Input:
    """An input of that kind that could reach this machine, if any could."""
    at = bench.later()
    running = list(bench.machine._flight.flying)
    key = running[0] if running else "a"
    writer = "tx" if "tx" in running else key
    is_again = bench.state is State.REBUILDING
    made: dict[type[i.Input], i.Input] = {
        i.Opened: bench.opened_again(()) if is_again else i.Opened(at, bench.machine.run, bench.program),
        i.Landed: i.Landed(at, key, Succeeded(b"1")),
        i.Held: i.Held(at, writer, b"1"),
        i.Messages: i.Messages(at, [SIGNAL], 9),
        i.News: i.News(at),
        i.TimeCame: i.TimeCame(at),
        i.Verdict: i.Verdict(at, Committed(1, 0)),
        i.Unknown: i.Unknown(at, "lost"),
        i.Released: i.Released(at, is_ours=True),
        i.Places: i.Places(at, ()),
        i.Unreadable: i.Unreadable(at, ValueError("no")),
        i.Drain: i.Drain(at),
        i.Lost: i.Lost(at, "taken over"),
    }
    return made[kind]


@pytest.mark.parametrize("state", list(State), ids=lambda x: x.value)
@pytest.mark.parametrize("kind", i.INPUTS, ids=lambda x: x.__name__)
def test_every_state_and_every_input(state: State, kind: type[i.Input]) -> None:
    """Promise: what the table allows follows, and an input that it does not name for a state is refused."""
    bench = REACHED[state]()
    assert bench.state is state
    allowed = ALLOWED.get((state, kind))
    if kind is i.Held and state is State.IDLE:
        allowed = None  # what is given up is a thread without a transaction
    if allowed is None:
        with pytest.raises(AssertionError):
            bench.take(given(kind, bench))
        return
    bench.take(given(kind, bench))
    assert bench.state in allowed
    if state is State.GONE:
        assert all(isinstance(x, f.GiveUp | f.Close | f.Doubt | f.Return) for x in bench.effects)


def test_the_table_names_states_and_inputs_only() -> None:
    """Promise: every state can be reached and, but for the last, left; every input has a state that takes it."""
    states = set(State)
    assert {state for state, _ in ALLOWED} == states
    assert {kind for _, kind in ALLOWED} == set(i.INPUTS)
    assert states - {State.NEW} == {x for following in ALLOWED.values() for x in following}
    assert all(ALLOWED[State.GONE, kind] == {State.GONE} for kind in i.INPUTS)
    assert all(ALLOWED[state, i.Lost] == {State.GONE} for state in states)


class Life:
    """One run, and all that may happen to it, by chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"life {seed}")
        program = FakeProgram(has_begun=self.chance.random() < 0.3)
        program.timer = self.chance.choice([None, AT + timedelta(seconds=1.5), AT + timedelta(days=1)])
        self.taste = self.chance.choice(
            [
                ["step", "tx", "thread", "child", "limited"],
                ["child"],
                ["thread", "child"],
                ["step"],
                ["limited"],
                ["limited", "step"],
            ]
        )
        self.bench = Bench(
            program=program,
            is_exclusive=self.chance.random() < 0.3,
            withdraw=lambda keys: [key for key in keys if self.chance.random() < 0.3],
            in_rounds=self.chance.random() < 0.2,
            available_at=AT + timedelta(hours=1) if self.chance.random() < 0.05 else None,
            parent="parent",
            parent_key="k",
        )
        self.program = program
        self.numbers = 0
        self.inbox = 0
        self._kept: list[e.AnyEvent] = []
        self.met: set[tuple[State, type[i.Input], State]] = set()

    def live(self, inputs: int = 60) -> None:
        """Inputs that could come, one after the other; each keeps to the table."""
        for _ in range(inputs):
            machine = self.bench.machine
            kinds = [kind for state, kind in ALLOWED if state is machine.state and self._could(kind)]
            if machine.state is State.GONE or not kinds:
                continue
            kind = self.chance.choice(kinds)
            before = machine.state
            self._prepare()
            given = self._input(kind)
            effects = self.bench.take(given)
            self._kept = next((list(x.kept) for x in effects if isinstance(x, f.Reload)), self._kept)
            assert machine.state in ALLOWED[before, kind], (before, kind, machine.state)
            self._check(effects)
            self.met.add((before, kind, machine.state))

    def _could(self, kind: type[i.Input]) -> bool:
        flying = self.bench.machine._flight.flying
        if kind is i.Landed:
            return any(not x.command.spec.tx for x in flying.values())
        if kind is i.Held:
            return any(x.command.spec.tx for x in flying.values())
        if kind is i.Places:
            lines = self.bench.machine._lines
            return (lines is not None and lines.is_asking) or self.chance.random() < 0.02
        if kind is i.Drain:
            return self.chance.random() < 0.1
        return self.chance.random() < (0.03 if kind in {i.Unknown, i.Unreadable, i.Lost} else 1)

    def _prepare(self) -> None:
        """What the program will ask for next."""
        asked: list[c.Command] = []
        for _ in range(self.chance.choice([0, 0, 1, 1, 2])):
            self.numbers += 1
            kind = self.chance.choice(self.taste)
            key = f"{kind}:{self.numbers}"
            if kind == "child":
                asked.append(c.StartChild(key=key, run=key, workflow="flow", version="", args=b"{}"))
            else:
                command = run_step(key, tx=kind == "tx", of={"thread": work, "limited": limited}.get(kind, act))
                asked.append(command)
                self.program.steps[key] = command
        open_steps = [x for x in self.bench.machine.run.steps.values() if not x.is_abandoned]
        if open_steps and self.chance.random() < 0.3:
            key = self.chance.choice(open_steps).key
            asked.append(c.AbandonStep(key=key))
            self.program.steps.pop(key, None)
        if self.chance.random() < 0.12:
            failed = c.Fail(failure=Failure(type="X", message=""), from_step=True)
            asked = [DONE if self.chance.random() < 0.5 else failed]
        self.program.answers = [ValueError("broken") if self.chance.random() < 0.02 else asked]
        if self.chance.random() < 0.1:
            self.program.timer = self.bench.at + timedelta(seconds=self.chance.choice([0, 0.5, 200]))

    def _input(self, kind: type[i.Input]) -> i.Input:
        at = self.bench.later(self.chance.choice([0.01, 1, 100]))
        machine = self.bench.machine
        flying = machine._flight.flying
        if kind is i.Landed:
            key = self.chance.choice([k for k, x in flying.items() if not x.command.spec.tx])
            self.program.steps.pop(key, None)
            broke = Broke(Failure(type="ValueError", message=""), is_final=self.chance.random() < 0.5)
            stopped = Broke(Failure(type=STOPPED, message=""))
            outcomes: list[Outcome] = [Succeeded(b"1"), broke, stopped]
            return i.Landed(at, key, self.chance.choice(outcomes), None, "the run has ended")
        if kind is i.Held:
            key = self.chance.choice([k for k, x in flying.items() if x.command.spec.tx])
            return i.Held(at, key, b"1")
        if kind is i.Messages:
            if self.chance.random() < 0.1:
                return i.Messages(at, [], self.inbox)
            self.inbox += 1
            events: list[e.AnyEvent] = [
                *(SIGNAL, SIGNAL, e.CancelRequested(message="c")),
                e.Paused(reason="operator", detail=""),
            ]
            return i.Messages(at, [self.chance.choice(events)], self.inbox)
        if kind is i.Verdict:
            is_end = machine._draft is not None and machine._draft.is_terminal
            said = Committed(1, self.inbox)
            if self.chance.random() < (0.6 if is_end else 0.15):
                within = machine._flight.taken is not None
                names = [
                    "fenced",
                    "ours",
                    *(["unread"] * 6 if is_end else []),
                    *(["rolled back"] * 6 if within else []),
                ]
                return i.Verdict(at, REFUSALS[self.chance.choice(names)])
            return i.Verdict(at, said)
        if kind is i.Places and machine._lines is not None:
            asked = tuple(machine._lines.waiting)
            if self.chance.random() < 0.1:
                return i.Places(at, asked, is_ours=False)
            return i.Places(at, asked, tuple(key for key in asked if self.chance.random() < 0.5))
        if kind is i.TimeCame:
            return i.TimeCame(at, is_looking=self.chance.random() < 0.5)
        if kind is i.Opened and machine.state is State.REBUILDING:
            return self.bench.opened_again(self._kept)
        return given(kind, self.bench)

    def _check(self, effects: list[f.Effect]) -> None:
        """What holds after every input, whatever it was."""
        machine = self.bench.machine
        submitted = [x for x in effects if isinstance(x, f.Submit)]
        assert len(submitted) <= 1
        assert not submitted or machine.state is State.WRITING
        left = [x for x in effects if isinstance(x, f.Leave)]
        assert not left or machine.state is State.GONE
        if machine.state is State.GONE:
            assert not machine._flight.flying
            assert not machine._flight.held
        if machine.state is State.IDLE:
            assert not machine._flight
        started = [x.command.key for x in effects if isinstance(x, f.Start)]
        assert len(set(started)) == len(started)
        assert set(started) <= set(machine.run.steps)


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_random_lives_keep_to_the_table(first: int) -> None:
    """Promise: whatever happens in whatever order, each step is one that the table allows. The seed is in the id."""
    for seed in range(first, first + 100):
        try:
            Life(seed).live()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.slow
def test_every_allowed_step_is_met() -> None:
    """Promise: the table allows no step that no life takes."""
    steps = {(state, kind, after) for (state, kind), following in ALLOWED.items() for after in following}
    missing = {step for step in steps if step[0] is not State.GONE}  # there is one way to stay gone
    rare: list[tuple[Bench, type[i.Input]]] = [
        (rebuilding(), i.Held),
        (rebuilding(is_exclusive=True), i.Opened),
        (idle(), i.Landed),
    ]
    for bench, kind in rare:  # a transaction open while the end is refused; a thread that was given up
        before = bench.state
        bench.take(given(kind, bench))
        missing.discard((before, kind, bench.state))
    lives = (Life(seed) for seed in range(5_000))
    while missing and (life := next(lives, None)):
        life.live(30)
        missing -= life.met
    assert sorted((a.value, k.__name__, b.value) for a, k, b in missing) == []
