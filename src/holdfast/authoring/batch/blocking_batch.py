"""`batch` in a `def` workflow: the async one, handed to the run's own loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Concatenate, TypeVar

from holdfast.authoring.batch import child_batch
from holdfast.authoring.batch.batch_plan import Order
from holdfast.authoring.script.bridge import block_on
from holdfast.authoring.script.context import require_program
from holdfast.authoring.script.steps import AnyStep
from holdfast.authoring.script.workflows import AnyWorkflow, Call

T = TypeVar("T")
R = TypeVar("R")


def batch(
    function: AnyWorkflow[Concatenate[T, ...], R] | AnyStep[Concatenate[T, ...], R],
    items: Iterable[T | Call[R]],
    *,
    concurrency: int = 50,
    order: Order = "depth",
    queue: str | None = None,
    name: str | None = None,
) -> list[R]:
    """Runs a workflow or step once for each item, as a batch that is a child of this run; results in the order of the
    items. The options are those of `holdfast.batch`."""
    require_program("batch()", in_step=child_batch.IN_STEP, outside=child_batch.OUTSIDE)
    made = child_batch.batch(function, items, concurrency=concurrency, order=order, queue=queue, name=name)
    return block_on(made, "batch()")
