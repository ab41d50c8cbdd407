"""`Flow`: a definition as a workflow. Calling it makes a `Call` and checks the input and variables at once."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeVar

from holdfast.authoring.flow.binding import flow_spec
from holdfast.authoring.flow.diagram import mermaid, svg
from holdfast.authoring.flow.flow_definition import Definition
from holdfast.authoring.flow.format import definition_bytes
from holdfast.authoring.script.place import place
from holdfast.authoring.script.workflows import AnyWorkflow, Call
from holdfast.core.specs import WorkflowSpec

I = TypeVar("I")  # noqa: E741 its input
O = TypeVar("O")  # noqa: E741 its output


class Flow(AnyWorkflow[[I], O], Generic[I, O]):
    """A workflow declared as data: from `load_flow`, or from `FlowBuilder.build`.

    `definition` is what runs execute, stored with each of them by its hash. `brings` are steps and workflows given to
    the builder, served together with the flow; the app serves everything else it calls.
    """

    def __init__(
        self,
        definition: Definition,
        *,
        where: str = "",
        takes: Any = Any,
        gives: Any = Any,
        brings: tuple[Any, ...] = (),
    ) -> None:
        self.definition = definition
        self.name: str = definition.name
        self.version: str = definition.version
        self.where: str = where
        self.__name__: str = definition.name
        self.__doc__ = definition.description or None
        self._types = (takes, gives)
        self._brings = brings

    def __repr__(self) -> str:
        return f"<flow {self.name}{' ' + self.version if self.version else ''} ({self.where})>"

    @functools.cached_property
    def spec(self) -> WorkflowSpec:
        """What the engine needs to know."""
        takes, gives = self._types
        data = definition_bytes(self.definition)
        return flow_spec(data, where=self.where, takes=takes, gives=gives, brings=self._brings)

    @property
    def hash(self) -> str:
        """The SHA-256 of the definition, its name in the store."""
        return self.spec.code

    def diagram(self, format: Literal["mermaid", "svg"] = "mermaid") -> str:
        """The flow as Mermaid text, or as an SVG picture."""
        return mermaid(self.definition) if format == "mermaid" else svg(self.definition)

    def __call__(self, input: I, *, vars: Mapping[str, Any] | None = None) -> Call[O]:
        """The flow with its input, as a value: for `app.start`, or awaited in a run as a child. `vars` are values for
        its variables."""
        return self._call((input,), {"vars": vars}, place(1))
