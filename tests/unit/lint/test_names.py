"""The names of the table of forbidden calls, as this Python has them."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name

import pytest

from holdfast.lint.forbidden_calls import FUNCTIONS, METHODS, banned
from holdfast.lint.names import name_of


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_that_was_imported_by_itself_is_found_in_the_table(name: str) -> None:
    """Promise: wherever this Python defines it. (One that it lacks is in no code.)"""
    try:
        found = resolve_name(name)
    except AttributeError:
        return
    assert banned(name_of(found), has_arguments=True) == FUNCTIONS[name]


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_method_of_a_class_is_found_in_the_table(name: str) -> None:
    """Promise: by the name of its class, which Python 3.13 defines in another module."""
    assert f"{name_of(Path)}.{name.rpartition('.')[2]}" == name
