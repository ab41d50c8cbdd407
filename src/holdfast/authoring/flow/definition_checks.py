"""Checks a whole definition: how its parts refer to each other. Finds all problems, each with its place.

Each check is one pass; the work grows with the size of the flow, and hints for misspelt names are bounded. A problem
names a path (``steps``, ``price``, ``with``, ``id``); the caller that has the file knows the line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Final, Protocol, TypeAlias

from holdfast.authoring.flow.circles import circle
from holdfast.authoring.flow.definition_reader import did_you_mean
from holdfast.authoring.flow.evaluation import evaluate
from holdfast.authoring.flow.expressions import (
    Expression,
    Fields,
    Items,
    Path,
    Value,
    is_constant,
    references,
)
from holdfast.authoring.flow.flow_definition import Approve, Definition, FlowStep, Invoke, Sleep
from holdfast.authoring.flow.schema_fit import kinds_at, misfits_of, path_misfit, schema_problems
from holdfast.authoring.flow.written import path_text
from holdfast.core.guards import is_list
from holdfast.errors import ExpressionFailed

__all__ = ["Catalog", "Component", "Place", "Say", "check"]

Place: TypeAlias = tuple[str | int, ...]

HINTS: Final = 20
"""Maximum number of misspelt names that get a hint: the search for one takes as long as there are names."""

CYCLES: Final = 10
"""Maximum number of cycles that are reported."""

DECISION: Final = ("approved", "by", "at", "why")


class Say(Protocol):
    """Takes a problem: its place, its description, and the words of a text it is about."""

    def __call__(self, place: Place, message: str, *, words: str = "", is_warning: bool = False) -> None: ...


class Component(Protocol):
    """What a name stands for in an app: a step, a workflow, or another flow."""

    @property
    def definition(self) -> Definition | None:
        """The flow; None for other components."""
        ...

    def misfits(self, given: Fields, variables: Fields) -> Iterator[tuple[Place, str]]:
        """The problems of these arguments and variables, each with its place in the step."""
        ...

    def way_problem(self, path: Path, start: int) -> str:
        """The problem of a path into its result, whose parts begin at `start`; empty if none is known."""
        ...

    def gives(self, path: Path, start: int) -> frozenset[str]:
        """The kinds that a path into its result may have; empty if unknown."""
        ...

    def takes(self, name: str) -> frozenset[str]:
        """The kinds that an argument may have; empty if unknown."""
        ...


Catalog: TypeAlias = Mapping[str, Component]
"""What an app serves, by name."""


def check(definition: Definition, say: Say, catalog: Catalog | None = None) -> None:
    """Reports every problem to `say`. With a catalog, checks what the flow calls too."""
    checker = _Checker(definition, say, catalog)
    checker.schemas()
    checker.steps()
    checker.output()
    checker.cycles()
    checker.unused()
    checker.calls()


class _Checker:
    def __init__(self, definition: Definition, say: Say, catalog: Catalog | None) -> None:
        self._flow = definition
        self._say = say
        self._catalog = catalog
        self._hints = HINTS
        self._variables = frozenset(variable.name for variable in definition.variables)
        self._used: set[str] = set()

    def _hint(self, name: str, known: Collection[str]) -> str:
        self._hints -= 1
        return did_you_mean(name, known) if self._hints >= 0 else ""

    def schemas(self) -> None:
        """Checks that the schemas are valid."""
        for key, schema in (("input", self._flow.input_schema), ("output_schema", self._flow.output_schema)):
            for place, problem in schema_problems(schema):
                self._say((key, *place), problem)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def steps(self) -> None:
        """Checks that every expression of every step refers to something that exists."""
        for step in self._flow.steps:
            at: Place = ("steps", step.name)
            for number, name in enumerate(step.needs):
                self._needed(step, name, (*at, "needs", number))
            for place, tree in step.expressions():
                has_item = step.each is not None and place[0] in {"with", "vars", "on_error"}
                self._expression((*at, *place), tree, step, has_item=has_item)
            self._constants(step, at)

    def output(self) -> None:
        """Checks the references of the output, and its schema as far as possible."""
        self._expression(("output",), self._flow.output, None)
        for place, problem in misfits_of(self._flow.output, self._flow.output_schema, "output"):
            self._say(("output", *place), problem)
        for place, tree in leaves(self._flow.output):
            for words in self._secrets_in(tree):
                message = f"{words} is a secret, but an output is shown"
                self._say(("output", *place), message, words=words, is_warning=True)

    def _expression(self, at: Place, tree: Expression, step: FlowStep | None, *, has_item: bool = False) -> None:
        for place, leaf in leaves(tree):
            for path in references(leaf).all():
                problem = self._reference(path, step, has_item=has_item)
                if problem:
                    self._say((*at, *place), problem, words=path_text(path))
            if not isinstance(leaf, Value) and is_constant(leaf):
                self._constant((*at, *place), leaf)

    def _constant(self, at: Place, tree: Expression) -> None:
        try:
            evaluate(tree, {})
        except ExpressionFailed as error:
            self._say(at, str(error))

    def _reference(self, path: Path, step: FlowStep | None, *, has_item: bool) -> str:
        match path.root:
            case "steps":
                return self._step_reference(path, step)
            case "vars":
                return self._variable_reference(path)
            case "item":
                return (
                    "" if has_item else "item is the current item of an 'each': it is known only in 'with' of that step"
                )
            case "input":
                return path_misfit(self._flow.input_schema, path)

    def _step_reference(self, path: Path, step: FlowStep | None) -> str:
        name = path.parts[0] if path.parts else None
        if not isinstance(name, str):
            return f"{path_text(path)} names no step: write steps.NAME"
        found = self._flow.by_name.get(name)
        if found is None:
            return f"there is no step {name!r}{self._hint(name, self._flow.by_name)}"
        if found is step:
            return f"step {name!r} refers to itself"
        return _result_misfit(found, path) or self._way_problem(found, path)

    def _way_problem(self, step: FlowStep, path: Path) -> str:
        """The problem of a path into the result of a called component."""
        component, start = self._called_by(step)
        return "" if component is None or len(path.parts) <= start else component.way_problem(path, start)

    def _called_by(self, step: FlowStep) -> tuple[Component | None, int]:
        """The component whose result the step returns unchanged, and where a path into that begins."""
        has_other = step.otherwise is not None or step.fallback is not None
        start = 1 if step.each is None else 2
        if self._catalog is None or has_other or not isinstance(step.does, Invoke):
            return None, start
        return self._catalog.get(step.does.target), start

    def _kinds(self, path: Path) -> frozenset[str]:
        """The kinds at a path, as far as they are known."""
        if path.root == "input":
            return kinds_at(self._flow.input_schema, path)
        step = self._flow.by_name.get(str(path.parts[0])) if path.root == "steps" and path.parts else None
        if step is None:
            return frozenset()
        component, start = self._called_by(step)
        if len(path.parts) < start:
            return frozenset({"array"}) if component is not None else frozenset()
        return frozenset() if component is None else component.gives(path, start)

    def _variable_reference(self, path: Path) -> str:
        name = path.parts[0] if path.parts else None
        if not isinstance(name, str):
            return f"{path_text(path)} names no variable: write vars.NAME"
        self._used.add(name)
        if name in self._variables:
            return ""
        return f"there is no variable {name!r}{self._hint(name, self._variables)}"

    def _needed(self, step: FlowStep, name: str, at: Place) -> None:
        if name not in self._flow.by_name:
            self._say(at, f"there is no step {name!r}{self._hint(name, self._flow.by_name)}")
        elif name == step.name:
            self._say(at, f"step {name!r} needs itself")

    def _constants(self, step: FlowStep, at: Place) -> None:
        """Reports constants that cannot be intended."""
        if step.when is not None and is_constant(step.when):
            self._say((*at, "if"), "the condition is constant: it refers to nothing that changes", is_warning=True)
        if step.each is not None and is_constant(step.each.over) and not isinstance(step.each.over, Items):
            self._say((*at, "each", "in"), "'in' is a list: usually ${…}")
        if isinstance(step.does, Approve):
            place: Place = (*at, "approve")
            for gate in step.does.gates():
                if is_constant(gate.by) and not _are_names(gate.by):
                    self._say((*place, "by"), "'by' is a name, a list of names, or ${…}")
                place = (*place, "then", "escalate")

    # -- the whole -----------------------------------------------------------------------------------------------------

    def cycles(self) -> None:
        """Reports steps that wait for themselves through others."""
        steps = self._flow.by_name
        state: dict[str, int] = {}
        reported = 0
        for first in steps:
            stack = [(first, iter(steps[first].after))] if first not in state else []
            while stack:
                name, left = stack[-1]
                state[name] = 1
                for other in left:
                    if other == name or other not in steps or state.get(other) == 2:
                        continue
                    if state.get(other) == 1:
                        reported += 1
                        if reported <= CYCLES:
                            self._cycle([each for each, _ in stack], other)
                        continue
                    stack.append((other, iter(steps[other].after)))
                    break
                else:
                    state[name] = 2
                    stack.pop()

    def _cycle(self, way: list[str], back: str) -> None:
        around = [*way[way.index(back) :], back]
        shown = around if len(around) <= 12 else [*around[:6], "…", *around[-5:]]
        self._say(("steps", back), f"steps wait for each other in a circle: {' → '.join(shown)}")

    def unused(self) -> None:
        """Warns about steps that are never run and about unused variables."""
        needed = self._flow.needed
        if self._flow.steps and not needed:
            self._say(
                (),
                "nothing would run: no output needs a step, and no step has always: true",
                is_warning=True,
            )
        else:
            for step in self._flow.steps:
                if step.name not in needed:
                    message = f"step {step.name!r} never runs: no output needs it. Mark it always: true, or remove it"
                    self._say(("steps", step.name), message, is_warning=True)
        for name in sorted(self._variables - self._used):
            self._say(("vars", name), f"variable {name!r} is never used", is_warning=True)

    # -- what it calls -------------------------------------------------------------------------------------------------

    def calls(self) -> None:
        """Checks that called components exist and accept their arguments, and that no flow calls itself through
        others."""
        own, catalog = self._flow.name, self._catalog
        ways: dict[str, list[str]] = {}
        for step in self._flow.steps:
            if not isinstance(step.does, Invoke) or not step.does.target:
                continue
            target, at = step.does.target, ("steps", step.name, "call")
            component = None if catalog is None else catalog.get(target)
            if target == own and (component is None or component.definition is not None):
                self._say(at, f"flow {own!r} calls itself: that never ends")
                continue
            if catalog is None:
                continue
            if component is None:
                self._say(at, f"the app serves no step or workflow {target!r}{self._hint(target, catalog)}")
                continue
            if target not in ways:
                ways[target] = circle(own, (target,), partial(self._flow_of, catalog))
            if way := ways[target]:
                self._say(at, f"flows call each other in a circle: {' → '.join(way)}")
            for place, problem in component.misfits(step.does.given, step.does.variables):
                self._say(("steps", step.name, *place), problem)
            self._kinds_given(step, step.does, component)
            if component.definition is not None:
                self._secrets(step, step.does, component.definition)

    def _kinds_given(self, step: FlowStep, does: Invoke, component: Component) -> None:
        """Checks that values passed on unchanged have a kind that the component takes."""
        for name, tree in does.given.fields:
            if not isinstance(tree, Path):
                continue
            given, taken = self._kinds(tree), component.takes(name)
            if given and taken and _numbers(given).isdisjoint(_numbers(taken)):
                words, (is_, takes) = path_text(tree), (" or ".join(sorted(kinds)) for kinds in (given, taken))
                message = f"{words} is {is_}, but {does.target} takes {takes} for {name!r}"
                self._say(("steps", step.name, "with", name), message, words=words)

    def _flow_of(self, catalog: Catalog, name: str) -> Definition | None:
        component = catalog.get(name)
        if component is None:
            return self._flow if name == self._flow.name else None
        return component.definition

    def _secrets(self, step: FlowStep, does: Invoke, called: Definition) -> None:
        """Checks that a secret stays secret in the flow that is called."""
        for name, tree in does.variables.fields:
            for path in () if name in called.secrets else self._secrets_in(tree):
                message = f"{path} is a secret, but variable {name!r} of flow {called.name!r} is not"
                self._say(("steps", step.name, "vars", name), message, words=path, is_warning=True)

    def _secrets_in(self, tree: Expression) -> Iterator[str]:
        for path in references(tree).all():
            if path.root == "vars" and path.parts[:1] and path.parts[0] in self._flow.secrets:
                yield path_text(path)


def leaves(tree: Expression, at: Place = ()) -> Iterator[tuple[Place, Expression]]:
    """The parts of a value that are separate in the file, each with its place."""
    if isinstance(tree, Fields):
        for key, value in tree.fields:
            yield from leaves(value, (*at, key))
    elif isinstance(tree, Items):
        for number, value in enumerate(tree.items):
            yield from leaves(value, (*at, number))
    else:
        yield at, tree


def _result_misfit(step: FlowStep, path: Path) -> str:
    """The problem of a path into a step's result, as far as the flow alone shows it."""
    if len(path.parts) < 2 or step.otherwise is not None or step.fallback is not None:
        return ""
    part, whole = path.parts[1], path_text(path)
    if step.each is not None:
        return (
            "" if isinstance(part, int) else f"{whole}: the result of an 'each' is a list: write steps.{step.name}[0]"
        )
    if isinstance(step.does, Approve) and part not in DECISION:
        hint = did_you_mean(str(part), DECISION)
        return f"{whole}: an approval has {', '.join(DECISION)}, but no {part!r}{hint}"
    if isinstance(step.does, Sleep):
        return f"{whole}: a sleep has no result"
    return ""


def _numbers(kinds: frozenset[str]) -> frozenset[str]:
    """Adds number to whole number and vice versa: either may be meant."""
    return kinds | {"int", "float"} if kinds & {"int", "float"} else kinds


def _are_names(tree: Expression) -> bool:
    try:
        value = evaluate(tree, {})
    except ExpressionFailed:  # is reported by itself
        return True
    if is_list(value):
        return bool(value) and all(isinstance(each, str) and each for each in value)
    return isinstance(value, str) and bool(value)
