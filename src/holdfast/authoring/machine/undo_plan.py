"""The workflow that finishes a rollback by hand: `holdfast compensate RUN`.

An ended run takes no further events, so a separate run undoes what is left. It gets the completed visits from the old
journal and undoes them one after the other, each durably.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.authoring.machine.model import Model
from holdfast.authoring.machine.state_steps import StateSteps
from holdfast.authoring.script.context import require_program
from holdfast.core.payload import Arguments, Shape
from holdfast.core.retry import Retry
from holdfast.core.specs import WorkflowSpec
from holdfast.errors import CompensationFailed, StepFailed

if TYPE_CHECKING:
    from holdfast.authoring.script.resources import Resource

SUFFIX = " compensation"


class Left(msgspec.Struct, frozen=True):
    """A completed visit that was not undone, as the journal holds it."""

    key: str
    state: str
    args: str
    result: str


def undo_key(key: str) -> str:
    """The key of the step that undoes a visit, in the run that finishes a rollback."""
    return f"undo {key}"


def compensation_spec(model: Model, resources: Sequence[Resource[Any]]) -> WorkflowSpec:
    """The workflow, served with its machine."""
    what = f"compensation of machine {model.name}"
    steps = {node.label: StateSteps(model, node) for node in model.nodes.values() if node.undo is not None}

    async def compensate(run: str, left: list[Left]) -> list[str]:
        program = require_program(what)
        undone: list[str] = []
        failures: list[str] = []
        for one in reversed(left):
            node = model.node(one.state)
            found = steps.get(node.label) if node is not None else None
            undo: Any = found.body.undo_step if found is not None else None
            if found is None or undo is None:
                failures.append(f"{one.key}: state {one.state} has no undo in this machine")
                continue
            (state,), _ = found.body.spec.arguments.decode(one.args.encode())
            result = found.body.spec.result.decode(one.result.encode())
            try:
                await undo.asked(program, undo_key(one.key), result, state)
            except StepFailed as error:
                failures.append(f"{one.key}: {error}")
            else:
                undone.append(one.key)
        if failures:
            raise CompensationFailed("\n".join(failures), failures=failures)
        return undone

    return WorkflowSpec(
        name=f"{model.name}{SUFFIX}",
        version=model.version,
        function=compensate,
        is_async=True,
        arguments=Arguments(compensate, what=what),
        result=Shape(list[str], what=what),
        retry=Retry.none,
        where=model.where,
        is_internal=True,
        bodies=(*model.functions(), *(one.function for one in resources)),
    )
