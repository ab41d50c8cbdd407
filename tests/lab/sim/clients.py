"""Those who start runs and speak to them. Each insists, with the same id, until it is told that it was done.

What was acknowledged is remembered, and has to be there in the end.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.authoring.batch.batch_plan import Order
from holdfast.authoring.handle import Run
from holdfast.client.batches import start_batch
from holdfast.client.client import Client
from holdfast.client.start_options import StartOptions
from holdfast.client.verification import verify_run
from holdfast.core import events as e
from holdfast.core.specs import Settings
from holdfast.core.status import Status
from holdfast.errors import BlobNotFound, HoldfastError, RunFinished, RunNotFound, StoreError
from holdfast.ports.runs import RunRow
from holdfast.turn.replay import Replay, Replayed
from holdfast.turn.source import load, supply
from tests.lab.sim.conversations import wrong_calls
from tests.lab.sim.inquirers import Inquirers
from tests.lab.sim.items import verify_items
from tests.lab.sim.loop import HEART
from tests.lab.sim.parcels import Filling, parcels
from tests.lab.sim.scenario import OF_A_DEADLINE, RunPlan, agrees, expected
from tests.lab.sim.stream_listeners import Listeners
from tests.lab.sim.wire import Wire
from tests.lab.sim.workflows import bouquet, errand, news, play, rumour

if TYPE_CHECKING:
    from tests.lab.sim.world import World

FIRST = 500
"""The actors from here on are clients."""


class Clients:
    """Everybody but the workers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: dict[str, set[str]] = {}
        self._signalled: dict[str, list[str]] = {}
        self._published: list[tuple[str, str]] = []
        self._ids: dict[str, str] = {}
        self._inquirers = Inquirers(world)
        self.streams: Listeners = Listeners(world)

    def begin(self) -> list[asyncio.Task[None]]:
        """Everybody goes about their business."""
        tasks: list[asyncio.Task[None]] = []
        actor = FIRST
        for run in self._world.scenario.runs:
            for number in range(run.starters):
                actor += 1
                tasks.append(self._world.loop.spawn(actor, self._look_after(run, actor, number)))
                tasks[-1].add_done_callback(self._check_acting)
        for plan in self._world.scenario.schedules:
            actor += 1
            hand = self._world.watch.slots.handle(self._client(actor), plan, _insist)
            tasks.append(self._world.loop.spawn(actor, hand))
            tasks[-1].add_done_callback(self._check_acting)
        return tasks

    def _check_acting(self, task: asyncio.Task[None]) -> None:
        """What a client did not expect is a problem; nobody else would hear of it."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._world.watch.wrong("client", "any", "".join(traceback.format_exception(error)))

    def _client(self, actor: int) -> Client:
        assert actor < HEART
        client = Client(Wire(self._world.store, self._world, actor, is_client=True).store, self._world.registry)
        client.actor = f"client-{actor}"
        return client

    async def _look_after(self, plan: RunPlan, actor: int, number: int) -> None:
        client = self._client(actor)
        await asyncio.sleep(plan.starts_at)
        run = await _insist(lambda: self._start(client, plan, number))
        if run is None:
            return
        self._made.setdefault(plan.id, set()).add(run.id)
        self._ids[plan.id] = run.id
        if plan.is_opened:
            self._opened(plan, run.id)
        if number == 0 and plan.is_read:
            self.streams.listen(plan, client, run.id, actor)
        if number == 0:
            await asyncio.gather(self._do(plan, run, client), self._inquirers.ask_all(run, plan.questions))

    async def _start(self, client: Client, plan: RunPlan, number: int) -> Run[Any]:
        name = f"{plan.id}-{number}" if plan.key else plan.id
        options: dict[str, Any] = {
            "key": plan.key or None,
            "delay": plan.delay or None,
            "deadline": plan.deadline or None,
            "share": plan.share or None,
            "signal": (news, 0, plan.opening) if plan.is_opened else None,
        }
        if plan.items:
            inputs = [play(plan.plan) for _ in range(plan.items)]
            order: Order = "breadth" if plan.in_rounds else "depth"
            batch = await start_batch(
                client, play, inputs, concurrency=2, order=order, how=StartOptions(id=name, **options)
            )
            return await client.get(batch.id)
        call: Any = play(plan.plan, plan.rounds)
        if plan.parcels:
            call = parcels(Filling(plan.parcels))
        elif plan.flowers:
            call = bouquet({"label": plan.id, "count": plan.flowers})
        return await client.start(call, StartOptions(id=name, **options))

    async def _do(self, plan: RunPlan, run: Run[Any], client: Client) -> None:
        """What is done to the run, in the order of its times."""
        loop = self._world.loop
        acts: list[tuple[float, Callable[[], Awaitable[Any]]]] = []
        for number, at in enumerate(plan.signals, start=plan.is_opened):
            acts.append((at, lambda number=number: self._signal(run, number)))  # type: ignore[misc]
        for number, at in enumerate(plan.rumours):
            acts.append((at, lambda number=number: self._publish(client, run.id, number)))  # type: ignore[misc]
        if plan.cancels_at >= 0:
            acts.append((plan.cancels_at, lambda: run.cancel("enough")))
        if plan.cancels_again_at >= 0:
            acts.append((plan.cancels_again_at, lambda: run.cancel("still enough")))
        for at in plan.calls_off_at:
            acts.append((at, lambda: self._call_off(client, run.id)))  # noqa: PERF401
        if plan.kills_at >= 0:
            acts.append((plan.kills_at, lambda: run.kill("enough")))
        if plan.pauses_at >= 0:
            acts.append((plan.pauses_at, lambda: run.pause("for a while")))
        for at, act in sorted(acts, key=lambda each: each[0]):
            await asyncio.sleep(max(0.0, at - loop.time()))
            await _insist(act)

    def _opened(self, plan: RunPlan, run: str) -> None:
        """Each of its starts brought the same signal, and was told that it was done."""
        acknowledged = self._signalled.setdefault(run, [])
        self._world.met["start that brought its signal"] += 1
        if plan.opening not in acknowledged:
            acknowledged.insert(0, plan.opening)

    async def _signal(self, run: Run[Any], number: int) -> None:
        name = f"{run.id} news {number}"
        await run.signal(news, number, id=name)
        acknowledged = self._signalled.setdefault(run.id, [])
        if name not in acknowledged:
            acknowledged.append(name)
        if self._world.rng.random() < 0.2:
            await run.signal(news, number, id=name)  # as a sender does who did not hear the answer

    async def _publish(self, client: Client, sender: str, number: int) -> None:
        message = f"rumour {number} of {sender}"
        for reached in await client.publish(rumour, number, id=message):
            self._published.append((message, reached))

    async def _call_off(self, client: Client, root: str) -> None:
        """Cancels the first errand of the run that is under way, if there is one."""
        folds = [known.fold for known in self._world.watch.runs.values()]
        for fold in folds:
            if fold.workflow == errand.name and fold.root == root and fold.end is None:
                await (await client.get(fold.id)).cancel("never mind")
                return

    async def resume_paused(self) -> None:
        """The operator lets everything go on."""
        client = self._client(FIRST)
        for name in list(self._world.watch.runs):
            row = await self._world.store.get(name)
            if row is not None and row.status is Status.PAUSED:
                run = await client.get(name)
                await _insist(run.resume)

    # -- in the end ----------------------------------------------------------------------------------------------------

    async def verify(self) -> None:
        """What every run must be now, whatever happened."""
        world, wrong = self._world, self._world.watch.wrong
        for plan in world.scenario.runs:
            made = self._made.get(plan.id, set())
            if len(made) > 1:
                wrong("S11", plan.id, f"one start, several runs: {sorted(made)}")
        for name, known in list(world.watch.runs.items()):
            row = await world.store.get(name)
            if row is None:
                wrong("S2", name, "is gone")
                continue
            stored = (await world.store.read({row.no: 1}))[row.no]
            kept = {each.ordinal: each.checksum for each in stored}
            if any(kept.get(each.ordinal, each.checksum) != each.checksum for each in known.rows):
                wrong("S1", name, "a row has changed")
            if row.next_ordinal != known.fold.ordinal + 1:
                wrong("S1", name, f"{row.next_ordinal - 1} rows, of which {known.fold.ordinal} were seen to be written")
            for each in stored:
                for problem in await wrong_calls(world.store, each):
                    wrong("S18", name, f"in the end, {problem}")
            finding = await verify_run(world.store, row)
            if finding.problem:
                wrong("S6", name, finding.problem)
            await self._replay(row)
        for plan in world.scenario.runs:
            await self.streams.verify(plan, self._ids.get(plan.id, ""))
        for plan in world.scenario.runs:
            self._check_end(plan)
        for message, reached in self._published:
            self._check_rumour(message, reached)
        await self._inquirers.verify()
        verify_items(world.watch)
        world.watch.slots.verify()

    def _check_rumour(self, message: str, reached: str) -> None:
        """Whoever a publication was said to have reached has it in its journal."""
        known = self._world.watch.runs.get(reached)
        if known is None or known.fold.end is None or isinstance(known.fold.end, e.Cancelled):
            return
        if all(message != heard for heard, _, _ in known.heard):
            self._world.watch.wrong("S12", reached, f"{message} was to have reached it, and is not in the journal")

    def _check_end(self, plan: RunPlan) -> None:
        name = self._ids.get(plan.id, "")
        known = self._world.watch.runs.get(name)
        if known is None:
            return
        sent = self._signalled.get(name, [])
        journaled = [message for message in known.messages if message in set(sent)]
        if known.fold.end is not None and not isinstance(known.fold.end, e.Cancelled) and journaled != sent:
            self._world.watch.wrong("S12", name, f"signals {sent} were acknowledged, {journaled} are in the journal")
        if journaled != [message for message in sent if message in set(journaled)]:
            self._world.watch.wrong("S12", name, f"signals {sent} of one sender came as {journaled}")
        end = known.fold.end
        if isinstance(end, e.Completed) and not end.blob:
            result = msgspec.json.decode(end.value)
            if not agrees(result, expected(plan)):
                self._world.watch.wrong("result", name, f"{result} instead of {expected(plan)}")
        elif end is not None and not may_end_so(plan, end):
            self._world.watch.wrong("result", name, f"ended with {end}")

    async def _replay(self, row: RunRow) -> None:
        """S14: the journal replays with the code that wrote it."""
        world = self._world
        has_other_code = any(process.has_new_code for process in world.processes.values())
        if world.seed % 5 or has_other_code or row.status is Status.CANCELLED:
            return  # what an operator ended is not for the program to say
        try:
            replay = Replay(await load(world.store, row.no, row.id), world.registry, Settings())
            while replay.needs:
                await supply(world.store, replay)
            result = replay.finish()
            replay.close()
            if not isinstance(result, Replayed):
                world.watch.wrong("S14", row.id, f"does not replay: {result}")
            world.met["replayed journal"] += 1
        except HoldfastError as error:
            world.watch.wrong("S14", row.id, f"does not replay: {error}")


def may_end_so(plan: RunPlan, end: e.Terminal) -> bool:
    """Whether a run may end otherwise than with its result."""
    if isinstance(end, e.Cancelled):
        return plan.is_disturbed
    return isinstance(end, e.Failed) and bool(plan.deadline) and end.failure.type in OF_A_DEADLINE


async def _insist(act: Callable[[], Awaitable[Any]]) -> Any:
    """Until it is acknowledged, or cannot be done any more."""
    while True:
        try:
            return await act()
        except (StoreError, BlobNotFound):  # the latter: inputs of a batch collected before it was made, so it was not
            await asyncio.sleep(0.1)
        except (RunFinished, RunNotFound):
            return None
