"""The steps and workflows of an app that flows may call by name.

A component is known as `module.function`, by its own name (`name=`), and, if a module was served, by its name there.
Two components may share a short name as long as no flow uses it; full names are never shared. Only what was given to
the app is found here: nothing is imported by a name found in data.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any, TypeAlias

from holdfast.authoring.script.definition_errors import place_of
from holdfast.authoring.script.functions import is_a
from holdfast.authoring.script.steps import AnyStep
from holdfast.authoring.script.workflows import AnyWorkflow
from holdfast.errors import DefinitionError

Given: TypeAlias = AnyStep[..., Any] | AnyWorkflow[..., Any]


class Components:
    """Components by name. Registries of one process that serve the same app share them."""

    def __init__(self) -> None:
        self._named: dict[str, list[Given]] = {}
        self._offered: set[str] = set()

    def add(self, given: Given, *names: str) -> None:
        """Adds a step or workflow under its own names and these."""
        function = given.function if isinstance(given, AnyStep) else getattr(given, "function", None)
        full = f"{function.__module__}.{function.__qualname__}" if callable(function) else ""
        for name in dict.fromkeys((given.name, full, *names)):
            found = self._named.setdefault(name, [])
            if name and not any(one is given for one in found):
                found.append(given)

    def offer(self, steps: Iterable[AnyStep[..., Any]]) -> None:
        """Adds steps under their own names, where nothing was given that has them."""
        for step in steps:
            if step.name not in self._named:
                self._offered.add(step.name)
            if step.name in self._offered and step not in (found := self._named.setdefault(step.name, [])):
                found.append(step)

    def update(self, other: Components) -> None:
        """Adds everything of another app."""
        for name, found in other._named.items():
            for given in found:
                self.add(given, name)

    def find(self, name: str) -> Given | None:
        """The component of that name. Raises `DefinitionError` if there are several."""
        found = self._named.get(name, [])
        if len(found) > 1:
            places = " and ".join(_place(one) for one in found)
            raise DefinitionError(
                f"two components are called {name!r}: {places}. Call them by module and function, or rename one "
                "(name=…)."
            )
        return found[0] if found else None

    def steps(self) -> list[AnyStep[..., Any]]:
        """The steps that are known by their own names."""
        return [step for name in self._named if (step := self.step(name)) is not None]

    def step(self, name: str) -> AnyStep[..., Any] | None:
        """The step whose own name that is. A name that two components share belongs to neither."""
        found = self._named.get(name, ())
        one = found[0] if len(found) == 1 else None
        return one if isinstance(one, AnyStep) and one.name == name else None

    def names(self) -> list[str]:
        return sorted(self._named)


def components_of(module: ModuleType) -> dict[str, Given]:
    """The steps and workflows of a module by their names there. Raises `DefinitionError` if there are none."""
    values: dict[str, Any] = vars(module)
    found = {name: value for name, value in values.items() if is_a(value, (AnyWorkflow, AnyStep))}
    if not found:
        raise DefinitionError(f"module {module.__name__} ({module.__file__}) defines no workflow and no step")
    return found


def _place(given: Given) -> str:
    return place_of(given.function) if isinstance(given, AnyStep) else given.where
