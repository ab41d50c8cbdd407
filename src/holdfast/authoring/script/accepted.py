"""The signals and updates a workflow takes, with their types: those its author declared, or those its code names.

`@workflow(accepts=(approved,))` is the whole list, and any other name is refused where it is sent. Without it, Holdfast
looks up the signals that the body names, so that a value of the wrong type is still refused; a name that is not found
may be sent. Nothing is executed and nothing is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from holdfast.authoring.script.channels import Channel
from holdfast.authoring.script.functions import is_a, names_in
from holdfast.authoring.script.update import AnyUpdate
from holdfast.core.payload import Shape
from holdfast.core.specs import UpdateSpec
from holdfast.errors import DefinitionError

DEEPEST = 5
"""How deep signals are searched for: in functions that a body calls, and those that these call."""

Accepted = Channel[Any] | AnyUpdate[Any, Any]
Accepts = Accepted | tuple[Accepted, ...]


def check_accepts(accepts: Accepts | None, what: str) -> tuple[Accepted, ...] | None:
    """The declared signals and updates as a tuple; None if there is no declaration."""
    if accepts is None:
        return None
    declared = accepts if isinstance(accepts, tuple) else (accepts,)
    for one in declared:
        if not (is_a(one, Channel) or is_a(one, AnyUpdate)) or one.kind == "topic":
            raise DefinitionError(
                f"{what}(accepts=…) takes signals and updates such as Signal[bool]('approved'), got {one!r}"
            )
    for one in declared:
        _: Shape[Any] = one.shape  # one without a type is refused here
    names = [one.name for one in declared]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DefinitionError(f"{what}(accepts=…) names {twice!r} twice: name each once")
    return declared


def updates_of(declared: tuple[Accepted, ...] | None, function: Callable[..., Any]) -> Mapping[str, UpdateSpec]:
    """The declared updates by name, else those that the function names."""
    if declared is not None:
        return {one.name: one.spec for one in declared if isinstance(one, AnyUpdate)}
    found: dict[str, UpdateSpec] = {}
    unsure: set[str] = set()
    for one in _channels_in(function, set(), DEEPEST):
        if not isinstance(one, AnyUpdate):
            continue
        try:
            spec = one.spec
        except DefinitionError:
            continue
        if spec.question.annotation != found.setdefault(one.name, spec).question.annotation:
            unsure.add(one.name)
    return {name: spec for name, spec in found.items() if name not in unsure}


def shapes_of(declared: tuple[Accepted, ...] | None, function: Callable[..., Any]) -> Mapping[str, Shape[Any]]:
    """The types of the declared signals by name, else of those that the function names."""
    if declared is not None:
        return {one.name: one.shape for one in declared if isinstance(one, Channel)}
    found: dict[str, Shape[Any]] = {}
    unsure: set[str] = set()
    for signal in _channels_in(function, set(), DEEPEST):
        if not isinstance(signal, Channel):
            continue
        try:
            shape = signal.shape
        except DefinitionError:
            continue
        if shape.annotation != found.setdefault(signal.name, shape).annotation:
            unsure.add(signal.name)
    return {name: shape for name, shape in found.items() if name not in unsure}


def _channels_in(function: Any, seen: set[int], depth: int) -> Iterator[Accepted]:
    if not is_a(function, FunctionType) or id(function) in seen or depth == 0:
        return
    seen.add(id(function))
    for value in _values_named(function):
        if is_a(value, Channel) or is_a(value, AnyUpdate):
            if value.kind != "topic":
                yield value
        elif is_a(value, FunctionType) and value.__module__ == function.__module__:
            yield from _channels_in(value, seen, depth - 1)


def _values_named(function: FunctionType) -> Iterator[Any]:
    """The current values of the names in a function: globals, attributes of modules, and closures."""
    names, scope = names_in(function.__code__), function.__globals__
    for name in names:
        if name not in scope:
            continue
        value = scope[name]
        yield value
        if is_a(value, ModuleType):
            inner = vars(value)
            yield from (inner[name] for name in names if name in inner)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue
