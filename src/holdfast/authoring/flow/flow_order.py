"""The order of a flow, computed once from its definition: which step waits for which, and for what.

A step runs when something needs it: the output, `always`, or another step. It then waits at most three times: for what
its `if` reads; for what its work reads, and its `needs`; and, if it was skipped or failed and has a value for that
case, for what this value reads. So a step that only a skipped step would read never runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.authoring.flow.expressions import Expression, references
from holdfast.authoring.flow.flow_definition import Approve, Definition, FlowStep, Invoke, Sleep, Wait


@dataclass(frozen=True, slots=True)
class Node:
    """A step, and the indexes of the steps it waits for."""

    place: int
    step: FlowStep
    gate: tuple[int, ...]
    work: tuple[int, ...]
    firm: frozenset[int]
    otherwise: tuple[int, ...]
    fallback: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A definition that is ready to run. `asked` are the steps needed from the beginning."""

    definition: Definition
    nodes: tuple[Node, ...]
    asked: tuple[int, ...]


def plan_of(definition: Definition) -> Plan:
    """The plan. Time and size are proportional to the steps and references."""
    places = {step.name: place for place, step in enumerate(definition.steps)}
    nodes = tuple(_node(place, step, places) for place, step in enumerate(definition.steps))
    always = (step.name for step in definition.steps if step.always)
    asked = _places((*references(definition.output).steps(), *always), places)
    return Plan(definition, nodes, asked)


def _node(place: int, step: FlowStep, places: dict[str, int]) -> Node:
    read = references(*_work(step))
    return Node(
        place=place,
        step=step,
        gate=_places(references(step.when).steps(), places),
        work=_places((*step.needs, *read.steps()), places),
        firm=frozenset(_places((*step.needs, *read.firm_steps()), places)),
        otherwise=_places(references(step.otherwise).steps(), places),
        fallback=_places(references(step.fallback).steps(), places),
    )


def _work(step: FlowStep) -> Iterable[Expression | None]:
    """What must be known before the step's work begins."""
    if step.each is not None:
        yield step.each.over
        yield step.fallback  # an item that fails gets its value at once
    match step.does:
        case Invoke(_, given, variables):
            yield from (given, variables)
        case Wait(_, _, default):
            yield default
        case Sleep(duration):
            yield duration
        case Approve():
            for gate in step.does.gates():
                yield from (gate.by, gate.when, gate.why)


def _places(names: Iterable[str], places: dict[str, int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(places[name] for name in names))
