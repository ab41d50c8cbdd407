"""One store with garbage in some of its columns: what becomes of the damaged run, and of all the others.

A seed decides the store, the columns and what is written there. Then a worker comes, and every run that was left alone
has to end; lists, show, verify and doctor have to answer; the damaged run has to be named, not to be claimed again and
again, and to end when it is killed.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from holdfast import App, Run, RunVar, Signal, Status, step, workflow
from holdfast.adapters.postgres.address import parse_address
from holdfast.client.inspect.findings import store_findings
from holdfast.client.inspect.story import read_story
from holdfast.client.verification import damaged_workers, verify_run
from holdfast.errors import HoldfastError, InvalidInput, RunFinished
from holdfast.ports.leases import WorkerRow
from holdfast.ports.runs import Filter
from holdfast.testing.conformance.damage import RUN_VALUES, WORKER_VALUES
from holdfast.testing.conformance.runs import HOSTILE
from tests.support.damage import write_postgres, write_sqlite
from tests.support.world import Kind, World, open_world, seconds

go = Signal[int]("go")
shown = RunVar[str]("shown")
NOT_TEXT = b"\xff\xfe{"
TEXTS = ("workflow", "version", "code", "codec", "status", "queue", "key", "input_hash", "parent", "parent_key", "root",
         "worker", "note")  # fmt: skip
BYTES = (b"", b"{{", b"\xff", b"[1,2", b'{"t":"no such event"}')


@dataclass(frozen=True)
class Damage:
    """What is written, and where."""

    table: str
    column: str
    value: Any

    def __str__(self) -> str:
        return f"{self.table}.{self.column} = {self.value!r}"


@step
async def one() -> int:
    return 1


@workflow
async def quick() -> int:
    return await one()


@workflow
async def waits() -> int:
    shown.set("here")
    await one()
    return await go.wait()


def draw(rng: random.Random, kind: Kind) -> list[Damage]:
    """Up to three columns of one run, or of a worker."""
    choices = [
        *(Damage("runs", column, value) for column, value in RUN_VALUES),
        *(Damage("workers", column, value) for column, value in WORKER_VALUES),
        *(Damage("inbox", "body", value) for value in BYTES),
        *(Damage("exposed", "value", value) for value in BYTES),
        Damage("runs", "ended_at", 2**62),
        Damage("runs", "available_at", 2**62),
        Damage("inbox", "kind", "no kind"),
    ]
    if kind == "sqlite":
        choices += [Damage("runs", column, NOT_TEXT) for column in (*TEXTS, "id")]
        choices += [Damage("workers", column, NOT_TEXT) for column in ("queues", "definitions", "recovery", "host")]
        choices += [Damage("attributes", "value", NOT_TEXT), Damage("inbox", "id", NOT_TEXT)]
    found = rng.sample(choices, rng.choice((1, 1, 1, 2, 3)))
    return list({(each.table, each.column): each for each in found}.values())


async def play(seed: int) -> tuple[list[Damage], str, dict[str, int]]:
    """What was damaged, what broke ("" if nothing did), and what came up."""
    rng = random.Random(seed)
    kind: Kind = rng.choice(("sqlite", "sqlite", "postgres"))
    damages = draw(rng, kind)
    counts: dict[str, int] = {kind: 1}
    with tempfile.TemporaryDirectory(prefix="holdfast-damage-") as folder:
        async with open_world(kind, Path(folder), virtual=True) as world:
            try:
                await _played(world, rng, damages, counts)
            except Exception as error:  # noqa: BLE001 whatever it is, it is what was looked for
                told = f"seed {seed}, {kind}, {', '.join(map(str, damages))}: {type(error).__name__}: {error}"
                return damages, told, counts
    return damages, "", counts


async def _played(world: World, rng: random.Random, damages: list[Damage], counts: dict[str, int]) -> None:
    app = world.app(quick, waits)
    victim = rng.choice(("quick-0", "waits-0"))
    async with world.worker(app):
        for number in range(3):
            run = await app.start(waits(), id=f"waits-{number}", attributes={"n": str(number)}, deadline="1d")
            await world.until_parked(run)
    for number in range(3):
        await app.start(quick(), id=f"quick-{number}", attributes={"n": str(number)}, deadline="1d")
    await _refuse(app, rng)
    for number in range(3):
        await (await app.get(f"waits-{number}")).signal(go, number)
    stranger = WorkerRow(instance="i0", worker="stranger", queues=("default",), definitions=(("quick", ""),), pid=0,
                         host="far", started_at=world.clock.now())  # fmt: skip
    await world.store.register(stranger, seconds(3600), takes_over="none")
    no = (await world.row(victim)).no
    for each in damages:
        where = {"runs": ("no", no), "workers": ("instance", "i0")}.get(each.table, ("run", no))
        if each.table in {"inbox", "exposed"} and victim != "waits-0":
            continue
        write(world, each, where)
    others = [f"{name}-{number}" for name in ("quick", "waits") for number in range(3) if f"{name}-{number}" != victim]
    async with world.worker(app) as worker:
        for name in others:
            await world.until_status(name, Status.COMPLETED)
        await world.beat(worker)
        if any(each.column == "id" and each.table == "runs" for each in damages):  # nobody can ask for it by its name
            counts["a run lost its name"] = 1
            await _answered(app, world)
            return
        await _settled(world, victim)
        await _asked(app, world, victim, counts)
    await _ended(app, world, victim, counts)


def write(world: World, damage: Damage, where: tuple[str, object]) -> None:
    """Past the store."""
    if world.kind == "sqlite":
        write_sqlite(world.path, damage.table, damage.column, damage.value, where)
    else:
        schema = parse_address(cast("Any", world.store).url).schema
        write_postgres(schema, damage.table, damage.column, damage.value, where)


async def _refuse(app: App, rng: random.Random) -> None:
    """A start with a time that no calendar holds leaves nothing."""
    options: list[dict[str, Any]] = [*({"deadline": at} for at in HOSTILE), {"delay": "9000y"}, {"deadline": "9000y"}]
    try:
        await app.start(quick(), id="never", **rng.choice(options))
    except InvalidInput:
        return
    raise AssertionError("a start with a hostile time was taken")


async def _settled(world: World, victim: str) -> None:
    """The damaged run comes to rest: nobody holds it, and it is not claimed again."""
    store = world.store
    no = (await store.list(Filter(), limit=10)).runs
    row = next(run for run in no if run.id == victim)

    async def rests() -> bool:
        found = await store.get(victim)
        return found is not None and not found.instance

    await world.until(rests, f"{victim} comes to rest")
    before = await world.row(victim)
    for _ in range(3):
        await world.advance("10s")
        await world.until(rests, f"{victim} rests")
    after = await world.row(victim)
    assert after.epoch <= before.epoch + 1, f"claimed again and again: epoch {before.epoch}, then {after.epoch}"
    assert row.no == after.no


async def _answered(app: App, world: World) -> None:
    client = await app.client()
    assert len([view async for view in app.runs()]) == 6
    found = [await verify_run(world.store, row) for row in (await world.store.list(Filter(), limit=100)).runs]
    assert len([finding for finding in found if finding.problem]) == 1
    assert [finding async for finding in store_findings(client)]


async def _asked(app: App, world: World, victim: str, counts: dict[str, int]) -> None:
    """Everything that looks at the store answers, and names what is damaged."""
    client = await app.client()
    views = {view.id: view async for view in app.runs()}
    assert len(views) == 6
    rows = (await world.store.list(Filter(), limit=100)).runs
    findings = [await verify_run(world.store, row) for row in rows]
    wrong = {finding.run for finding in findings if finding.problem}
    assert wrong <= {victim}, f"verify says {wrong}"
    for name in views:
        await read_story(client, name)
    workers = damaged_workers(await world.store.workers())
    said = [finding async for finding in store_findings(client)]
    row = await world.row(victim)
    if row.damage:
        counts["a run stayed damaged"] = 1
        assert victim in wrong
        assert views[victim].damage
        assert "damaged" in views[victim].waiting
    if row.damage and not row.status.is_terminal:
        assert any(finding.check == "damaged" and victim in finding.text for finding in said)
    if workers:
        counts["a worker was damaged"] = 1
        assert any(finding.check == "workers" and "damaged" in finding.text for finding in said)
    if row.status is Status.PAUSED:
        counts["a run was paused"] = 1


async def _ended(app: App, world: World, victim: str, counts: dict[str, int]) -> None:
    run: Run[Any] = await app.get(victim)
    before = await world.row(victim)
    try:
        await run.pause("look at it")
        assert (await world.row(victim)).status is Status.PAUSED
        await run.kill()
        assert (await world.row(victim)).status is Status.CANCELLED
        counts["a run was killed"] = 1
    except RunFinished:
        assert before.status.is_terminal or before.damage
        counts["a run had ended"] = 1
    except HoldfastError as error:
        raise AssertionError(f"kill or pause: {error}") from error
