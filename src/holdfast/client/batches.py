"""Starting batches, and `Batch`: one as its client sees it.

Inputs are read one by one and written in chunks. The run is made when all of them have been read and checked, and only
if every chunk still exists. Nothing refers to the chunks of inputs that were refused, so they are collected like any
unused blob.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from msgspec.structs import replace

from holdfast.authoring.batch.batch_inputs import Inputs, checked_concurrency, empty_plan, encoded_input
from holdfast.authoring.batch.batch_plan import (
    COUNTS,
    MAX_ID,
    NAME,
    PLANS,
    Counts,
    Order,
    Plan,
    Standing,
)
from holdfast.authoring.batch.conductor import ITEMS, PLAN, batch_spec
from holdfast.authoring.script.place import place
from holdfast.authoring.script.steps import AnyStep, Step, SyncStep
from holdfast.authoring.script.workflows import AnyWorkflow, Call, SyncWorkflow
from holdfast.client.client_run import ClientRun
from holdfast.client.items import Item, Items
from holdfast.client.start_options import DEFAULT, IfExists, StartOptions
from holdfast.core import events as e
from holdfast.core.definition import DefinitionBytes
from holdfast.core.durations import Duration
from holdfast.core.ids import check_id
from holdfast.core.specs import WorkflowSpec
from holdfast.core.status import Status
from holdfast.core.turn import decode_row
from holdfast.errors import Conflict, InvalidInput, RunNotFound
from holdfast.turn.payloads import inline

if TYPE_CHECKING:
    from holdfast.client.client import Client

R = TypeVar("R")


class Batch(Generic[R]):
    """A handle on a batch, from `app.start_batch` or `app.batch`. Reading needs no worker."""

    def __init__(self, client: Client, id: str, spec: WorkflowSpec | None, plan: Plan) -> None:
        self.id: str = id
        self.workflow: str = plan.workflow
        self._client = client
        self._plan = plan
        self._spec = spec
        self._run: ClientRun[Counts] = ClientRun(client, id, batch_spec())
        self._items: Items[R] = Items(client, id, spec, plan)

    def __repr__(self) -> str:
        return f"<Batch {self.id} of {self._plan.total} {self.workflow}>"

    async def status(self) -> Status:
        """The status of the whole batch: failed if any item failed, once all have ended."""
        return await self._run.status()

    async def counts(self) -> Counts:
        """How many items are completed, failed, cancelled, running and pending. Reads one value."""
        found = await self._client.store.exposed(self.id, ITEMS)
        return COUNTS.decode(found[0]) if found is not None else Counts(self._plan.total)

    async def wait(self, timeout: Duration | None = None) -> Status | None:
        """Waits for the end of the batch and returns how it ended; None if the time runs out first."""
        return await self._run.wait(timeout)

    async def result(self, timeout: Duration | None = None) -> Counts:
        """Waits for the end and returns the counts, or raises `ItemsFailed`, `RunCancelled` or `ResultTimeout`."""
        return await self._run.result(timeout)

    def items(self, *, order: Literal["index", "completion"] = "index") -> AsyncIterator[Item[R]]:
        """Every item once, as soon as it has ended, until all have: by index, or in the order in which they ended.

        Items are read on demand, never all at once. Items that never started, because the batch was cancelled, come
        last as cancelled.
        """
        if order not in {"index", "completion"}:
            raise InvalidInput(f"items(order={order!r}): use 'index' or 'completion'")
        return self._items.by_index() if order == "index" else self._items.by_completion()

    async def item(self, index: int) -> Item[R]:
        """One item as it is now. Raises `InvalidInput` if there is no such index."""
        return await self._items.one(index)

    @property
    def plan(self) -> Plan:
        """The plan that it was started with."""
        return self._plan

    def standing(self, *, after: int = -1) -> AsyncIterator[Item[R]]:
        """Every item after that index as it is now, whether or not it has ended."""
        return self._items.standing(after)

    async def cancel(self, reason: str = "") -> None:
        """Stops the rest: ended items stay as they are, running items are cancelled, others never start."""
        await self._run.cancel(reason)

    async def pause(self, reason: str = "") -> None:
        """Starts no further items until it is resumed; running items continue."""
        await self._run.pause(reason)

    async def resume(self) -> None:
        """Resumes a paused batch."""
        await self._run.resume()

    async def retry(self, *, id: str | None = None, concurrency: int | None = None) -> Batch[R]:
        """Starts a new batch of the items that did not complete: failed, cancelled, or never started.

        They keep their indexes and inputs and restart. Raises `Conflict` while this batch is running.
        """
        status = await self.status()
        if not status.is_terminal:
            raise Conflict(f"batch {self.id} is {status.value}: wait for its end, or cancel the rest, before a retry")
        chosen = id if id is not None else f"{self.id}~retry"
        writer = _Writer(self._client)
        async for index, args in self._items.unfinished():
            await writer.add(index, args)
        await writer.end()
        like = replace(self._plan, concurrency=checked_concurrency(concurrency or self._plan.concurrency))
        plan = writer.inputs.plan(like, self.id)
        return await _start(self._client, self._spec, plan, writer.inputs, StartOptions(id=chosen))


class _Writer:
    """Stores inputs in chunks."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.inputs: Inputs = Inputs()

    async def add(self, index: int, args: str) -> None:
        await self._put(self.inputs.add(index, args))

    async def end(self) -> None:
        await self._put(self.inputs.rest())

    async def _put(self, chunk: bytes | None) -> None:
        if chunk is not None:
            await self._client.store.put_blob(chunk)


async def start_batch(
    client: Client,
    workflow: AnyWorkflow[..., R] | AnyStep[..., R],
    inputs: Iterable[Any] | AsyncIterable[Any],
    *,
    concurrency: int,
    order: Order,
    how: StartOptions = DEFAULT,
) -> Batch[R]:
    """Starts a batch, durable when this returns. Inputs are read and checked one by one before anything is started."""
    if not isinstance(workflow, AnyWorkflow | AnyStep):
        raise InvalidInput(f"app.start_batch takes a workflow or step and its inputs, got {workflow!r}")
    make = partial(_call, workflow)
    spec = workflow.run_spec if isinstance(workflow, AnyStep) else workflow.spec
    return await start_calls(client, spec, make, inputs, concurrency=concurrency, order=order, how=how)


async def start_calls(
    client: Client,
    spec: WorkflowSpec,
    make: Callable[[Any], Call[Any]],
    inputs: Iterable[Any] | AsyncIterable[Any],
    *,
    concurrency: int,
    order: Order,
    how: StartOptions = DEFAULT,
) -> Batch[Any]:
    """Like `start_batch`, for a definition and a function that makes a call of it from an input."""
    like = empty_plan(spec, concurrency, order)
    if how.id is not None:
        _batch_id(how.id)
    writer = _Writer(client)
    index = 0
    async for given in _each(inputs):
        await writer.add(index, encoded_input(spec, index, partial(_encoded, make, given)))
        index += 1
    await writer.end()
    return await _start(client, spec, writer.inputs.plan(like), writer.inputs, how)


async def get_batch(
    client: Client, id: str, workflow: AnyWorkflow[..., R] | AnyStep[..., R] | None, *, is_plain: bool = False
) -> Batch[R]:
    """The batch with that id. Without a workflow it returns results as plain JSON values."""
    row = await client.store.get(check_id(id, "batch id"))
    if row is None:
        raise RunNotFound(f"no batch {id!r} in {client.store.url}; list what is there with app.runs(workflow={NAME!r})")
    if row.workflow != NAME:
        raise Conflict(f"run {id!r} is of workflow {row.workflow!r}, not a batch: get it with app.get({id!r})")
    plan = await _plan_of(client, id)
    if workflow is not None and workflow.name != plan.workflow:
        raise Conflict(f"batch {id!r} is of workflow {plan.workflow!r}, not {workflow.name!r}")
    if isinstance(workflow, AnyStep):
        spec: WorkflowSpec | None = workflow.run_spec
    else:
        spec = workflow.spec if workflow is not None else client.registry.declared(plan.workflow, plan.version)
    return Batch(client, id, None if is_plain else spec, plan)


async def _start(
    client: Client, spec: WorkflowSpec | None, plan: Plan, inputs: Inputs, how: StartOptions
) -> Batch[Any]:
    brings: dict[str, bytes] = {plan.index: inputs.index()}
    needs = dict.fromkeys(inputs.names)
    if plan.style == "flow":
        if spec is not None and spec.code == plan.code:
            brings[plan.code] = DefinitionBytes(spec.definition)
        else:  # that of the batch whose items these were
            needs[plan.code] = None
    batch = replace(batch_spec(), keep=spec.keep if spec is not None else None)
    call: Call[Counts] = Call(batch, batch.arguments.encode((plan, Standing()), {}), place(0))
    attributes = {"batch_of": plan.workflow[:1000], **(how.attributes or {})}
    asked = how.if_exists
    # The same inputs with another concurrency are the same batch, so the plans are compared here.
    if_exists: IfExists = "return" if asked is None else asked
    how = replace(how, attributes=attributes, brings=brings, needs=tuple(needs), if_exists=if_exists)
    run = await client.start(call, how)
    stored = await _plan_of(client, run.id)
    is_same = asked == "return" or (stored.version, stored.index) == (plan.version, plan.index)
    if stored.workflow != plan.workflow or not is_same:
        raise Conflict(
            f"id {run.id!r} belongs to a batch of {stored.total} {stored.workflow} with different inputs; "
            "choose a different id or key"
        )
    return Batch(client, run.id, spec, stored)


async def _plan_of(client: Client, id: str) -> Plan:
    """The plan that the batch exposes; before its first turn, the one it was started with."""
    shown = await client.store.exposed(id, PLAN)
    if shown is not None:
        value, blob = shown
        return PLANS.decode(await client.store.get_blob(blob) if blob else value)
    [first] = await client.store.history(id, limit=1)
    started = cast("e.Started", decode_row(first).events[0])
    if started.blob:
        started = cast("e.Started", inline(started, await client.store.get_blobs([started.blob])))
    (plan, _), _ = batch_spec().arguments.decode(started.value)
    return cast("Plan", plan)


async def _each(inputs: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Any]:
    if isinstance(inputs, AsyncIterable):
        async for given in inputs:
            yield given
    elif isinstance(inputs, Iterable) and not isinstance(inputs, str | bytes | Mapping):
        for given in inputs:
            yield given
    else:
        raise InvalidInput(
            f"inputs= takes an iterable of inputs, one for each item, got {type(cast(object, inputs)).__name__}"
        )


def _encoded(make: Callable[[Any], Call[Any]], given: Any) -> tuple[WorkflowSpec, bytes]:
    """The arguments of a given call, else of a call with that one argument."""
    call = make(given)
    return call.spec, call.args


def _call(workflow: AnyWorkflow[..., Any] | AnyStep[..., Any], given: Any) -> Call[Any]:
    if isinstance(given, Call):
        return given  # pyright: ignore[reportUnknownVariableType]
    make = workflow.call if isinstance(workflow, SyncWorkflow | Step | SyncStep) else cast("Any", workflow)
    return cast("Call[Any]", make(given))


def _batch_id(id: str) -> str:
    if len(check_id(id, "batch id").encode()) > MAX_ID:
        raise InvalidInput(f"batch id {id[:40]!r}… is longer than {MAX_ID} bytes: its items have longer ids still")
    return id
