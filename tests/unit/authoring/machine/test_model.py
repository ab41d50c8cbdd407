"""A machine is checked whole when it is built: every problem at once, each with its file and line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import Again, App, Join, Machine, More, Retry
from holdfast.errors import DefinitionError
from tests.unit.authoring.machine.stage import A, B, C, D, End


@dataclass
class Unstorable:
    handle: Any = None
    file: type = int


def problems(machine: Machine[Any, Any]) -> list[str]:
    """What building it says, line by line."""
    with pytest.raises(DefinitionError) as caught:
        machine.build()
    return str(caught.value).splitlines()[1:]


@pytest.mark.spec("cano.T13")
def test_every_problem_is_named_at_once_with_file_and_line() -> None:
    """Promise: one look shows all that is wrong."""
    machine = Machine[A, End]("broken")

    @machine.state
    async def a(s: A) -> B:
        return B()

    @machine.state
    async def again(s: A) -> End:
        return End()

    @machine.state
    async def end(s: End) -> A:
        return A()

    async def back(s: A) -> None: ...

    a.undo(back)  # type: ignore[arg-type]

    @machine.split(join=Join.quorum(3), bulkhead=0)
    async def joined(s: C, found: list[int]) -> End:
        return End()

    found = problems(machine)
    said = "\n".join(found)
    assert all("test_model.py:" in line for line in found)
    for words in (
        "state A has a handler already",
        "End is a final state: it has no handler",
        "an undo takes what its state returned",
        "needs 3 of 0 branches",
        "bulkhead=0",
        "state B has no handler and is not a final state",
    ):
        assert words in said, words


@pytest.mark.spec("cano.T13")
def test_states_that_are_never_reached_or_never_end_are_named() -> None:
    """Promise: dead code and dead ends."""
    machine = Machine[A, End]("dead")

    @machine.state
    async def a(s: A) -> B | End:
        return B()

    @machine.state
    async def b(s: B) -> B:
        return B()

    @machine.state
    async def d(s: D) -> End:
        return End()

    found = problems(machine)
    assert any("state D is never reached from A" in line for line in found)
    assert any("no path leads from state B to a final state" in line for line in found)
    assert len(found) == 2


def test_a_final_state_nobody_returns_is_named() -> None:
    """Promise: it is unreachable too."""
    machine = Machine[A, End | D]("unused")

    @machine.state
    async def a(s: A) -> End:
        return End()

    assert any("state D is never reached" in line for line in problems(machine))


@pytest.mark.spec("cano.F9")
def test_two_states_of_one_label_are_named() -> None:
    """Promise: labels are unique, with earlier ones counted."""
    other: Any = dataclass(type("B", (), {"__annotations__": {"n": int}}))
    machine = Machine[A, End]("twins", was={"A": End})

    async def to_other(s: B) -> End:
        return End()

    to_other.__annotations__ = {"s": B, "return": other}

    @machine.state
    async def a(s: A) -> B:
        return B()

    machine.state(to_other)

    async def b(s: A) -> End:
        return End()

    b.__annotations__ = {"s": other, "return": End}
    machine.state(b)
    said = "\n".join(problems(machine))
    assert "two states are called B" in said
    assert "was= says A is End, but A has that name" in said


def test_annotations_are_the_machine() -> None:
    """Promise: a handler without them, with others than states, or with the wrong parameters, is named."""
    machine = Machine[A, End]("vague")

    @machine.state
    async def a(s):  # type: ignore[no-untyped-def]
        return B()

    @machine.state
    async def b(s: B) -> int:
        return 3

    async def c(s: C) -> More[int] | End:
        return End()

    machine.stepped(c)  # type: ignore[arg-type]

    @machine.state
    async def d(s: D) -> Again:
        return Again(1)

    @machine.state
    async def unions(s: A | B) -> End:
        return End()

    said = "\n".join(problems(machine))
    for words in ("has no annotation", "returns Again", "takes (state, cursor)", "handles one state"):
        assert words in said, words


def test_an_undo_must_take_all_its_state_returns() -> None:
    """Promise: a union that is too narrow, or another second parameter, is named."""
    machine = Machine[A, End]("narrow")

    @machine.state
    async def a(s: A) -> B | End:
        return B()

    async def back(left: B, s: B) -> None: ...

    a.undo(back)  # type: ignore[arg-type]

    @machine.state
    async def b(s: B) -> End:
        return End()

    said = "\n".join(problems(machine))
    assert "must take End as well" in said
    assert "is given B" in said


def test_a_state_that_cannot_be_stored_is_named() -> None:
    """Promise: found when the machine is built, not when a run gets there."""
    machine = Machine[Unstorable, End]("unstorable")

    @machine.state
    async def a(s: Unstorable) -> End:
        return End()

    assert any("Unstorable" in line for line in problems(machine))


def test_a_machine_says_its_first_and_final_states() -> None:
    """Promise: `Machine("x")` is refused with how to write it."""
    machine: Machine[Any, Any] = Machine("bare")
    assert "Machine[First, Final]" in problems(machine)[0]


def test_handlers_may_follow_the_app_and_not_the_first_use() -> None:
    """Promise: the machine is read when it is first used; then it is closed."""
    machine = Machine[A, End]("late")
    app = App("memory://", workflows=[machine])

    @machine.state
    async def a(s: A) -> End:
        return End()

    assert [spec.name for spec in app.registry] == ["late", "late compensation"]
    with pytest.raises(DefinitionError, match="in use already"):

        @machine.state
        async def b(s: B) -> End:
            return End()


def test_a_second_undo_and_wrong_options_are_refused_where_they_are_written() -> None:
    """Promise: with the place of the first one."""
    machine = Machine[A, End]("twice")

    @machine.state(retry=Retry(2), timeout="5s")
    async def a(s: A) -> End:
        return End()

    @a.undo
    async def back(left: End, s: A) -> None: ...

    with pytest.raises(DefinitionError, match="has an undo already"):

        @a.undo
        async def other(left: End, s: A) -> None: ...

    with pytest.raises(DefinitionError, match="exception classes"):
        machine.state(raises=ValueError("x"))(back)  # type: ignore[call-overload]


def test_handlers_stay_plain_functions() -> None:
    """Promise: outside a machine they are called like any function, for tests of their own."""
    machine = Machine[A, End]("plain")

    @machine.router
    def a(s: A) -> B:
        return B(s.n)

    @machine.state
    def b(s: B) -> End:
        return End(s.n)

    assert b(a(A(3))) == End(3)
    assert vars(b)["__name__"] == "b"
