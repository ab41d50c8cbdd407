"""What a function names: the functions, steps, workflows and resources that its code reaches through its globals.

Definitions register nothing, so what belongs to a workflow is read from its code. A worker uses this to open resources
before the first run, a test to serve children without listing them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from holdfast.authoring.script.functions import attributes_of, function_behind, is_a, names_in, own


def named_by(functions: Iterable[Callable[..., Any]], *, without: Collection[int] = ()) -> list[Any]:
    """Everything that these functions, and the functions they name, refer to. In order of discovery.

    `without` holds ids of functions whose code is not looked into.
    """
    found: dict[int, Any] = {}
    seen: set[int] = set(without)
    pending = [function_behind(function) for function in functions]
    while pending:
        function = pending.pop(0)
        if function is None or id(function) in seen:
            continue
        seen.add(id(function))
        for value in _values(function):
            if id(value) in found:
                continue
            found[id(value)] = value
            behind = function_behind(value)
            if behind is None or _is_ours(behind):
                continue
            pending.append(behind)
            pending.append(function_behind(own(value, "undo_step")))  # of a step
    return list(found.values())


def _is_ours(function: FunctionType) -> bool:
    module: object = function.__module__  # None for a function that was made without one
    return isinstance(module, str) and module.partition(".")[0] == "holdfast"


def _values(function: FunctionType) -> Iterator[Any]:
    names = names_in(function.__code__)
    scope = function.__globals__
    for name in names:
        if name not in scope:
            continue
        value = scope[name]
        yield value
        if is_a(value, ModuleType):  # shop.ship(order): its attributes are among the names
            inner = attributes_of(value)
            yield from (inner[name] for name in names if name in inner)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue
