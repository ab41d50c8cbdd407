"""What the names in a function stand for: looked up in the function itself, never by running anything."""

from __future__ import annotations

import ast
import builtins
import os
import random
import sys
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from holdfast.authoring.script.functions import is_a
from holdfast.lint.function_source import Definition


class Unknown:
    """The value of an expression that is only known in a run."""


UNKNOWN = Unknown()

_KNOWN = ((os.environ, "os.environ"), (sys.argv, "sys.argv"), (sys.stdin, "sys.stdin"))


class Names:
    """The names of one function: its own, those it captured, its module's, Python's."""

    def __init__(self, function: Callable[..., Any], definition: Definition) -> None:
        code = function.__code__
        nested = [inner for inner in ast.walk(definition) if isinstance(inner, Definition | ast.Lambda)]
        arguments = [
            argument.arg for inner in nested for argument in ast.walk(inner.args) if isinstance(argument, ast.arg)
        ]
        self.local: frozenset[str] = frozenset({*code.co_varnames, *code.co_cellvars, *arguments, *_stored(definition)})
        self.captured: Mapping[str, Any] = _captured(function)
        self.globals: Mapping[str, Any] = function.__globals__
        self._imported = _imported(definition)

    def is_outer(self, name: str) -> bool:
        """Whether a name outlives the call: of the module, or captured from around it."""
        return name not in self.local and (name in self.captured or name in self.globals)

    def value(self, node: ast.expr) -> Any:
        """What an expression refers to, if that is known outside of a run; otherwise `UNKNOWN`."""
        if isinstance(node, ast.Name):
            if node.id in self.local:
                return UNKNOWN
            if node.id in self.captured:
                return self.captured[node.id]
            return self.globals.get(node.id, getattr(builtins, node.id, UNKNOWN))
        if isinstance(node, ast.Attribute):
            base = self.value(node.value)
            if is_a(base, (ModuleType, type)) or (base is not UNKNOWN and _is_ours(base)):
                try:
                    return getattr(base, node.attr, UNKNOWN)
                except Exception:  # noqa: BLE001 a module or class may compute it, and fail
                    return UNKNOWN
        return UNKNOWN

    def full_name(self, node: ast.expr) -> str:
        """The dotted name of the function, class or module of an expression; empty if unknown."""
        if isinstance(node, ast.Name) and node.id in self._imported:
            return self._imported[node.id]
        if isinstance(node, ast.Attribute):
            base = self.full_name(node.value)
            if base:
                return f"{base}.{node.attr}"
        value = self.value(node)
        return "" if value is UNKNOWN else name_of(value)


def _is_ours(value: object) -> bool:
    return str(type(value).__module__).startswith("holdfast.")


def name_of(value: Any) -> str:
    """The dotted name under which a function, class, module or well-known value is documented."""
    for known, name in _KNOWN:
        if value is known:
            return name
    if is_a(value, ModuleType):
        return value.__name__
    if is_a(value, (BuiltinFunctionType, MethodType)):
        owner = value.__self__
        if is_a(owner, random.Random):
            return f"random.{value.__name__}"
        if is_a(owner, type):
            return f"{_module(owner)}.{owner.__qualname__}.{value.__name__}"
        if _module(type(owner)) == "multiprocessing":  # its functions are methods of one object
            return f"multiprocessing.{value.__name__}"
    if is_a(value, (type, FunctionType, BuiltinFunctionType)):
        return f"{_module(value)}.{value.__qualname__}"
    return ""


_PUBLIC = {
    "posix": "os",
    "nt": "os",
    "_io": "io",
    "_random": "random",
    "_socket": "socket",
    "asyncio.streams": "asyncio",
    "asyncio.subprocess": "asyncio",
    "multiprocessing.context": "multiprocessing",
    "pathlib._local": "pathlib",  # Python 3.13
}
"""Where the members of a module are documented, if not there."""


def _module(value: Any) -> str:
    """The public name of a module."""
    module = value.__module__
    module = module if isinstance(module, str) and module else "builtins"
    return _PUBLIC.get(module, module)


def _stored(definition: Definition) -> set[str]:
    """Names bound anywhere inside, except those declared to be of the module."""
    declared = {
        name for node in ast.walk(definition) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names
    }
    stored = {
        node.id
        for node in ast.walk(definition)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del)
    }
    return stored - declared


def _captured(function: Callable[..., Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            found[name] = UNKNOWN
    return found


def _imported(definition: Definition) -> dict[str, str]:
    """Imports inside the function, resolved without executing them."""
    found: dict[str, str] = {}
    for node in ast.walk(definition):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found
