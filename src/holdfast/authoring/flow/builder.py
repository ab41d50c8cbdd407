"""`FlowBuilder`: flows written in Python. `build` checks them like a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.authoring.flow.builder_references import Given, Ref, condition_of, text_of, tree_of
from holdfast.authoring.flow.definition_checks import Place, check
from holdfast.authoring.flow.expressions import Expression, Fields, Path, Value
from holdfast.authoring.flow.flow_definition import (
    Action,
    Approve,
    Definition,
    Each,
    FlowStep,
    Invoke,
    Sleep,
    Variable,
    Verdict,
    Wait,
)
from holdfast.authoring.flow.format import definition_bytes, definition_from
from holdfast.authoring.flow.located import refused
from holdfast.authoring.flow.workflow import Flow
from holdfast.authoring.script.place import place
from holdfast.authoring.script.steps import AnyStep
from holdfast.authoring.script.workflows import AnyWorkflow
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.ids import check_name
from holdfast.core.retry import Retry
from holdfast.errors import DefinitionError, Problem

__all__ = ["FlowBuilder"]


class _Unset:
    """Marks that no value was given, since None is a value."""


UNSET: Final = _Unset()


class FlowBuilder:
    """Collects the steps of a flow; `build` checks it whole and makes the workflow.

    Each method that adds a step returns a reference to its result. Steps that do not refer to each other run together.
    All of them take:

    - `when`: only if this holds; `otherwise`: the result if it does not (without it, steps that need this one are
      skipped too)
    - `needs`: steps to come after, besides those it refers to
    - `on_error`: the result when retries are spent; without it the flow fails
    - `always`: run it although no output needs it
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "",
        description: str = "",
        saga: bool = False,
        input_schema: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        metadata: Any = None,
    ) -> None:
        self._name = check_name(name, "the name of a flow")
        self._head: dict[str, Any] = {
            "version": check_name(version, "version=") if version else "",
            "description": description,
            "saga": saga,
            "input_schema": None if input_schema is None else dict(input_schema),
            "output_schema": None if output_schema is None else dict(output_schema),
            "metadata": metadata,
        }
        self._where = str(place(1))
        self._steps: dict[str, FlowStep] = {}
        self._places: dict[str, str] = {}
        self._variables: dict[str, Variable] = {}
        self._parts: list[AnyStep[..., Any] | AnyWorkflow[..., Any]] = []

    @property
    def input(self) -> Ref:
        """The run's input."""
        return Ref(Path("input"))

    @property
    def item(self) -> Ref:
        """The item of a call with `each`."""
        return Ref(Path("item"))

    def var(self, name: str, default: Given = UNSET, *, secret: bool = False, description: str = "") -> Ref:
        """Declares a variable: a value given at the start, besides the input."""
        if name in self._variables:
            raise DefinitionError(f"flow {self._name}: variable {name!r} is declared twice")
        check_name(name, "the name of a variable")
        has_default = not isinstance(default, _Unset)
        self._variables[name] = Variable(name, default if has_default else None, has_default, secret, description)
        return Ref(Path("vars", (name,)))

    def text(self, *parts: Given) -> Ref:
        """Text with values in it: `f.text("order ", f.input["id"])`."""
        return text_of(parts)

    def call(
        self,
        name: str,
        target: str | AnyStep[..., Any] | AnyWorkflow[..., Any],
        given: Mapping[str, Given] | None = None,
        *,
        vars: Mapping[str, Given] | None = None,
        each: Given = UNSET,
        limit: int | None = None,
        retry: Retry | int | None = None,
        timeout: Duration | None = None,
        when: Ref | bool | None = None,
        otherwise: Given = UNSET,
        needs: Sequence[Ref] = (),
        on_error: Given = UNSET,
        always: bool = False,
        description: str = "",
        metadata: Any = None,
    ) -> Ref:
        """Calls a step, a workflow or a flow: the object, or its name in the app. `given` are its arguments by name;
        for a flow they are its input, and `vars` are values for its variables.

        With `each`, a list, it is called once for each of its items (`f.item`), at most `limit` at a time, and the
        result is a list.
        """
        if limit is not None and (isinstance(each, _Unset) or limit < 1):
            raise DefinitionError(f"step {name}: limit= is for each=, and at least 1")
        arguments, variables = tree_of(dict(given or {})), tree_of(dict(vars or {}))
        assert isinstance(arguments, Fields)
        assert isinstance(variables, Fields)
        return self._add(
            name,
            Invoke(self._named(target), arguments, variables),
            when,
            otherwise,
            needs,
            on_error,
            each=None if isinstance(each, _Unset) else Each(tree_of(each), limit),
            retry=Retry(retry) if isinstance(retry, int) else retry,
            timeout=None if timeout is None else parse_duration(timeout, what=f"timeout= of step {name}"),
            always=always,
            description=description,
            metadata=metadata,
        )

    def wait(
        self,
        name: str,
        signal: str,
        *,
        timeout: Duration | None = None,
        default: Given = UNSET,
        when: Ref | bool | None = None,
        otherwise: Given = UNSET,
        needs: Sequence[Ref] = (),
        on_error: Given = UNSET,
        always: bool = False,
    ) -> Ref:
        """Waits for a signal; its value is the result. `default` is the result at the timeout."""
        if not isinstance(default, _Unset) and timeout is None:
            raise DefinitionError(f"step {name}: default= is the result at the timeout: give timeout= too")
        longest = None if timeout is None else parse_duration(timeout, what=f"timeout= of step {name}")
        does = Wait(check_name(signal, "the name of a signal"), longest, _optional(default))
        return self._add(name, does, when, otherwise, needs, on_error, always=always)

    def sleep(
        self,
        name: str,
        duration: Duration | Ref,
        *,
        when: Ref | bool | None = None,
        otherwise: Given = UNSET,
        needs: Sequence[Ref] = (),
        always: bool = False,
    ) -> Ref:
        """Waits this long."""
        if isinstance(duration, Ref):
            tree = duration.tree
        else:
            seconds = parse_duration(duration, what=f"the duration of step {name}").total_seconds()
            tree = Value(duration if isinstance(duration, (str, int, float)) else seconds)
        return self._add(name, Sleep(tree), when, otherwise, needs, UNSET, always=always)

    def approve(
        self,
        name: str,
        by: Given,
        *,
        why: Given = UNSET,
        asked_when: Ref | bool | None = None,
        timeout: Duration | None = None,
        then: Verdict | Approve = "deny",
        when: Ref | bool | None = None,
        otherwise: Given = UNSET,
        needs: Sequence[Ref] = (),
        always: bool = False,
    ) -> Ref:
        """Asks `by` for a decision; the result has `approved`, `by`, `at` and `why`.

        If `asked_when` is false, it is approved without asking. At the timeout, `then` decides: "approve", "deny", or
        `f.escalate(…)` to ask another person.
        """
        gate = self.escalate(by, why=why, asked_when=asked_when, timeout=timeout, then=then)
        return self._add(name, gate, when, otherwise, needs, UNSET, always=always)

    def escalate(
        self,
        by: Given,
        *,
        why: Given = UNSET,
        asked_when: Ref | bool | None = None,
        timeout: Duration | None = None,
        then: Verdict | Approve = "deny",
    ) -> Approve:
        """Whom to ask next, for `then=` of an approval."""
        if timeout is None and then != "deny":
            raise DefinitionError("then= is what happens at the timeout: give timeout= too")
        asked = None if asked_when is None else condition_of(asked_when, "asked_when=")
        longest = None if timeout is None else parse_duration(timeout, what="timeout= of an approval")
        return Approve(tree_of(by), asked, _optional(why), longest, then)

    def build(self, output: Given = None) -> Flow[Any, Any]:
        """The flow, checked whole. `output` is its result: only what it needs, and steps with `always`, are run."""
        definition = Definition(
            self._name,
            tuple(self._steps.values()),
            tree_of(output),
            variables=tuple(self._variables.values()),
            **self._head,
        )
        problems: list[Problem] = []

        def say(place: Place, message: str, *, words: str = "", is_warning: bool = False) -> None:
            step = str(place[1]) if len(place) > 1 and place[0] == "steps" else ""
            where = f"step {step}" if step else str(place[0] if place else "flow")
            problems.append(Problem(f"{where}: {message}", self._places.get(step, self._where), is_warning=is_warning))

        check(definition, say)
        if any(not problem.is_warning for problem in problems):
            raise refused(f"flow {self._name}", problems)
        definition_from(definition_bytes(definition))  # what cannot be stored is refused now
        return Flow(definition, where=self._where, brings=tuple(self._parts))

    def _named(self, target: str | AnyStep[..., Any] | AnyWorkflow[..., Any]) -> str:
        if isinstance(target, str):
            return check_name(target, "the name of what is called")
        if not any(part is target for part in self._parts):
            self._parts.append(target)
        return target.name

    def _add(
        self,
        name: str,
        does: Action,
        when: Ref | bool | None,
        otherwise: Given,
        needs: Sequence[Ref],
        on_error: Given,
        **options: Any,
    ) -> Ref:
        check_name(name, "the name of a step")
        if name in self._steps:
            raise DefinitionError(f"flow {self._name}: step {name!r} appears twice: {self._places[name]}")
        if not isinstance(otherwise, _Unset) and when is None:
            raise DefinitionError(f"step {name}: otherwise= is the result if when= does not hold: give when= too")
        self._places[name] = str(place(2))
        self._steps[name] = FlowStep(
            name,
            does,
            when=None if when is None else condition_of(when, f"step {name}: when="),
            otherwise=_optional(otherwise),
            needs=tuple(_step_of(each, name) for each in needs),
            fallback=_optional(on_error),
            **options,
        )
        return Ref(Path("steps", (name,)))


def _optional(value: Given) -> Expression | None:
    return None if isinstance(value, _Unset) else tree_of(value)


def _step_of(ref: Ref, name: str) -> str:
    tree = ref.tree if isinstance(ref, Ref) else None
    if isinstance(tree, Path) and tree.root == "steps" and len(tree.parts) == 1 and isinstance(tree.parts[0], str):
        return tree.parts[0]
    raise DefinitionError(f"step {name}: needs= has references to steps, not {ref!r}")
