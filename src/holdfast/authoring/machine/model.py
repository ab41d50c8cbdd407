"""A machine, read from its handlers' annotations and checked completely: all problems are reported together, each with
file and line."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from holdfast.authoring.machine.handlers import Definition, Undo
from holdfast.authoring.machine.marks import Again, More
from holdfast.authoring.machine.observers import Audience
from holdfast.authoring.machine.shapes import States
from holdfast.core.annotations import Unsupported, hints_of
from holdfast.core.ids import check_name
from holdfast.core.payload import Shape
from holdfast.core.retry import Retry
from holdfast.errors import DefinitionError, HoldfastError

PARAMETERS = {"split": 2, "stepped": 2, "batch": 2, "stream": 2}
"""Number of parameters of a handler of each kind; 1 by default."""


@dataclass(slots=True, eq=False)
class Node:
    """One state."""

    label: str
    cls: type
    definition: Definition | None = None
    targets: tuple[type, ...] = ()
    cursor: Any = None
    was: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether the machine ends here."""
        return self.definition is None

    @property
    def task(self) -> str:
        """The name of its function; empty for splits and final states, which have none or several."""
        return "" if self.definition is None or self.definition.kind == "split" else self.definition.name

    @property
    def undo(self) -> Undo | None:
        return self.definition.undo if self.definition is not None else None


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a machine that apply to all its states."""

    timeout: timedelta | None = None
    compensation_timeout: timedelta | None = None
    retry: Retry | None = None
    raises: tuple[type[Exception], ...] = ()
    audience: Audience = field(default_factory=Audience)


@dataclass(slots=True, eq=False)
class Model:
    """A valid machine."""

    name: str
    version: str
    where: str
    first: tuple[type, ...]
    nodes: dict[type, Node]
    states: States
    options: Options
    by_label: dict[str, Node] = field(default_factory=dict[str, Node])
    plan: Any = None  # what a standalone run works out once

    def functions(self) -> list[Callable[..., Any]]:
        """Every function that the author gave it."""
        found: list[Callable[..., Any]] = []
        for node in self.nodes.values():
            definition = node.definition
            if definition is not None:
                more = (definition.load, definition.each, definition.source)
                undo = (definition.undo.function,) if definition.undo is not None else ()
                found += [definition.function, *undo, *definition.branches, *(x for x in more if x is not None)]
        return found

    def node_of(self, state: object) -> Node | None:
        """The node of a state; None for other classes."""
        return self.nodes.get(type(state))

    def node(self, label: str) -> Node | None:
        """The node with that label, current or earlier."""
        return self.by_label.get(label)


@dataclass(slots=True)
class _Read:
    """What a handler's annotations say."""

    state: type
    targets: tuple[type, ...]
    cursor: Any = None


class Reader:
    """Builds a model and collects its problems."""

    def __init__(
        self,
        name: str,
        version: str,
        where: str,
        generic: tuple[Any, Any] | None,
        definitions: Sequence[Definition],
        was: Mapping[str, type],
        options: Options,
    ) -> None:
        self._name, self._version, self._where = name, version, where
        self._generic = generic
        self._definitions = definitions
        self._was = dict(was)
        self._options = options
        self._problems: list[str] = []
        self._nodes: dict[type, Node] = {}
        self._named_at: dict[type, str] = {}

    def build(self) -> Model:
        """The model. Raises `DefinitionError` with everything that is wrong."""
        first, finals = self._ends()
        for definition in self._definitions:
            self._take(definition, finals)
        for cls in finals:
            self._nodes.setdefault(cls, self._new(cls, self._where))
        self._check_handled(first, finals)
        self._check_labels()
        self._check_storable()
        if not self._problems:
            self._check_paths(first, finals)
        if self._problems:
            count = len(self._problems)
            listed = "\n".join(f"  {problem}" for problem in self._problems)
            raise DefinitionError(f"machine {self._name}: {count} problem{'s' if count > 1 else ''}:\n{listed}")
        return self._model(first)

    def _model(self, first: tuple[type, ...]) -> Model:
        was = dict(self._was)
        for node in self._nodes.values():
            was |= dict.fromkeys(node.was, node.cls)
        for label, cls in was.items():
            node = self._nodes[cls]
            node.was = tuple(dict.fromkeys((*node.was, label)))
        states = States(self._name, {cls: node.label for cls, node in self._nodes.items()}, was)
        model = Model(self._name, self._version, self._where, first, self._nodes, states, self._options)
        model.by_label = {label: self._nodes[cls] for label, cls in was.items()}
        model.by_label |= {node.label: node for node in self._nodes.values()}
        return model

    # -- reading -------------------------------------------------------------------------------------------------------

    def _say(self, where: str, problem: str) -> None:
        self._problems.append(f"{where}: {problem}")

    def _new(self, cls: type, where: str) -> Node:
        self._named_at.setdefault(cls, where)
        return Node(cls.__name__, cls)

    def _ends(self) -> tuple[tuple[type, ...], tuple[type, ...]]:
        if self._generic is None:
            self._say(self._where, f'write its first and final states: Machine[First, Final]("{self._name}")')
            return (), ()
        found: list[tuple[type, ...]] = []
        for what, annotation in zip(("first", "final"), self._generic, strict=True):
            members = tuple(_members(annotation))
            wrong = [x for x in members if not isinstance(x, type)]
            if wrong:
                self._say(self._where, f"its {what} state is {wrong[0]!r}, which is not a class")
            found.append(tuple(x for x in members if isinstance(x, type)))
        return found[0], found[1]

    def _take(self, definition: Definition, finals: tuple[type, ...]) -> None:
        read = self._read(definition)
        if read is None:
            return
        node = self._nodes.get(read.state)
        if node is not None and node.definition is not None:
            earlier = node.definition.where
            self._say(definition.where, f"state {node.label} has a handler already, {earlier}")
            return
        if read.state in finals:
            self._say(definition.where, f"{read.state.__name__} is a final state: it has no handler")
            return
        node = node or self._new(read.state, definition.where)
        node.definition, node.targets, node.cursor = definition, read.targets, read.cursor
        node.was = (check_name(definition.was, "was="),) if definition.was else ()
        self._nodes[read.state] = node
        for target in read.targets:
            self._named_at.setdefault(target, definition.where)
        self._check_options(definition)
        if definition.undo is not None:
            self._check_undo(definition.undo, read)

    def _read(self, definition: Definition) -> _Read | None:
        where, wanted = definition.where, PARAMETERS.get(definition.kind, 1)
        parameters = list(inspect.signature(definition.function).parameters.values())
        if len(parameters) != wanted or any(x.kind is x.KEYWORD_ONLY for x in parameters):
            given = ", ".join(x.name for x in parameters)
            words = {"split": "(state, results)", "batch": "(state, outcomes)", "stepped": "(state, cursor)"}
            shape = words.get(definition.kind, "(state, window)" if wanted == 2 else "(state)")
            self._say(where, f"a handler of .{definition.kind} takes {shape}, not ({given})")
            return None
        try:
            hints = hints_of(definition.function, f"{definition.name}: its")
        except Unsupported as error:
            self._say(where, str(error))
            return None
        missing = [name for name in (parameters[0].name, "return") if name not in hints]
        if missing:
            which = "its return value" if missing[-1] == "return" else f"{missing[0]!r}"
            self._say(where, f"{definition.name} has no annotation of {which}: annotations define the machine")
            return None
        state = hints[parameters[0].name]
        if not isinstance(state, type):
            self._say(where, f"{definition.name} handles one state, not {state!r}")
            return None
        return self._targets(definition, state, hints, parameters)

    def _targets(
        self, definition: Definition, state: type, hints: dict[str, Any], parameters: list[inspect.Parameter]
    ) -> _Read | None:
        targets: list[type] = []
        cursor: Any = None
        for member in _members(hints["return"]):
            origin = typing.get_origin(member) or member
            if origin is More and definition.kind == "stepped":
                cursor = (typing.get_args(member) or (Any,))[0]
            elif (member is Again and definition.kind == "poll") or (
                member is type(None) and definition.kind == "stream"
            ):
                continue
            elif isinstance(member, type) and member is not type(None) and origin not in {More, Again, list}:
                targets.append(member)
            else:
                self._say(
                    definition.where,
                    f"{definition.name} returns {_shown(member)}, which is not a state of .{definition.kind}",
                )
                return None
        if definition.kind == "stream":
            cursor = _cursor_of_source(definition)
        return _Read(state, tuple(targets), cursor)

    # -- checking ------------------------------------------------------------------------------------------------------

    def _check_options(self, definition: Definition) -> None:
        where = definition.where
        if definition.kind == "split":
            problem = definition.join.problem(len(definition.branches))
            if problem:
                self._say(where, problem)
        if definition.bulkhead is not None and definition.bulkhead < 1:
            self._say(where, f"bulkhead={definition.bulkhead}: give at least 1")
        if definition.concurrency < 1:
            self._say(where, f"concurrency={definition.concurrency}: give at least 1")
        if definition.window < 1:
            self._say(where, f"window={definition.window}: give at least 1")
        if definition.kind == "script" and not definition.is_async:
            self._say(where, f"{definition.name}: a .script handler is an `async def`")

    def _check_undo(self, undo: Undo, read: _Read) -> None:
        parameters = list(inspect.signature(undo.function).parameters.values())
        if len(parameters) != 2:
            given = ", ".join(x.name for x in parameters)
            self._say(undo.where, f"an undo takes what its state returned, then what it was given, not ({given})")
            return
        try:
            hints = hints_of(undo.function, f"{undo.function.__name__}: its")
        except Unsupported as error:
            self._say(undo.where, str(error))
            return
        left = tuple(_members(hints.get(parameters[0].name, Any)))
        missing = [x.__name__ for x in read.targets if Any not in left and x not in left]
        if missing:
            self._say(undo.where, f"the undo of {read.state.__name__} must take {', '.join(missing)} as well")
        given = hints.get(parameters[1].name, Any)
        if given is not Any and given is not read.state:
            self._say(undo.where, f"the undo of {read.state.__name__} is given {_shown(given)} as its second argument")

    def _check_handled(self, first: tuple[type, ...], finals: tuple[type, ...]) -> None:
        handled = {cls for cls, node in self._nodes.items() if node.definition is not None}
        wanted: dict[type, str] = {}
        for node in list(self._nodes.values()):
            for target in node.targets:
                wanted.setdefault(target, node.definition.where if node.definition else self._where)
        for cls in first:
            wanted.setdefault(cls, self._where)
        for cls, where in wanted.items():
            if cls not in handled and cls not in finals:
                self._say(where, f"state {cls.__name__} has no handler and is not a final state")
                self._nodes.setdefault(cls, self._new(cls, where))
        for label, cls in self._was.items():
            if cls not in self._nodes:
                self._say(self._where, f"was={{{label!r}: {cls.__name__}}}: this machine has no state {cls.__name__}")

    def _check_labels(self) -> None:
        by_label: dict[str, type] = {}
        for cls, node in self._nodes.items():
            for label in (node.label, *node.was):
                other = by_label.setdefault(label, cls)
                if other is not cls:
                    said = f"{other.__module__}.{other.__qualname__} and {cls.__module__}.{cls.__qualname__}"
                    self._say(self._named_at.get(cls, self._where), f"two states are called {label}: {said}")
        for label, cls in self._was.items():
            other = by_label.setdefault(label, cls)
            if other is not cls:
                self._say(self._where, f"was= says {label} is {cls.__name__}, but {other.__name__} has that name")

    def _check_storable(self) -> None:
        for cls, node in self._nodes.items():
            try:
                Shape[Any](cls, what=f"state {node.label}").check()
            except HoldfastError as error:
                self._say(self._named_at.get(cls, self._where), str(error))

    def _check_paths(self, first: tuple[type, ...], finals: tuple[type, ...]) -> None:
        reached = _closure(first, {cls: node.targets for cls, node in self._nodes.items()})
        for cls, node in self._nodes.items():
            if cls not in reached:
                where = node.definition.where if node.definition else self._where
                self._say(where, f"state {node.label} is never reached from {' or '.join(x.__name__ for x in first)}")
        back: dict[type, tuple[type, ...]] = {}
        for cls, node in self._nodes.items():
            for target in node.targets:
                back[target] = (*back.get(target, ()), cls)
        ending = _closure(finals, back)
        for cls, node in self._nodes.items():
            if cls in reached and cls not in ending:
                where = node.definition.where if node.definition else self._where
                self._say(where, f"no path leads from state {node.label} to a final state")


def _closure(start: Sequence[type], edges: Mapping[type, tuple[type, ...]]) -> set[type]:
    found: set[type] = set()
    waiting = list(start)
    while waiting:
        cls = waiting.pop()
        if cls not in found:
            found.add(cls)
            waiting.extend(edges.get(cls, ()))
    return found


def _members(annotation: Any) -> Iterator[Any]:
    origin = typing.get_origin(annotation)
    if origin is typing.Union or origin is types.UnionType:
        for member in typing.get_args(annotation):
            yield from _members(member)
    else:
        yield type(None) if annotation is None else annotation


def _cursor_of_source(definition: Definition) -> Any:
    """The type of the cursor: that of the second parameter of a stream's source, without None."""
    assert definition.source is not None
    try:
        hints = hints_of(definition.source, "its")
    except Unsupported:
        return Any
    names = list(inspect.signature(definition.source).parameters)
    members = [x for x in _members(hints.get(names[1], Any) if len(names) > 1 else Any) if x is not type(None)]
    return members[0] if len(members) == 1 else Any


def _shown(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else repr(annotation)
