"""What a flow is given and gives, against its schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidArguments, InvalidInput

if TYPE_CHECKING:
    from holdfast.authoring.flow.model import Definition


def check_input(definition: Definition, value: Any) -> None:
    """`InvalidArguments` if the input does not fit the flow's schema."""
    found = _misfits(definition.input_schema, value, "input")
    if found:
        raise InvalidArguments(f"flow {definition.name}: {'; '.join(found)}")


def check_output(definition: Definition, value: Any) -> None:
    """`InvalidInput` if the output does not fit the flow's schema."""
    found = _misfits(definition.output_schema, value, "output")
    if found:
        raise InvalidInput("; ".join(found))


def _misfits(schema: Any, value: Any, name: str) -> list[str]:
    if schema is None:
        return []
    from holdfast.authoring.flow.fitting import misfits

    return misfits(schema, value, name)
