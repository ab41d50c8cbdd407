"""`batch`: a batch as a child of a run, and its results.

The inputs travel as blobs in the transaction that makes the child, so the parent's journal has one hash for all of
them. When the batch has completed, a step of the parent reads the results from the items' own runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Any, Concatenate, TypeVar, cast

import msgspec
from msgspec.structs import replace

from holdfast.authoring.batch.batch_inputs import Inputs, empty_plan, encoded_input
from holdfast.authoring.batch.batch_plan import Order, Plan, Standing, item_id
from holdfast.authoring.batch.conductor import batch_spec, conduct
from holdfast.authoring.script.calls import UNREADABLE, ChildCall, DurableCall
from holdfast.authoring.script.context import require_program
from holdfast.authoring.script.place import Place, authors_place, place
from holdfast.authoring.script.script_program import ScriptProgram
from holdfast.authoring.script.steps import AnyStep, step
from holdfast.authoring.script.verbs import in_step
from holdfast.authoring.script.workflows import CHILD_TIMEOUT, AnyWorkflow, Call
from holdfast.core.commands import Send, StartChild
from holdfast.core.definition import DefinitionBytes
from holdfast.core.ids import check_name, child_id
from holdfast.core.payload import MAX_PAYLOAD, Arguments
from holdfast.core.retry import Retry
from holdfast.core.specs import WorkflowSpec
from holdfast.errors import InvalidInput

T = TypeVar("T")
R = TypeVar("R")

IN_STEP = "Call it in the workflow, or start a batch of its own: app.start_batch(…)."
OUTSIDE = "Outside a run: app.start_batch(…)."

PAGE = 100
"""Items whose results are read together."""


@step(name="results", retry=Retry(10))
async def read_results(batch: str, total: int) -> list[Any]:
    """The results of a batch whose items have all completed, in the order of its inputs, as plain JSON values."""
    surroundings = in_step("batch()").surroundings
    found: list[Any] = []
    for start in range(0, total, PAGE):
        runs = [item_id(batch, index) for index in range(start, min(start + PAGE, total))]
        found += [msgspec.json.decode(value) for value in await surroundings.results(runs)]
    return found


async def batch(
    function: AnyWorkflow[Concatenate[T, ...], R] | AnyStep[Concatenate[T, ...], R],
    items: Iterable[T | Call[R]],
    *,
    concurrency: int = 50,
    order: Order = "depth",
    queue: str | None = None,
    name: str | None = None,
) -> list[R]:
    """Runs a workflow or step once for each item, as a batch that is a child of this run; results in the order of the
    items.

    Each item is a run of its own, on any worker. All of them together count once against this run's step limit, and
    leave a few rows in its journal. When all have ended and some have failed, `ItemsFailed` is raised. If an item takes
    several arguments, pass calls of the workflow. The batch is cancelled with this run, and when this call is.

    - `concurrency`: how many items are open at a time, at most 1,000
    - `order`: "breadth" runs the first step of every item before the second of any
    - `queue`: where the items wait for a worker. Default: this run's queue
    - `name`: the key, from which the id of the batch is derived. Default: the function's name and `.batch`
    """
    program = require_program("batch()", in_step=IN_STEP, outside=OUTSIDE)
    spec = _spec_of(function)
    like = empty_plan(spec, concurrency, order)
    key = program.take_key(check_name(name, "name=") if name is not None else f"{spec.name}.batch")
    inputs, blobs = _stored(program, spec, items)
    if not inputs.total:
        return []
    where = authors_place() or place(1)
    call = _child(program, where, key, inputs.plan(like), inputs, blobs, spec, queue)
    try:
        await call
    except asyncio.CancelledError:
        if program.cancel is None:  # else it is told already
            stop = program.take_key(f"cancel {call.command.run}")
            program.ask(Send(key=stop, to=call.command.run, kind="cancel", name="no longer awaited by its parent"))
        raise
    reads = read_results.options(key=f"{key} results")
    plain = await reads(call.command.run, inputs.total)
    results = [program.read(spec.result, msgspec.json.encode(value)) for value in plain]
    if any(result is UNREADABLE for result in results):
        await program.loop.outcome_future()
    return results


def _spec_of(function: object) -> WorkflowSpec:
    if isinstance(function, AnyStep):
        return cast("AnyStep[..., Any]", function).run_spec
    if isinstance(function, AnyWorkflow):
        return cast("AnyWorkflow[..., Any]", function).spec
    raise InvalidInput(f"batch() takes a workflow or step and its inputs, got {function!r:.80}")


def _stored(program: ScriptProgram, spec: WorkflowSpec, items: Iterable[Any]) -> tuple[Inputs, dict[str, bytes]]:
    """The inputs in chunks, and the blobs to store."""
    if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping):
        kind = type(cast("object", items)).__name__
        raise InvalidInput(f"batch() takes an iterable of inputs, one for each item, got {kind}")
    inputs, chunks = Inputs(), list[bytes]()
    for index, given in enumerate(items):
        chunk = inputs.add(index, encoded_input(spec, index, partial(_encoded, program, spec, given)))
        if chunk is not None:
            chunks.append(chunk)
    if (rest := inputs.rest()) is not None:
        chunks.append(rest)
    size = sum(map(len, chunks))
    if size > MAX_PAYLOAD:
        raise InvalidInput(
            f"batch(): its {inputs.total:,} inputs have {size:,} bytes; a turn may write {MAX_PAYLOAD:,}. Keep large "
            "data in blobs (put_blob) and give the references, or make several batches."
        )
    blobs: dict[str, bytes] = dict(zip(inputs.names, chunks, strict=True))
    if spec.definition:
        blobs[spec.code] = DefinitionBytes(spec.definition)
    return inputs, blobs


def _encoded(program: ScriptProgram, spec: WorkflowSpec, given: Any) -> tuple[WorkflowSpec, bytes]:
    if isinstance(given, DurableCall):
        given.close()
        raise InvalidInput(f"{given.key} is a call in this run; give the arguments of a step, not its call")
    if not isinstance(given, Call):
        return spec, spec.arguments.encode((given,), {})
    call: Call[Any] = given  # pyright: ignore[reportUnknownVariableType]
    if call.child is not None:  # it is a value here, not a child that was forgotten
        program.announced.pop(call.child.number, None)
    return call.spec, call.args


def _child(
    program: ScriptProgram,
    where: Place,
    key: str,
    plan: Plan,
    inputs: Inputs,
    blobs: dict[str, bytes],
    spec: WorkflowSpec,
    queue: str | None,
) -> ChildCall:
    command = StartChild(
        key=key,
        run=child_id(program.beginning.identity, key),
        workflow=_child_spec().name,
        version=_child_spec().version,
        args=_child_spec().arguments.encode((plan, Standing()), {}),
        queue=check_name(queue, "queue=") if queue is not None else "",
        on_cancel="cancel",
        attributes={"batch_of": spec.name[:1000]},
        brings={**blobs, plan.index: inputs.index()},
    )
    return ChildCall(program, where, _child_spec(), command, CHILD_TIMEOUT)


class _SameInputs(Arguments):
    """What makes two batches of a run the same to a replay: what is done to which inputs. The rest may be deployed
    anew while the run is open."""

    def decode(self, data: bytes | msgspec.Raw) -> tuple[tuple[Any, ...], dict[str, Any]]:
        (plan, *_), _named = super().decode(data)
        made = cast("Plan", plan)
        return (made.workflow, made.index, made.order), {}


@cache
def _child_spec() -> WorkflowSpec:
    spec = batch_spec()
    return replace(spec, arguments=_SameInputs(conduct, what=f"workflow {spec.name}"))
