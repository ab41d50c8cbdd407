"""A flow as data: frozen values, made by the loader or the builder, executed by the program, written by `format`.

A definition that `checking` found nothing wrong with has unique step names, no cycles and no reference to a step or
variable that is not there. It knows nothing of files, positions, apps or runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from holdfast.authoring.flow.expressions import Expression, Fields, Json, References, Value, references
from holdfast.core.retry import Retry

__all__ = [
    "Action",
    "Approve",
    "Definition",
    "Each",
    "FlowStep",
    "Invoke",
    "Sleep",
    "Variable",
    "Verdict",
    "Wait",
]

NOTHING: Final = Fields(())
NULL: Final = Value(None)

Verdict: TypeAlias = Literal["approve", "deny"]


@dataclass(frozen=True, slots=True)
class Invoke:
    """Calls a step, a workflow or another flow of the app by name, with these arguments. For a flow the arguments are
    its input, and its variables get values too."""

    target: str
    given: Fields = NOTHING
    variables: Fields = NOTHING


@dataclass(frozen=True, slots=True)
class Wait:
    """Waits for a signal; its value is the result. At the timeout the result is `default`; without one the step
    fails."""

    signal: str
    timeout: timedelta | None = None
    default: Expression | None = None


@dataclass(frozen=True, slots=True)
class Sleep:
    """Waits this long: a duration as text, or a number of seconds. Its result is null."""

    duration: Expression


@dataclass(frozen=True, slots=True)
class Approve:
    """Asks `by` for a decision. The result is an object: `approved` (true or false), `by`, `at` and `why`.

    If `when` is false, it is approved without asking. `why` is shown to the person who decides. At the timeout `then`
    decides: approve, deny, or the next gate, asked in its turn (an escalation).
    """

    by: Expression
    when: Expression | None = None
    why: Expression | None = None
    timeout: timedelta | None = None
    then: Verdict | Approve = "deny"

    def gates(self) -> Iterator[Approve]:
        """This approval and those it escalates to."""
        gate: Verdict | Approve = self
        while isinstance(gate, Approve):
            yield gate
            gate = gate.then


Action: TypeAlias = Invoke | Wait | Sleep | Approve


@dataclass(frozen=True, slots=True)
class Each:
    """Runs a step once for each item of a list, at most `limit` at a time. The result is the list of results."""

    over: Expression
    limit: int | None = None


@dataclass(frozen=True)
class FlowStep:
    """One step. `when` and `otherwise` are `if` and `else`; `fallback` is the value of `on_error`, None is `fail`.

    A step whose condition does not hold is skipped. Its result is then `otherwise`; without one, steps that need it are
    skipped too.
    """

    name: str
    does: Action
    when: Expression | None = None
    otherwise: Expression | None = None
    needs: tuple[str, ...] = ()
    each: Each | None = None
    retry: Retry | None = None
    timeout: timedelta | None = None
    fallback: Expression | None = None
    always: bool = False
    description: str = ""
    metadata: Json = None

    def expressions(self) -> Iterator[tuple[tuple[str, ...], Expression]]:
        """Every expression of the step, with its place in the file's mapping of that step."""
        if self.when is not None:
            yield ("if",), self.when
        if self.each is not None:
            yield ("each", "in"), self.each.over
        match self.does:
            case Invoke(_, given, variables):
                for place, fields in (("with", given), ("vars", variables)):
                    for key, value in fields.fields:
                        yield (place, key), value
            case Wait(_, _, default):
                if default is not None:
                    yield ("wait", "default"), default
            case Sleep(duration):
                yield ("sleep",), duration
            case Approve():
                way: tuple[str, ...] = ("approve",)
                for gate in self.does.gates():
                    for key, tree in (("by", gate.by), ("when", gate.when), ("why", gate.why)):
                        if tree is not None:
                            yield (*way, key), tree
                    way = (*way, "then", "escalate")
        if self.otherwise is not None:
            yield ("else",), self.otherwise
        if self.fallback is not None:
            yield ("on_error", "value"), self.fallback

    @cached_property
    def references(self) -> References:
        """Every path the step's expressions name."""
        return references(*(tree for _, tree in self.expressions()))

    @cached_property
    def after(self) -> tuple[str, ...]:
        """The steps that must end or be skipped before this one: `needs`, then those it refers to."""
        return tuple(dict.fromkeys((*self.needs, *self.references.steps())))

    @cached_property
    def firmly_after(self) -> frozenset[str]:
        """The steps of `after` without which this one is skipped: all but those it has a `??` for."""
        return frozenset((*self.needs, *self.references.firm_steps()))


@dataclass(frozen=True, slots=True)
class Variable:
    """A value given at the start, besides the input. Without a default it must be given, if anything uses it."""

    name: str
    default: Json = None
    has_default: bool = False
    secret: bool = False
    description: str = ""


@dataclass(frozen=True)
class Definition:
    """A whole flow. Steps have the order of the file; `checking.check` has checked it."""

    name: str
    steps: tuple[FlowStep, ...]
    output: Expression = NULL
    version: str = ""
    description: str = ""
    saga: bool = False
    input_schema: Json = None
    output_schema: Json = None
    variables: tuple[Variable, ...] = ()
    metadata: Json = field(default=None)

    @cached_property
    def by_name(self) -> Mapping[str, FlowStep]:
        return MappingProxyType({step.name: step for step in self.steps})

    @cached_property
    def needed(self) -> frozenset[str]:
        """The steps that are run: those the output needs, those marked `always`, and what they come after."""
        steps = self.by_name
        found: set[str] = set()
        left = [*references(self.output).steps(), *(step.name for step in self.steps if step.always)]
        while left:
            name = left.pop()
            if name not in found and name in steps:
                found.add(name)
                left.extend(steps[name].after)
        return frozenset(found)

    @cached_property
    def secrets(self) -> frozenset[str]:
        """The names of the variables that are never shown."""
        return frozenset(variable.name for variable in self.variables if variable.secret)

    @cached_property
    def to_be_given(self) -> tuple[str, ...]:
        """The variables that every start must give: used, without a default, and without a `??`."""
        trees = (tree for step in self.steps for _, tree in step.expressions())
        used = [path.parts for path in references(self.output, *trees).firm if path.root == "vars"]
        names = {parts[0] for parts in used if parts}
        is_used_whole = not all(used)
        without = (variable.name for variable in self.variables if not variable.has_default)
        return tuple(name for name in without if is_used_whole or name in names)

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """What the flow calls, each once, in the order of the file."""
        names = (step.does.target for step in self.steps if isinstance(step.does, Invoke))
        return tuple(dict.fromkeys(names))
