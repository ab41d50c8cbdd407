"""Those who read streams while they are written; and what must hold of every stream in the end (S12 of streams).

No part is lost, doubled or out of order: offsets are dense, what an attempt sent is a beginning of what it was to send,
what a completed attempt sent is all of it, and a reader who came back after each fault has seen each part once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from holdfast.client.client import Client
from holdfast.client.stream_page import state_of
from holdfast.core import events as e
from holdfast.errors import RunNotFound, StoreError
from holdfast.ports.parts import StoredParts, unpack
from tests.lab.sim.scenario import RunPlan
from tests.lab.sim.workflows import Node, whisper

if TYPE_CHECKING:
    from tests.lab.sim.world import World


class Listeners:
    """Of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._heard: dict[str, list[tuple[int, str]]] = {}

    def listen(self, plan: RunPlan, client: Client, run: str, actor: int) -> None:
        """Reads in the background, and comes back after every fault."""
        heard = self._heard.setdefault(run, [])
        _ = self._world.loop.spawn(actor, self._listen(client, run, heard))

    async def _listen(self, client: Client, run: str, heard: list[tuple[int, str]]) -> None:
        while True:
            try:
                handle = await client.get(run)
                async for part in handle.read(whisper, after=heard[-1][0] if heard else None):
                    heard.append((part.offset, part.value))
                    self._world.met["part heard"] += 1
            except StoreError:
                self._world.met["reader cut off"] += 1
                await asyncio.sleep(0.05)
            except RunNotFound:
                return
            else:
                return

    async def verify(self, plan: RunPlan, run: str) -> None:
        """Of the stream of a run, and of whoever read it."""
        world = self._world
        node = next((node for node in plan.plan if node[0] == "tell"), None)
        page = await world.store.read_parts(run, whisper.name, limit=1_000_000) if run and node is not None else None
        if page is None or node is None:
            return
        parts = [bytes(x).decode().strip('"') for row in page.rows for x in unpack(row.packed)]
        for problem in _rows(page.rows, node):
            world.watch.wrong("streams", run, problem)
        for problem in _heard(self._heard.get(run), parts):
            world.watch.wrong("streams", run, problem)
        known = world.watch.runs.get(run)
        if known is None or not isinstance(known.fold.end, e.Completed):
            return
        world.met["stream read to its end"] += 1
        done = [x for row in page.rows if state_of(row, page) == "completed" for x in unpack(row.packed)]
        wanted = [f"{node[1]} begins", *_told(node)] * (plan.rounds + 1)
        found = [msgspec.json.decode(part) for part in done]
        if found != wanted:
            world.watch.wrong("streams", run, f"completed attempts sent {found}, not {wanted}")


def _told(node: Node) -> list[str]:
    return [f"{node[1]}/{number}" for number in range(node[2])]


def _rows(rows: list[StoredParts], node: Node) -> list[str]:
    """Offsets without gap, and each attempt a beginning of the whole."""
    wrong: list[str] = []
    end = 0
    sent: dict[tuple[str, int, int], list[str]] = {}
    for row in rows:
        if row.first != end or row.end <= row.first:
            wrong.append(f"a row from {row.first} to {row.end} follows one that ends at {end}")
        end = row.end
        if row.step:
            texts = [bytes(x).decode().strip('"') for x in unpack(row.packed)]
            sent.setdefault((row.step, row.attempt, row.epoch), []).extend(texts)
    for attempt, texts in sent.items():
        if texts != _told(node)[: len(texts)]:
            wrong.append(f"{attempt} sent {texts}")
    return wrong


def _heard(heard: list[tuple[int, str]] | None, parts: list[str]) -> list[str]:
    if heard is None or heard == list(enumerate(parts))[: len(heard)]:
        return []
    return [f"a reader heard {heard}, and the stream holds {parts}"]
