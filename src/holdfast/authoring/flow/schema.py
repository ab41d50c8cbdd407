"""The JSON Schema of flow files, generated from the table of their keys, so that editors complete and check them."""

from __future__ import annotations

from typing import Any, Final

from holdfast.authoring.flow.format_table import (
    ACTIONS,
    FLOW,
    FORMAT,
    STEP,
    TABLES,
    Choice,
    Key,
    Kind,
    Named,
    Nested,
    Table,
)

__all__ = ["flow_schema"]

_NAME: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 255}
_DURATION: Final[dict[str, Any]] = {
    "anyOf": [
        {
            "type": "string",
            "pattern": r"^\s*((\d+(\.\d+)?|\.\d+)\s*[A-Za-z]+\s*)+$",
            "examples": ["30s", "1h30m", "3d"],
        },
        {"type": "number", "minimum": 0},
    ]
}
_PLAIN: Final[dict[str, dict[str, Any]]] = {
    "format": {"const": FORMAT},
    "text": {"type": ["string", "integer"]},
    "name": _NAME,
    "names": {"type": "array", "items": _NAME},
    "flag": {"type": "boolean"},
    "count": {"type": "integer", "minimum": 1},
    "number": {"type": "number"},
    "duration": _DURATION,
    "value": {},
    "condition": {"anyOf": [{"type": "string", "pattern": r"\$\{"}, {"type": "boolean"}]},
    "json": {},
    "schema": {"type": ["object", "boolean"]},
}


def flow_schema() -> dict[str, Any]:
    """The schema, of draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Holdfast flow",
        **_object(FLOW),
        "$defs": {name: _object(table) for name, table in TABLES.items()},
    }


def _object(table: Table) -> dict[str, Any]:
    made: dict[str, Any] = {
        "description": table.about,
        "type": "object",
        "properties": {key.name: _key(key) for key in table.keys},
        "additionalProperties": False,
    }
    required = [key.name for key in table.keys if key.required]
    if required:
        made["required"] = required
    if table is STEP:
        made["oneOf"] = [{"required": [action]} for action in ACTIONS]
    if table.needs:
        made["dependentRequired"] = {key: [other] for key, other in table.needs}
    return made


def _key(key: Key) -> dict[str, Any]:
    return {"description": key.about, **_kind(key.kind, key.name)}


def _kind(kind: Kind, name: str) -> dict[str, Any]:
    match kind:
        case Nested(table):
            return {"$ref": f"#/$defs/{table}"}
        case Named(table):
            return {"type": "object", "propertyNames": _NAME, "additionalProperties": {"$ref": f"#/$defs/{table}"}}
        case Choice(words, table, counts):
            options: list[dict[str, Any]] = [{"$ref": f"#/$defs/{table}"}]
            if words:
                options.append({"enum": list(words)})
            if counts:
                options.append({"type": "integer", "minimum": 1})
            return {"anyOf": options}
        case _:
            return {"type": "object"} if name == "with" else dict(_PLAIN[kind])
