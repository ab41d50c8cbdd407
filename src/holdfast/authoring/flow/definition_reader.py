"""From nodes to a definition: checks each key by itself and collects all problems.

The table of `keys` says what a mapping may hold; combinations are checked here. A file with problems still gives a
definition, as far as it can be read, so that `checking` can find the rest.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from holdfast.authoring.flow.expressions import MAX_DEPTH, Expression, Fields, Items, Value
from holdfast.authoring.flow.flow_definition import (
    NOTHING,
    NULL,
    Action,
    Approve,
    Definition,
    Each,
    FlowStep,
    Invoke,
    Sleep,
    Variable,
    Wait,
)
from holdfast.authoring.flow.format_table import ACTIONS, FLOW, FORMAT, TABLES, Choice, Key, Kind, Named, Nested, Table
from holdfast.authoring.flow.located import Mark, Node, to_plain
from holdfast.authoring.flow.parser import parse_text
from holdfast.core.durations import parse_duration
from holdfast.core.guards import is_dict, is_list
from holdfast.core.ids import check_name
from holdfast.core.retry import DEFAULT_ATTEMPTS, Retry
from holdfast.errors import InvalidDuration, InvalidExpression, InvalidId, InvalidRetry, Problem

__all__ = ["Reader", "did_you_mean"]

MAX_ESCALATIONS: Final = 10


class Reader:
    """Reads one file. `problems` collects what is wrong."""

    def __init__(self, where: str = "") -> None:
        self.where = where
        self.problems: list[Problem] = []

    def say(self, mark: Mark, message: str, *, is_warning: bool = False) -> None:
        """Notes a problem at that place."""
        self.problems.append(Problem(message, self.where, mark.line, mark.column, is_warning))

    def definition(self, root: Node) -> Definition | None:
        """The flow; None if the file is not even a mapping."""
        if not is_dict(root.value):
            self.say(root.mark, f"a flow is a mapping that begins with `holdfast: {FORMAT}`, not {root.shown()}")
            return None
        found = self._table(root, FLOW, "the flow")
        steps: dict[str, Any] = found.get("steps", {})
        variables: dict[str, Any] = found.get("vars", {})
        return Definition(
            name=found.get("name", ""),
            steps=tuple(self._step(name, root.value["steps"].value[name], keys) for name, keys in steps.items()),
            output=found.get("output", NULL),
            version=found.get("version", ""),
            description=found.get("description", ""),
            saga=found.get("saga", False),
            input_schema=found.get("input"),
            output_schema=found.get("output_schema"),
            variables=tuple(self._variable(name, keys) for name, keys in variables.items()),
            metadata=found.get("metadata"),
        )

    # -- what belongs together -----------------------------------------------------------------------------------------

    def _variable(self, name: str, found: dict[str, Any]) -> Variable:
        return Variable(
            name,
            default=found.get("default"),
            has_default="default" in found,
            secret=found.get("secret", False),
            description=found.get("description", ""),
        )

    def _step(self, name: str, node: Node, found: dict[str, Any]) -> FlowStep:
        does = self._action(node, found)
        each = found.get("each")
        return FlowStep(
            name=name,
            does=does,
            when=found.get("if"),
            otherwise=found.get("else"),
            needs=tuple(found.get("needs", ())),
            each=None if each is None else Each(each.get("in", NULL), each.get("limit")),
            retry=found.get("retry"),
            timeout=found.get("timeout"),
            fallback=self._fallback(found.get("on_error")),
            always=found.get("always", False),
            description=found.get("description", ""),
            metadata=found.get("metadata"),
        )

    def _action(self, node: Node, found: dict[str, Any]) -> Action:
        said = [key for key in ACTIONS if key in node.value]
        if len(said) > 1:
            listed = " and ".join(repr(key) for key in said)
            self.say(node.value[said[1]].key, f"a step does one thing, but this one has {listed}: split it")
        elif not said:
            self.say(node.mark, f"a step does something: add {', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}")
        match said[:1]:
            case ["wait"]:
                return self._wait(found.get("wait", {}))
            case ["sleep"]:
                return self._sleep(node.value["sleep"], found.get("sleep", NULL))
            case ["approve"]:
                return self._approve(node.value["approve"], found.get("approve", {}))
            case _:
                return Invoke(found.get("call", ""), self._given(node, found, "with"), self._given(node, found, "vars"))

    def _given(self, node: Node, found: dict[str, Any], key: str) -> Fields:
        given: Expression = found.get(key, NOTHING)
        if isinstance(given, Fields):
            return given
        what = "the arguments" if key == "with" else "variables"
        self.say(node.value[key].mark, f"{key!r} has {what} by name: {key}: {{id: ${{input.id}}}}")
        return NOTHING

    def _wait(self, found: dict[str, Any]) -> Wait:
        return Wait(found.get("signal", ""), found.get("timeout"), found.get("default"))

    def _sleep(self, node: Node, duration: Expression) -> Sleep:
        if isinstance(duration, (Value, Fields, Items)):
            value = duration.value if isinstance(duration, Value) else None
            self._duration(Node(value, node.mark, node.key), "sleep")
        return Sleep(duration)

    def _approve(self, node: Node, found: dict[str, Any], depth: int = 0) -> Approve:
        then: Any = found.get("then", "deny")
        if is_dict(then):
            inner = node.value["then"].value.get("escalate")
            if depth == MAX_ESCALATIONS:
                self.say(inner.mark, f"more than {MAX_ESCALATIONS} escalations")
                then = "deny"
            else:
                then = self._approve(inner, then.get("escalate", {}), depth + 1) if "escalate" in then else "deny"
        return Approve(found.get("by", NULL), found.get("when"), found.get("why"), found.get("timeout"), then)

    def _fallback(self, on_error: Any) -> Expression | None:
        if not is_dict(on_error):
            return None
        value: Expression = on_error.get("value", NULL)
        return value

    # -- tables --------------------------------------------------------------------------------------------------------

    def _table(self, node: Node, table: Table, what: str) -> dict[str, Any]:
        """The values of a mapping by key, without those that are wrong."""
        if not is_dict(node.value):
            listed = ", ".join(key.name for key in table.keys)
            self.say(node.mark, f"{what} is a mapping with {listed}, not {node.shown()}")
            return {}
        known = {key.name: key for key in table.keys}
        found: dict[str, Any] = {}
        for name, each in node.value.items():
            key = known.get(name)
            if key is None:
                self.say(each.key, f"{table.name} has no key {name!r}{did_you_mean(name, known)}")
                continue
            value = self._read(each, key.kind, name)
            if value is not _WRONG:
                found[name] = value
        for key in table.keys:
            if key.required and key.name not in node.value:
                self.say(node.mark, f"{what} needs {key.name!r}: {_lowered(key)}")
        for name, other in table.needs:
            if name in node.value and other not in node.value:
                self.say(node.value[name].key, f"{name!r} needs {other!r} beside it")
        return found

    def _read(self, node: Node, kind: Kind, name: str) -> Any:
        match kind:
            case Nested(table):
                return self._table(node, TABLES[table], repr(name))
            case Named(table):
                return self._named(node, TABLES[table], name)
            case Choice():
                return self._choice(node, kind, name)
            case "value":
                return self._value(node, 0)
            case "condition":
                return self._condition(node, name)
            case "json" | "schema":
                return self._json(node, name, is_schema=kind == "schema")
            case "names":
                return self._names(node, name)
            case "duration":
                return self._duration(node, name)
            case _:
                return self._scalar(node, kind, name)

    def _named(self, node: Node, table: Table, name: str) -> Any:
        if not is_dict(node.value):
            self.say(node.mark, f"{name!r} is a mapping from names to {table.name.split()[-1]}s, not {node.shown()}")
            return _WRONG
        found: dict[str, Any] = {}
        for key, each in node.value.items():
            try:
                check_name(key, f"the name of {table.name}")
            except InvalidId as error:
                self.say(each.key, str(error))
            found[key] = self._table(each, table, f"{table.name} ({key})")
        if table.name == "a step":  # what is not even a mapping is no step, and was said
            return {key: each for key, each in found.items() if is_dict(node.value[key].value)}
        return found

    def _choice(self, node: Node, kind: Choice, name: str) -> Any:
        if is_dict(node.value):
            found = self._table(node, TABLES[kind.table], repr(name))
            return self._retry(node, found) if kind.table == "retry" else found
        if kind.counts and isinstance(node.value, int) and not isinstance(node.value, bool) and node.value > 0:
            return Retry(node.value)
        if node.value in kind.words and isinstance(node.value, str):
            return node.value
        options = [*kind.words, *(["a number of tries"] if kind.counts else []), f"{{{_first(TABLES[kind.table])}: …}}"]
        hint = did_you_mean(node.value, kind.words) if isinstance(node.value, str) else ""
        self.say(node.mark, f"{name!r} is {' or '.join(options)}, not {node.shown()}{hint}")
        return _WRONG

    def _retry(self, node: Node, found: dict[str, Any]) -> Any:
        unlimited, attempts = found.pop("unlimited", False), found.pop("attempts", None)
        if unlimited and attempts is not None:
            self.say(node.value["unlimited"].key, "'unlimited' and 'attempts' contradict each other: keep one")
        try:
            return Retry(None if unlimited else DEFAULT_ATTEMPTS if attempts is None else attempts, **found)
        except InvalidRetry as error:
            self.say(node.mark, str(error).removeprefix("Retry: "))
            return _WRONG

    # -- values --------------------------------------------------------------------------------------------------------

    def _value(self, node: Node, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            self.say(node.mark, f"more than {MAX_DEPTH} levels")
            return NULL
        if is_dict(node.value):
            return Fields(tuple((key, self._value(each, depth + 1)) for key, each in node.value.items()))
        if is_list(node.value):
            return Items(tuple(self._value(each, depth + 1) for each in node.value))
        if not isinstance(node.value, str):
            return Value(node.value)
        try:
            return parse_text(node.value, depth)
        except InvalidExpression as error:
            self.say(node.at(error.offset), f"in {node.shown()}: {error}")
            return NULL

    def _condition(self, node: Node, name: str) -> Any:
        value = self._value(node, 0)
        if isinstance(node.value, str) and "${" not in node.value:
            self.say(node.mark, f"{name!r} is a condition: write ${{{node.value.strip()[:100]}}}")
            return _WRONG
        if not isinstance(node.value, (bool, str)):
            self.say(node.mark, f"{name!r} is a condition such as ${{input.cents > 100}}, not {node.shown()}")
            return _WRONG
        return value

    def _json(self, node: Node, name: str, *, is_schema: bool) -> Any:
        if is_schema and not is_dict(node.value) and not isinstance(node.value, bool):
            self.say(node.mark, f"{name!r} is a JSON Schema: a mapping such as {{type: object}}, not {node.shown()}")
            return _WRONG
        return to_plain(node)

    def _names(self, node: Node, name: str) -> Any:
        if is_list(node.value) and all(isinstance(each.value, str) for each in node.value):
            return [each.value for each in node.value]
        self.say(node.mark, f"{name!r} is a list of names: [price, tax]")
        return _WRONG

    def _duration(self, node: Node, name: str) -> Any:
        if isinstance(node.value, (str, int, float)):
            try:
                found: timedelta = parse_duration(node.value, what=repr(name))
            except InvalidDuration as error:
                self.say(node.mark, str(error))
            else:
                return found
        else:
            self.say(node.mark, f"{name!r} is a duration such as 30s, 1h30m or 3d, not {node.shown()}")
        return _WRONG

    def _scalar(self, node: Node, kind: str, name: str) -> Any:
        value = node.value
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        match kind:
            case "format":
                fits, wanted = is_number and value == FORMAT, f"the number of the format: {FORMAT}"
            case "flag":
                fits, wanted = isinstance(value, bool), "true or false"
            case "count":
                fits, wanted = is_number and isinstance(value, int) and value >= 1, "a whole number of at least 1"
            case "number":
                fits, wanted = is_number, "a number"
            case "name":
                return self._name(node, name)
            case _:
                if is_number and isinstance(value, int):  # version: 2
                    return str(value)
                fits, wanted = isinstance(value, str), "text"
        if fits:
            return value
        self.say(node.mark, f"{name!r} is {wanted}, not {node.shown()}")
        return _WRONG

    def _name(self, node: Node, name: str) -> Any:
        if not isinstance(node.value, str):
            self.say(node.mark, f"{name!r} is text, not {node.shown()}")
            return _WRONG
        if "${" in node.value:
            self.say(node.mark, f"{name!r} is a name, known before anything runs: it cannot be an expression")
            return _WRONG
        try:
            return check_name(node.value, repr(name))
        except InvalidId as error:
            self.say(node.mark, str(error))
            return _WRONG


_WRONG: Final[Any] = object()


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint, if a known name is spelt similarly."""
    close = difflib.get_close_matches(name[:100], list(known), 1)
    return f": did you mean {close[0]!r}?" if close else ""


def _first(table: Table) -> str:
    return table.keys[0].name


def _lowered(key: Key) -> str:
    return key.about[0].lower() + key.about[1:].rstrip(".")
