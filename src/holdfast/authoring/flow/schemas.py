"""JSON Schema of a flow's input and output: what does not fit is refused, and every place is named.

The library is an extra, imported when a flow that has a schema is first used.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import DefinitionError, InvalidArguments, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.authoring.flow.model import Definition

SHOWN = 5
"""How many misfits one message names."""


def check_input(definition: Definition, value: Any) -> None:
    """`InvalidArguments` if the input does not fit the flow's schema."""
    found = misfits(definition.input_schema, value, "input")
    if found:
        raise InvalidArguments(f"flow {definition.name}: {'; '.join(found)}")


def check_output(definition: Definition, value: Any) -> None:
    """`InvalidInput` if the output does not fit the flow's schema."""
    found = misfits(definition.output_schema, value, "output")
    if found:
        raise InvalidInput("; ".join(found))


def misfits(schema: Any, value: Any, name: str) -> list[str]:
    """What does not fit, each with its path: `input.lines[0].sku: 5 is not of type "string"`."""
    if schema is None or schema is True:
        return []
    validator = _validator(msgspec.json.encode(schema, order="deterministic"))
    found: list[str] = []
    for error in validator.iter_errors(value):
        if len(found) == SHOWN:
            return [*found, "and more"]
        found.append(f"{name}{_path(error.instance_path)}: {error.message}")
    return found


def _path(parts: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


@functools.lru_cache(maxsize=128)
def _validator(schema: bytes) -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        raise DefinitionError(
            "this flow has a JSON Schema, and checking it needs a library that is not installed: "
            'pip install "holdfast[flows]"'
        ) from None
    try:
        return jsonschema_rs.validator_for(msgspec.json.decode(schema))
    except ValueError as error:
        raise DefinitionError(f"a flow's JSON Schema does not hold: {error}") from None
