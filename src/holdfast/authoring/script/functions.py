"""Finds the Python function behind an author's value, by its type alone, without touching the value.

Authors' globals may hold anything: proxies that open a connection on access, mocks that answer to every name, objects
that raise, classes that define `__code__`. `isinstance` reads `__class__` and `hasattr` calls `__getattr__`, so neither
is safe here.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeGuard, TypeVar, overload

T = TypeVar("T")

_DEEPEST = 100


@overload
def is_a(value: object, kind: type[T]) -> TypeGuard[T]: ...
@overload
def is_a(value: object, kind: tuple[type[Any], ...]) -> bool: ...
def is_a(value: object, kind: Any) -> bool:
    """Like `isinstance`, but by the real type: what a proxy or a mock says about its class does not count."""
    return issubclass(type(value), kind)


def function_behind(value: object) -> FunctionType | None:
    """The function itself, or the one that `functools.wraps`, `cache` and `partial`, a method, a step, a workflow or a
    resource is made of. None for everything else, also for classes."""
    for _ in range(_DEEPEST):
        if is_a(value, MethodType):
            value = value.__func__
            continue
        wrapped: object = None if is_a(value, type) else own(value, "__wrapped__")
        if wrapped is not None:
            value = wrapped
        elif is_a(value, functools.partial):
            value = value.func
        else:
            return value if is_a(value, FunctionType) else None
    return None


def code_of_callable(value: Callable[..., Any]) -> CodeType | None:
    """The code of a function, also of one that another compiler made; None for everything else, also for classes."""
    if is_a(value, type):
        return None
    try:
        code: object = value.__code__
    except Exception:  # noqa: BLE001 whatever it raises, it has none
        return None
    return code if is_a(code, CodeType) else None


@functools.lru_cache(maxsize=4096)
def names_in(code: CodeType) -> tuple[str, ...]:
    """The global and attribute names that a piece of code uses, with the functions inside it; sorted."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return tuple(sorted({*code.co_names, *(name for one in inner for name in names_in(one))}))


def own(value: object, name: str) -> object:
    """An attribute of the value itself, not of its class; None if it is missing."""
    try:
        attributes: Any = object.__getattribute__(value, "__dict__")
    except Exception:  # noqa: BLE001 it keeps none
        return None
    if not issubclass(type(attributes), dict):
        return None
    found: object = dict[str, object].get(attributes, name)
    return found


def attributes_of(module: ModuleType) -> dict[str, Any]:
    """The contents of a module; empty if it is a lazy module that cannot be imported."""
    try:
        return vars(module)
    except Exception:  # noqa: BLE001 whatever its import raises
        return {}


def is_coroutine_function(value: object) -> bool:
    """As `inspect.iscoroutinefunction`, for any value."""
    return is_a(value, (FunctionType, MethodType, functools.partial)) and inspect.iscoroutinefunction(value)


def _is_partial(function: object) -> bool:
    return is_a(function, (functools.partial,))


def unwrapped(
    func: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], bool]:
    """The function behind partials, its arguments, and whether `to_thread` sent it, as `partial(context.run, f, …)`."""
    function: Any = func
    keywords: dict[str, Any] = {}
    to_thread = False
    while True:
        if _is_partial(function):
            args = (*function.args, *args)
            keywords = {**function.keywords, **keywords}
            function = function.func
        elif args and is_a(function, BuiltinMethodType) and is_a(function.__self__, contextvars.Context):
            function, args = args[0], args[1:]
            to_thread = True
        else:
            return function, args, keywords, to_thread
