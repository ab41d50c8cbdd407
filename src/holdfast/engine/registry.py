"""The definitions a process can advance, by name and version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from holdfast.authoring.batch.plan import NAME, VERSION
from holdfast.authoring.script.program import ScriptProgram
from holdfast.core.passes import Beginning
from holdfast.core.program import Program
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.errors import DefinitionError, UnknownWorkflow

BATCH = (NAME, VERSION)
"""What conducts batches: every worker has it."""


class Registry:
    """Exact matches only: a versioned run never meets an unversioned definition, nor the other way round."""

    def __init__(self, specs: Iterable[WorkflowSpec] = ()) -> None:
        self._added: dict[tuple[str, str], WorkflowSpec] = {}
        self._awaited: list[Callable[[], Iterable[WorkflowSpec]]] = []
        for spec in specs:
            self.add(spec)

    def add_later(self, specs: Callable[[], Iterable[WorkflowSpec]]) -> None:
        """Registers a definition that may still be being written: it is read when somebody first asks."""
        self._awaited.append(specs)

    @property
    def _specs(self) -> dict[tuple[str, str], WorkflowSpec]:
        while self._awaited:
            for spec in self._awaited[0]():
                self.add(spec)
            self._awaited.pop(0)
        return self._added

    def add(self, spec: WorkflowSpec) -> None:
        """Registers a definition; the same one twice is fine, two of one name and version are not. A remote declaration
        stands back for the definition itself."""
        known = self._added.get((spec.name, spec.version))
        if known is not None and spec.is_remote:
            return
        if known is not None and not known.is_remote and known.function is not spec.function:
            raise DefinitionError(
                f"two workflows are called {spec.label}: {known.where} and {spec.where}. Rename one (name=…) or give "
                "it another version (version=…)."
            )
        self._added[spec.name, spec.version] = spec

    def __iter__(self) -> Iterator[WorkflowSpec]:
        return iter(self._specs.values())

    def __len__(self) -> int:
        return len(self._specs)

    @property
    def held(self) -> tuple[tuple[str, str], ...]:
        """What a worker with this registry can advance: what it was given, and what every worker can."""
        return (*(key for key, spec in self._specs.items() if not spec.is_remote), BATCH)

    def find(self, name: str, version: str) -> WorkflowSpec | None:
        """The definition, if this process has its code."""
        spec = self.declared(name, version)
        return None if spec is None or spec.is_remote else spec

    def declared(self, name: str, version: str) -> WorkflowSpec | None:
        """The definition or its remote declaration."""
        if (name, version) == BATCH:
            from holdfast.authoring.batch.conducting import batch_spec

            return batch_spec()
        return self._specs.get((name, version))

    def require(self, name: str) -> WorkflowSpec:
        """The newest registered definition of that name."""
        found = [spec for (known, _), spec in self._specs.items() if known == name]
        if not found:
            known = ", ".join(sorted({known for known, _ in self._specs})) or "none"
            raise UnknownWorkflow(f"no workflow {name!r} in this app; it has: {known}")
        return found[-1]

    def program(self, spec: WorkflowSpec, beginning: Beginning, settings: Settings) -> Program:
        """A program that begins there."""
        return ScriptProgram(spec, beginning, settings)
