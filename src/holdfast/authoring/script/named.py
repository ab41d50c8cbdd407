"""What a function names: the functions, steps, workflows and resources that its code reaches through its globals.

Definitions register nothing, so whoever needs to know what belongs to a workflow reads it from the code: a worker to
open resources before the first run, a test to serve children without being told of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from types import CodeType, ModuleType
from typing import Any


def named_by(functions: Iterable[Callable[..., Any]], *, without: Collection[int] = ()) -> list[Any]:
    """Everything that these functions, and the functions they name, refer to. In order of discovery.

    `without` holds ids of functions whose code is not looked into.
    """
    found: dict[int, Any] = {}
    seen: set[int] = set(without)
    pending = [inspect.unwrap(function) for function in functions]
    while pending:
        function = pending.pop(0)
        if id(function) in seen or not hasattr(function, "__code__"):
            continue
        seen.add(id(function))
        for value in _values(function):
            found.setdefault(id(value), value)
            if not callable(value) or _is_ours(value):
                continue
            unwrapped = inspect.unwrap(value) if not isinstance(value, type) else value
            if hasattr(unwrapped, "__code__"):
                pending.append(unwrapped)
            undo = getattr(value, "undo_step", None)
            if undo is not None:
                pending.append(undo.function)
    return list(found.values())


def _is_ours(value: object) -> bool:
    module: object = getattr(value, "__module__", None)  # None for a method of a builtin, such as random.random
    return isinstance(module, str) and module.partition(".")[0] == "holdfast"


def _values(function: Callable[..., Any]) -> Iterator[Any]:
    names = sorted(_global_names(function.__code__))
    scope = function.__globals__
    for name in names:
        if name not in scope:
            continue
        value = scope[name]
        yield value
        if isinstance(value, ModuleType):  # shop.ship(order): its attributes are among the names
            yield from (vars(value)[name] for name in names if name in vars(value))
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _global_names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _global_names(constant)
    return names
