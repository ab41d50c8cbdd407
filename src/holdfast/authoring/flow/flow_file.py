"""`load_flow`: a flow from a file, as a workflow."""

from __future__ import annotations

from os import PathLike
from typing import Any, TypeVar, overload

from holdfast.authoring.flow.loader import check_file
from holdfast.authoring.flow.workflow import Flow

__all__ = ["load_flow"]

I = TypeVar("I")  # noqa: E741 its input
O = TypeVar("O")  # noqa: E741 its output


@overload
def load_flow(path: str | PathLike[str]) -> Flow[Any, Any]: ...
@overload
def load_flow(path: str | PathLike[str], *, input: type[I]) -> Flow[I, Any]: ...
@overload
def load_flow(path: str | PathLike[str], *, output: type[O]) -> Flow[Any, O]: ...
@overload
def load_flow(path: str | PathLike[str], *, input: type[I], output: type[O]) -> Flow[I, O]: ...
def load_flow(path: str | PathLike[str], *, input: Any = Any, output: Any = Any) -> Flow[Any, Any]:
    """The flow of a YAML or JSON file, checked completely. Raises `InvalidFlow` with every problem, each with line and
    column.

    `input` and `output` are the types that callers use: a dataclass, a model, or anything else that workflows take as
    arguments. Without them both are plain JSON values. The file is read once, now; later changes to it have no effect.
    """
    definition = check_file(path).required()
    return Flow(definition, where=str(path), takes=input, gives=output)
