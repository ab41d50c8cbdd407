"""The manifest: typed entries for everything an app can run."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from dataclasses import dataclass
from datetime import timedelta

import pytest

from holdfast import App, Machine, Manifest, ManifestEntry, Retry, Signal, remote, sleep, step, workflow
from holdfast.errors import InvalidInput

approved = Signal[bool]("approved")


class Declined(Exception):
    pass


@dataclass
class Order:
    id: str
    cents: int = 100


@dataclass
class Draft:
    order: Order


@dataclass
class Priced:
    cents: int


@dataclass
class Done:
    cents: int


@dataclass
class Refused:
    why: str


@step
async def charge(order: Order) -> str:
    return order.id


@workflow
async def ship(order: Order) -> str:
    return order.id


@workflow(version="2", deadline="30d", retry=Retry(3, first="2s"), raises=Declined)
async def fulfil(order: Order, express: bool = False) -> str:
    """Charges, waits, ships.

    More about it.
    """
    await charge(order)
    await charge(order)
    await sleep("1h")
    await approved.wait()
    return await ship(order)


parcel = Machine[Draft, Done | Refused]("parcel", timeout="14d", retry=2)


@parcel.state(retry=3, timeout="10s")
async def price(s: Draft) -> Priced | Refused:
    return Priced(s.order.cents)


@price.undo
async def unprice(left: Priced | Refused, s: Draft) -> None: ...


@parcel.router
def finish(s: Priced) -> Done:
    return Done(s.cents)


@remote
async def elsewhere(order: Order) -> str:
    raise NotImplementedError


def made() -> App:
    return App("memory://", workflows=[fulfil, ship, parcel, elsewhere])


def declared() -> dict[str, ManifestEntry]:
    manifest = asyncio.run(made().manifest(observe=0))
    return {entry.name: entry for entry in manifest.workflows}


@pytest.mark.spec("stem.S21", "stem.S22")
def test_every_workflow_has_a_typed_entry() -> None:
    """Promise: one frozen entry each, in order; Holdfast's own workflows are not among them."""
    found = declared()
    assert list(found) == ["elsewhere", "fulfil", "parcel", "ship"]
    entry = found["fulfil"]
    assert (entry.kind, entry.version, entry.queue, entry.timeout) == ("script", "2", "default", timedelta(days=30))
    assert entry.description == "Charges, waits, ships."
    assert entry.definition == fulfil.spec.code
    assert entry.raises == ("Declined",)
    assert entry.retry is not None
    assert (entry.retry.attempts, entry.retry.first) == (3, timedelta(seconds=2))
    assert found["ship"].retry is None
    assert found["elsewhere"].is_remote
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.name = "other"  # type: ignore[misc]


@pytest.mark.spec("stem.S22")
def test_a_machine_has_states_and_no_checkpoints() -> None:
    """Promise: what is declared is told apart from what was seen; states say how they are declared and what follows."""
    entry = declared()["parcel"]
    assert (entry.kind, entry.checkpoints, entry.steps) == ("machine", (), ())
    states = {state.name: state for state in entry.states}
    assert set(states) == {"Draft", "Priced", "Done", "Refused"}
    draft = states["Draft"]
    assert (draft.kind, draft.calls, draft.leads_to) == ("state", ("price",), ("Priced", "Refused"))
    assert (draft.timeout, draft.has_undo) == (timedelta(seconds=10), True)
    assert draft.retry is not None
    assert draft.retry.attempts == 3
    assert states["Priced"].kind == "router"
    assert states["Done"].kind == "final"


def test_input_and_output_are_schemas_of_what_is_stored() -> None:
    """Promise: a program in another language can make the input and read the result."""
    found = declared()
    schema = found["fulfil"].input
    assert schema["required"] == ["order"]
    assert schema["properties"]["express"] == {"type": "boolean", "default": False}
    assert schema["$defs"]["Order"]["required"] == ["id"]
    assert found["fulfil"].output == {"type": "string"}
    ends = found["parcel"].output["anyOf"]
    assert [each["required"] for each in ends] == [["Done"], ["Refused"]]


@pytest.mark.spec("stem.S21")
def test_scripts_show_the_checkpoints_their_runs_have_asked_for() -> None:
    """Promise: a script's checkpoints are observed in the store, each once, in order; before any run there are none."""
    app = made()
    assert asyncio.run(app.manifest()).workflows[1].checkpoints == ()

    async def look() -> Manifest:
        async with asyncio.timeout(30), app.worker():
            run = await app.start(fulfil(Order("1")))
            while "sleeping" not in (await run.view()).waiting:  # noqa: ASYNC110 a store is asked, not an event
                await asyncio.sleep(0.01)
            return await app.manifest()

    manifest = asyncio.run(look())
    entry = next(entry for entry in manifest.workflows if entry.name == "fulfil")
    assert [(x.name, x.kind) for x in entry.checkpoints] == [("charge", "step"), ("sleep", "sleep")]
    assert entry.steps == entry.states == ()


@pytest.mark.spec("stem.S22")
def test_ids_are_stable_and_follow_what_is_declared() -> None:
    """Promise: the id of an entry changes with its name, kind, version or parts, and with nothing else."""
    assert {name: entry.id for name, entry in declared().items()} == {
        name: entry.id for name, entry in declared().items()
    }

    @workflow(name="ship")
    async def changed(order: Order, note: str = "") -> str:
        return note + order.id

    @workflow(name="ship", version="2")
    async def newer(order: Order) -> str:
        return order.id

    changed.__wrapped__.__annotations__ = {"order": Order, "note": str, "return": str}  # type: ignore[attr-defined]
    ids = {
        entry.version: entry.id
        for app in (App("memory://", workflows=[changed]), App("memory://", workflows=[newer]))
        for entry in asyncio.run(app.manifest(observe=0)).workflows
    }
    assert ids[""] == declared()["ship"].id
    assert ids["2"] != ids[""]
    assert ids[""] == "7c6e2f26a5392592"


def test_the_manifest_is_json() -> None:
    """Promise: the manifest as JSON has a format number and every field of every entry."""
    manifest = asyncio.run(made().manifest(observe=0))
    plain = json.loads(json.dumps(manifest.to_json()))
    assert plain["format"] == 1
    assert plain["step_retry"] == {"attempts": 10, "first": "PT1S", "factor": 2, "ceiling": "PT100S"}
    assert set(plain["workflows"][0]) == {field.name for field in dataclasses.fields(ManifestEntry)}


def test_how_many_runs_to_observe_is_checked() -> None:
    """Promise: a wrong number is refused before the store is opened."""
    with pytest.raises(InvalidInput, match="observe=-1"):
        asyncio.run(made().manifest(observe=-1))
