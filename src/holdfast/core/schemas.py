"""JSON Schema of annotations: what stored arguments and results look like, for people and programs that do not read
Python.

The schema describes exactly what `core.codec` writes and accepts: a union that is stored under tags is described with
its tags. Classes are in `$defs`, once each, so types may contain themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from holdfast.core.annotations import build
from holdfast.core.compounds import Fields, Model, Union
from holdfast.core.guards import is_dict, is_list
from holdfast.core.models import encode_hook
from holdfast.core.nodes import Choice, Items, Map, Node, Pairs, Scalar

JsonSchema: TypeAlias = dict[str, Any]


def schema_of(annotation: Any, *, is_call: bool = False) -> JsonSchema:
    """The schema of an annotation. Raises `Unsupported` if it cannot be stored. The schema of a call is an object by
    parameter name, not a named class."""
    root = build(annotation)
    writer = _Writer()
    written = writer.fields(root) if is_call and isinstance(root, Fields) else writer.of(root)
    return {**written, "$defs": writer.defs} if writer.defs else written


def under_tag(tag: str, schema: JsonSchema) -> JsonSchema:
    """The schema of what is stored as `{tag: …}`."""
    return {"type": "object", "properties": {tag: schema}, "required": [tag], "additionalProperties": False}


def joined(parts: Iterable[JsonSchema]) -> tuple[list[JsonSchema], JsonSchema]:
    """Several schemas for use in one, with all their definitions. Classes with the same name stay distinct."""
    defs: JsonSchema = {}
    found: list[JsonSchema] = []
    for part in parts:
        own = part.get("$defs", {})
        names = {name: name if defs.get(name, body) == body else _free(name, defs) for name, body in own.items()}
        defs |= {names[name]: _renamed(body, names) for name, body in own.items()}
        found.append(_renamed({key: value for key, value in part.items() if key != "$defs"}, names))
    return found, defs


class _Writer:
    """Writes one schema. Remembers the classes that are in `$defs`."""

    def __init__(self) -> None:
        self.defs: dict[str, JsonSchema] = {}
        self._names: dict[int, str] = {}

    def of(self, node: Node) -> JsonSchema:
        match node:
            case Scalar():
                return _scalar(node.annotation)
            case Choice():
                return {"enum": node.names}
            case Items():
                unique: JsonSchema = {"uniqueItems": True} if node.is_set else {}
                return {"type": "array", "items": self.of(node.item), **unique}
            case Pairs():
                count = len(node.items)
                items = {"prefixItems": [self.of(each) for each in node.items]} if count else {}
                return {"type": "array", **items, "minItems": count, "maxItems": count}
            case Map():
                return {"type": "object", "additionalProperties": self.of(node.value)}
            case Fields():
                return self._named(node)
            case Model():
                return self._model(node)
            case Union():
                return self._union(node)
            case _:
                return {}

    def _union(self, node: Union) -> JsonSchema:
        members: list[JsonSchema] = [
            self.of(member) if tag is None else under_tag(tag, self.of(member)) for tag, member in node.tagged()
        ]
        return {"anyOf": [*members, {"type": "null"}] if node.is_optional else members}

    def _named(self, node: Fields) -> JsonSchema:
        name = self._names.get(id(node))
        if name is None:
            name = self._names[id(node)] = _free(node.cls.__name__, self.defs)
            self.defs[name] = {}  # its place, taken: it may contain itself
            self.defs[name] = self.fields(node)
        return {"$ref": f"#/$defs/{name}"}

    def fields(self, node: Fields) -> JsonSchema:
        """The parts of a class."""
        if node.is_array:
            needed = sum(field.default is None for field in node.fields)
            return {
                "type": "array",
                "prefixItems": [self.of(field.node) for field in node.fields],
                "minItems": needed,
            }
        properties = {field.key: self._property(field.node, field.default) for field in node.fields}
        required = [field.key for field in node.fields if field.default is None and field.key not in node.optional]
        schema: JsonSchema = {"type": "object", "properties": properties}
        if node.json_tag is not None:
            tag_field = node.cls.__struct_config__.tag_field
            schema["properties"] = {tag_field: {"enum": [node.json_tag]}, **properties}
            required.insert(0, tag_field)
        if required:
            schema["required"] = required
        if node.refuses_unknown:
            schema["additionalProperties"] = False
        return schema

    def _property(self, node: Node, default: Any) -> JsonSchema:
        schema = self.of(node)
        if default is None:
            return schema
        try:
            value = (
                node.to_plain(default())
                if not node.is_direct
                else msgspec.to_builtins(default(), str_keys=True, enc_hook=encode_hook)
            )
        except Exception:  # noqa: BLE001 a default of the author's that cannot be stored: it is optional, no more is said
            return schema
        return {**schema, "default": value}

    def _model(self, node: Model) -> JsonSchema:
        schema: JsonSchema = node.annotation.model_json_schema()
        self.defs.update(schema.pop("$defs", {}))
        return schema


def _scalar(annotation: Any) -> JsonSchema:
    schema = msgspec.json.schema(annotation)
    if "$ref" in schema:  # an enum
        [schema] = schema["$defs"].values()
        schema.pop("title", None)
    return schema


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    if all(old == new for old, new in names.items()):
        return schema
    if is_list(schema):
        return [_renamed(each, names) for each in schema]
    if not is_dict(schema):
        return schema
    found: JsonSchema = {key: _renamed(value, names) for key, value in schema.items()}
    target = found.get("$ref")
    if isinstance(target, str) and (name := target.removeprefix("#/$defs/")) in names:
        found["$ref"] = f"#/$defs/{names[name]}"
    return found


def _free(name: str, taken: Iterable[str]) -> str:
    number = 1
    free = name
    while free in taken:
        number += 1
        free = f"{name}{number}"
    return free
