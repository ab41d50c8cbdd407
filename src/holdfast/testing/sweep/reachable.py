"""The author's functions that a run may reach: those that are replayed, and those whose effects happen.

A script names what it calls in its code. A machine and a flow do not: what they are made of is in their definitions,
and a flow finds it by name among the components of its app.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType
from typing import Any

from holdfast import sync
from holdfast.app import App
from holdfast.authoring.registry import Registry
from holdfast.authoring.script.functions import is_a
from holdfast.authoring.script.named import named_by
from holdfast.authoring.script.steps import AnyStep
from holdfast.authoring.script.workflows import AnyWorkflow
from holdfast.core.specs import WorkflowSpec
from holdfast.testing.fake import Fake
from holdfast.testing.sweep.determinism import is_authors


def reached(first: WorkflowSpec, app: App | sync.App | None) -> list[WorkflowSpec]:
    """The definition, and those of every workflow it may start, of whatever style, each with its code."""
    registry = Registry()
    if app is not None:
        inner = app.app if isinstance(app, sync.App) else app
        registry.components.update(inner.registry.components)
        for spec in inner.registry:
            registry.add(spec)
    registry.add(first)
    found: dict[tuple[str, str], WorkflowSpec] = {}
    pending = [first]
    while pending:
        spec = pending.pop(0)
        if (spec.name, spec.version) in found:
            continue
        registry.add(spec)
        runs = found[spec.name, spec.version] = registry.executable(spec) or spec
        named: list[object] = named_by((runs.function, *runs.bodies))
        children: list[AnyWorkflow[..., Any]] = [value for value in named if is_a(value, AnyWorkflow)]
        pending += [one for child in children for one in child.specs()]
        pending += _called(spec, registry)
    return list(found.values())


def _called(spec: WorkflowSpec, registry: Registry) -> Iterator[WorkflowSpec]:
    """The workflows that a flow calls by name."""
    if spec.style != "flow":
        return
    names = {name for part in spec.parts() for name in part.calls}
    for name in sorted(names):
        given = registry.components.find(name)
        if isinstance(given, AnyWorkflow):
            yield from given.specs()
        elif given is None:
            yield from (known for known in registry if known.name == name)


def replayed_functions(specs: Iterable[WorkflowSpec]) -> list[Callable[..., Any]]:
    """The author's functions that run again on every replay: bodies of workflows, and functions they call that are not
    steps."""
    own = [function for spec in specs for function in (spec.function, *spec.replayed)]
    steps = {id(step.function) for step in named_by(own) if is_a(step, AnyStep)}
    return _authors([*own, *(x for x in named_by(own, without=steps) if id(x) not in steps)])


def effective_functions(specs: Sequence[WorkflowSpec], fakes: Sequence[Fake]) -> list[Callable[..., Any]]:
    """The author's functions whose effects happen: bodies of steps, of machines' states, fakes, what they call."""
    again = {id(function) for spec in specs for function in (spec.function, *spec.replayed)}
    bodies = [body for spec in specs for body in spec.bodies]
    named = named_by([*(spec.function for spec in specs), *bodies])
    faked = {id(fake.real.function) for fake in fakes if isinstance(fake.real, AnyStep)}
    steps = [x.function for x in named if is_a(x, AnyStep)]
    steps += [x.undo_step.function for x in named if is_a(x, AnyStep) and x.undo_step is not None]
    real = [x for x in [*bodies, *steps] if id(x) not in faked and id(x) not in again]
    own = [*real, *(fake.fake for fake in fakes if _is_function(fake.fake))]
    return _authors([*own, *named_by(own)])


def _authors(values: Iterable[Any]) -> list[Callable[..., Any]]:
    functions = [value for value in values if _is_function(value)]
    return [function for function in dict.fromkeys(functions) if is_authors(function.__code__)]


def _is_function(value: Any) -> bool:
    return is_a(value, FunctionType)
