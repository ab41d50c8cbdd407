"""Checks a flow's input and output against its schemas."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidArguments, InvalidInput

if TYPE_CHECKING:
    from holdfast.authoring.flow.flow_definition import Definition


def check_input(definition: Definition, value: Any) -> None:
    """Raises `InvalidArguments` if the input does not match the flow's schema."""
    found = _misfits(definition.input_schema, value, "input")
    if found:
        raise InvalidArguments(f"flow {definition.name}: {'; '.join(found)}")


def check_output(definition: Definition, value: Any) -> None:
    """Raises `InvalidInput` if the output does not match the flow's schema."""
    found = _misfits(definition.output_schema, value, "output")
    if found:
        raise InvalidInput("; ".join(found))


def can_check(schemas: Iterable[Any]) -> bool:
    """Whether there are no schemas, or the library that checks them is installed."""
    return all(schema is None or schema is True for schema in schemas) or find_spec("jsonschema_rs") is not None


def _misfits(schema: Any, value: Any, name: str) -> list[str]:
    if schema is None:
        return []
    from holdfast.authoring.flow.schema_fit import misfits

    return misfits(schema, value, name)
