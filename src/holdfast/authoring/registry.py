"""The definitions a process can advance, by name and version, and the components that flows among them call.

A script or machine is code. A flow is data that calls components: a process can advance it if it has those. A run of a
flow executes the definition it began with (`Run.code` is its hash), whichever version the process was given.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from holdfast.authoring.batch.batch_plan import NAME, VERSION
from holdfast.authoring.components import Components, components_of
from holdfast.authoring.script.script_program import ScriptProgram
from holdfast.authoring.script.steps import AnyStep
from holdfast.authoring.script.workflows import AnyWorkflow
from holdfast.core.passes import Beginning
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.errors import DefinitionError, UnknownWorkflow
from holdfast.extras import install_command

if TYPE_CHECKING:
    from holdfast.authoring.flow.binding import Target

BATCH = (NAME, VERSION)
"""The workflow of batches, which every worker has."""


class Registry:
    """Definitions by exact name and version: a versioned run never matches an unversioned definition, or vice versa."""

    def __init__(self, specs: Iterable[WorkflowSpec] = (), components: Components | None = None) -> None:
        self._added: dict[tuple[str, str], WorkflowSpec] = {}
        self._awaited: list[Callable[[], Iterable[WorkflowSpec]]] = []
        self.components: Components = components if components is not None else Components()
        self._flows: dict[str, WorkflowSpec] = {}
        self._bound: dict[str, WorkflowSpec] = {}
        for spec in specs:
            self.add(spec)

    def add_later(self, specs: Callable[[], Iterable[WorkflowSpec]]) -> None:
        """Registers a definition that may not be finished yet: it is read when it is first needed."""
        self._awaited.append(specs)

    @property
    def _specs(self) -> dict[tuple[str, str], WorkflowSpec]:
        while self._awaited:
            for spec in self._awaited[0]():
                self.add(spec)
            self._awaited.pop(0)
        return self._added

    def add(self, spec: WorkflowSpec) -> None:
        """Registers a definition. The same one twice is fine; two different ones with the same name and version are
        not. The definition itself replaces a remote declaration."""
        known = self._added.get((spec.name, spec.version))
        if known is not None and spec.is_remote:
            return
        if known is not None and not known.is_remote and not _is_same(known, spec):
            raise DefinitionError(
                f"two workflows are called {spec.label}: {known.where} and {spec.where}. Rename one (name=…) or give "
                "it another version (version=…)."
            )
        self._added[spec.name, spec.version] = spec
        if spec.style == "flow":
            self._flows[spec.code] = spec
            self._add_brought(spec)

    def _add_brought(self, flow: WorkflowSpec) -> None:
        for part in flow.brings:
            self.components.add(part)
            if isinstance(part, AnyWorkflow):
                for spec in part.specs():
                    self.add(spec)

    def __iter__(self) -> Iterator[WorkflowSpec]:
        return iter(self._specs.values())

    def __len__(self) -> int:
        return len(self._specs)

    def bodies(self) -> Iterator[Callable[..., Any]]:
        """The functions behind everything that can be advanced here."""
        for spec in self._specs.values():
            runs = self.executable(spec)
            if runs is not None:
                yield from (runs.function, *runs.bodies)
        yield from (step.function for step in self.components.steps())

    @property
    def served(self) -> tuple[tuple[str, str], ...]:
        """The registered definitions that this process can advance."""
        return tuple(key for key, spec in self._specs.items() if self.executable(spec) is not None)

    @property
    def held(self) -> tuple[tuple[str, str], ...]:
        """What a worker with this registry can advance: what it was given, its steps as runs, and what every worker
        can."""
        served = self.served
        names = {name for name, _ in served}
        steps = [(step.name, "") for step in self.components.steps() if step.name not in names]
        return (*served, *steps, BATCH)

    @property
    def is_empty(self) -> bool:
        """Whether a worker with it would have nothing to do: no workflow, and nothing that a flow could call."""
        return not self.served and not self.components.names()

    def find(self, name: str, version: str) -> WorkflowSpec | None:
        """The definition, if this process has its code and, for a flow, everything it calls. Called for every run, so
        the common case, a script that was read before, takes no further call."""
        spec = self._added.get((name, version)) if not self._awaited else None
        if spec is not None and spec.style != "flow" and not spec.is_remote:
            return spec
        spec = self.declared(name, version)
        return None if spec is None else self.executable(spec)

    def declared(self, name: str, version: str) -> WorkflowSpec | None:
        """The definition or its remote declaration."""
        if (name, version) == BATCH:
            from holdfast.authoring.batch.conductor import batch_spec

            return batch_spec()
        spec = self._specs.get((name, version))
        if spec is None and not version:
            step = self.components.step(name)
            return None if step is None else step.run_spec
        return spec

    def require(self, name: str) -> WorkflowSpec:
        """The newest registered definition of that name."""
        found = self._newest(name)
        if found is None:
            known = ", ".join(sorted({known for known, _ in self._specs})) or "none"
            raise UnknownWorkflow(f"no workflow {name!r} in this app; it has: {known}")
        return found

    def _newest(self, name: str) -> WorkflowSpec | None:
        found = (spec for (known, _), spec in reversed(self._specs.items()) if known == name)
        return next(found, None) or self.declared(name, "")

    # -- flows ---------------------------------------------------------------------------------------------------------

    def of(self, run: Run) -> WorkflowSpec | None:
        """What a run executes: for a flow the very definition it began with."""
        if run.style != "flow":
            return self.find(run.workflow, run.version)
        spec = self._flows.get(run.code)
        return None if spec is None else self.executable(spec)

    def learn(self, data: bytes, *, is_served: bool = False) -> WorkflowSpec:
        """Adds a flow's definition from a store. `is_served`: runs of that name are claimed from now on."""
        from holdfast.authoring.flow.binding import flow_spec

        spec = flow_spec(data)
        spec = self._flows.setdefault(spec.code, spec)
        if is_served:
            self._specs.setdefault((spec.name, spec.version), spec)
        return spec

    def missing(self, spec: WorkflowSpec) -> list[str]:
        """The components that a flow calls and this process does not have."""
        from holdfast.authoring.flow.binding import targets_of

        return [name for name in targets_of(spec) if self._target(name) is None]

    def lack_of(self, spec: WorkflowSpec) -> str:
        """What prevents this process from advancing a flow."""
        names = self.missing(spec)
        if not names:
            return (
                f"flow {spec.label} has JSON Schemas, and the library that checks them is not installed here. "
                f"Install it: {install_command('flows')}"
            )
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return f"flow {spec.label} calls {shown}, which is not registered here"

    def executable(self, spec: WorkflowSpec) -> WorkflowSpec | None:
        """The definition with its code and, for a flow, everything it calls; None if something is missing."""
        if spec.style != "flow":
            return None if spec.is_remote else spec
        known = self._bound.get(spec.code)
        if known is None:
            from holdfast.authoring.flow.binding import bound

            self._add_brought(spec)
            known = bound(spec, self._target)
            if known is not None:
                self._bound[spec.code] = known
        return known

    def _target(self, name: str) -> Target | None:
        from holdfast.authoring.flow.binding import target_of

        given = self.components.find(name)
        if isinstance(given, AnyStep):
            return target_of(given)
        spec = self._newest(name) if given is None else self.declared(given.name, given.version) or given.spec
        return None if spec is None else target_of(spec)

    def program(self, spec: WorkflowSpec, beginning: Beginning, settings: Settings) -> Program:
        """A program that starts at that point."""
        return ScriptProgram(spec, beginning, settings)


def _is_same(known: WorkflowSpec, spec: WorkflowSpec) -> bool:
    return known.code == spec.code if spec.style == "flow" else known.function is spec.function


def serve(registry: Registry, what: AnyWorkflow[..., Any] | AnyStep[..., Any] | ModuleType | str) -> None:
    """Adds a step, a workflow, or those of a module."""
    if isinstance(what, AnyWorkflow | AnyStep):
        _serve(registry, what)
        return
    module = importlib.import_module(what) if isinstance(what, str) else what
    if not isinstance(module, ModuleType):
        raise DefinitionError(f"App(workflows=[…]) takes workflows, modules or module names, not {what!r}")
    for name, one in components_of(module).items():
        _serve(registry, one, f"{module.__name__}.{name}")


def _serve(registry: Registry, one: AnyWorkflow[..., Any] | AnyStep[..., Any], *names: str) -> None:
    registry.components.add(one, *names)
    if isinstance(one, AnyStep):
        return
    if one.is_open:
        registry.add_later(one.specs)
    else:
        registry.add(one.spec)
