"""Checks of definitions when they are written. Every error names the file and line and what to do."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any

from holdfast.authoring.script.functions import code_of_callable, function_behind
from holdfast.errors import DefinitionError


def place_of(function: Callable[..., Any]) -> str:
    """The file and line of a function."""
    code = code_of_callable(function_behind(function) or function)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else _said(function)


def _said(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 our own error names it
        return f"a {type(value).__qualname__}"


def check_function(function: Callable[..., Any], what: str) -> None:
    """Refuses functions that cannot be found again after a restart, or that do not return one outcome."""
    where = place_of(function)
    if not callable(function) or code_of_callable(function) is None:
        raise DefinitionError(f"{what} takes a function, got {_said(function)}: wrap the call in a `def` of your own")
    if function.__name__ == "<lambda>":
        raise DefinitionError(f"{where}: {what} on a lambda has no name to be recorded under: write a `def`")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise DefinitionError(f"{where}: {what} on a generator; it has one outcome only: return a list instead")
    try:
        parameters = list(inspect.signature(function).parameters)
    except ValueError as error:
        raise DefinitionError(f"{where}: {what} cannot read the parameters of {_said(function)}: {error}") from error
    is_method = "." in function.__qualname__.rpartition("<locals>.")[2]
    if inspect.ismethod(function) or (is_method and parameters[:1] in (["self"], ["cls"])):
        raise DefinitionError(
            f"{where}: {what} on a method; its object is not there after a restart: write a module-level function "
            "that takes what it needs"
        )


def check_raises(raises: type[Exception] | tuple[type[Exception], ...], what: str) -> tuple[type[Exception], ...]:
    """The declared exceptions as a tuple."""
    declared = raises if isinstance(raises, tuple) else (raises,)
    for kind in declared:
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise DefinitionError(f"{what}(raises=…) takes exception classes, got {kind!r}")
    return declared


def code_of(function: Callable[..., Any]) -> str:
    """A hash of the function's code: recorded and shown, but never required to be equal."""
    digest = hashlib.sha256()
    _feed(digest.update, function.__code__)
    return digest.hexdigest()[:16]


def _feed(update: Callable[[bytes], None], code: CodeType) -> None:
    update(code.co_code)
    update(repr((code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _feed(update, constant)
        elif not isinstance(constant, frozenset):  # its order is the process's, not the code's
            update(repr(constant).encode())
