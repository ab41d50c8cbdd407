"""What an app serves, for checking a flow: what a name stands for, and what it takes and returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from typing import Any

from holdfast.authoring.flow.definition_checks import Component, Place
from holdfast.authoring.flow.definition_reader import did_you_mean
from holdfast.authoring.flow.evaluation import evaluate
from holdfast.authoring.flow.expressions import Expression, Fields, Path, is_constant
from holdfast.authoring.flow.flow_definition import Definition
from holdfast.authoring.flow.schema_fit import kinds_at, kinds_of, misfits_of, path_misfit
from holdfast.authoring.flow.workflow import Flow
from holdfast.authoring.flow.written import path_text
from holdfast.authoring.script.steps import AnyStep
from holdfast.authoring.script.workflows import AnyWorkflow
from holdfast.core.annotations import Unsupported, build, hints_of
from holdfast.core.compounds import Fields as Class
from holdfast.core.guards import is_dict
from holdfast.core.nodes import Items, Map, Misfit, Node
from holdfast.errors import DefinitionError, ExpressionFailed

__all__ = ["AppCatalog"]

_MANY = {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}

Served = AnyStep[..., Any] | AnyWorkflow[..., Any]


class AppCatalog(Mapping[str, Component]):
    """Components by name. `find` returns one, `names` all of their names."""

    def __init__(self, find: Callable[[str], Served | None], names: Callable[[], Sequence[str]]) -> None:
        self._find = find
        self._names = names

    def __getitem__(self, name: str) -> Component:
        found = self._find(name)
        if found is None:
            raise KeyError(name)
        return FlowComponent(found.definition) if isinstance(found, Flow) else PythonComponent(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())


class FlowComponent:
    """Another flow. Its arguments are its input, and it may have variables."""

    def __init__(self, definition: Definition) -> None:
        self.definition: Definition | None = definition
        self._flow = definition

    def misfits(self, given: Fields, variables: Fields) -> Iterator[tuple[Place, str]]:
        """Arguments that visibly do not match its schema, and variables that are unknown or missing."""
        flow = self._flow
        for place, problem in misfits_of(given, flow.input_schema, "input"):
            yield (("with", str(place[0])) if place else ("call",)), problem
        declared = {variable.name: variable for variable in flow.variables}
        for name, _ in variables.fields:
            if name not in declared:
                yield ("vars", name), f"flow {flow.name!r} has no variable {name!r}{did_you_mean(name, declared)}"
        for name in flow.to_be_given:
            if variables.get(name) is None:
                yield ("call",), f"flow {flow.name!r} needs variable {name!r}, which 'vars' does not have"

    def way_problem(self, path: Path, start: int) -> str:
        """Checks a path by the schema of its output."""
        return path_misfit(self._flow.output_schema, path, start)

    def gives(self, path: Path, start: int) -> frozenset[str]:
        """The kinds at a path, by the schema of its output."""
        return kinds_at(self._flow.output_schema, path, start)

    def takes(self, name: str) -> frozenset[str]:
        """The kinds of an argument, by the schema of its input."""
        schema = self._flow.input_schema
        properties: Any = schema.get("properties") if is_dict(schema) else None
        return kinds_of(properties.get(name)) if is_dict(properties) else frozenset()


class PythonComponent:
    """A step, or a workflow of another style."""

    definition: Definition | None = None

    def __init__(self, served: Served) -> None:
        self._served = served

    def misfits(self, given: Fields, variables: Fields) -> Iterator[tuple[Place, str]]:
        """Arguments that are unknown or missing, and constants of another type."""
        served = self._served
        if variables.fields:
            yield ("vars",), f"{served.name} is not a flow: only a flow has variables"
        parameters = served.spec.arguments.signature.parameters
        takes_any = any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values())
        names = [name for name, one in parameters.items() if one.kind is not Parameter.VAR_KEYWORD]
        hints = self._hints()
        for name, value in given.fields:
            if name in names:
                problem = _type_problem(hints.get(name, Any), value, f"{served.name}: {name}")
            else:
                listed = ", ".join(names)
                problem = "" if takes_any else f"{served.name}({listed}) takes no {name!r}{did_you_mean(name, names)}"
            if problem:
                yield ("with", name), problem
        for name, one in parameters.items():
            is_needed = one.default is Parameter.empty and one.kind not in {
                Parameter.VAR_POSITIONAL,
                Parameter.VAR_KEYWORD,
            }
            if is_needed and given.get(name) is None:
                yield ("call",), f"{served.name} needs {name!r}, which 'with' does not have"

    def way_problem(self, path: Path, start: int) -> str:
        return _way(self._result(), path, start)[1]

    def gives(self, path: Path, start: int) -> frozenset[str]:
        return _kinds(_way(self._result(), path, start)[0])

    def takes(self, name: str) -> frozenset[str]:
        annotation = self._hints().get(name, Any)
        try:
            return frozenset() if annotation is Any else _kinds(build(annotation))
        except Unsupported:  # is the component's own
            return frozenset()

    def _result(self) -> Node | None:
        try:
            return build(self._served.spec.result.annotation)
        except (DefinitionError, Unsupported):  # is the component's own
            return None

    def _hints(self) -> Mapping[str, Any]:
        try:
            function = getattr(self._served, "function", None)
            return {} if function is None else hints_of(function, "its")
        except Unsupported:
            return {}


def _kinds(node: Node | None) -> frozenset[str]:
    """The JSON kinds of a value of that type; a model decides for itself."""
    return frozenset() if node is None or "model" in node.kinds else node.kinds


def _way(node: Node | None, path: Path, start: int) -> tuple[Node | None, str]:
    """The type at the end of a path, if it is known; otherwise the place where the path asks for a field or an item
    that its type never has."""
    for place, part in enumerate(path.parts[start:], start):
        if node is None:
            return None, ""
        here = path_text(Path(path.root, path.parts[:place]))
        needed = "object" if isinstance(part, str) else "array"
        if node.kinds and needed not in node.kinds:
            return None, f"{path_text(path)}: {here} is {' or '.join(sorted(node.kinds))} by its type, not {needed}"
        match node:
            case Class(is_array=False, json_tag=None):
                fields = {field.key: field.node for field in node.fields}
                if part not in fields:
                    hint = did_you_mean(str(part), fields)
                    return None, f"{path_text(path)}: by its type {here} has no {part!r}{hint}"
                node = fields[str(part)]
            case Map():
                node = node.value
            case Items():
                node = node.item
            case _:
                return None, ""
    return node, ""


def _type_problem(annotation: Any, value: Expression, what: str) -> str:
    if not is_constant(value):
        return ""
    try:
        build(annotation).from_plain(evaluate(value, {}), "")
    except Misfit as misfit:
        return f"{what}{misfit.path}: {misfit.reason[0].lower()}{misfit.reason[1:]}"
    except (ExpressionFailed, Unsupported):  # is reported by itself, or is the component's own
        return ""
    return ""
