"""The manifest: typed entries for everything an app can run."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import jsonschema_rs
import pytest

from holdfast import App, Machine, Manifest, ManifestEntry, Retry, Signal, remote, sleep, step, workflow
from holdfast.errors import InvalidInput
from tests.support.flows import flow

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


@pytest.mark.spec("stem.S21", "stem.S22")
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


@pytest.mark.spec("stem.S21")
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


@pytest.mark.spec("stem.S21", "stem.S22")
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


def flow_entry(*, output: str = "${steps.paid}", **more: Any) -> ManifestEntry:
    steps = {
        "paid": {"call": "charge", "with": {"order": "${input}"}, "retry": {"attempts": 3}, "timeout": "30s"},
        "ok": {"wait": {"signal": "approved"}, "needs": ["paid"]},
        "boxes": {"each": {"in": "${input.lines}"}, "call": "ship", "with": {"order": "${item}"}},
    }
    declared = {"version": "3", "description": "Sells.\nFor people.", "output_schema": {"type": "string"}, **more}
    made = flow("order", steps, output, **declared)
    [entry] = [x for x in asyncio.run(App("memory://", workflows=[made, charge, ship]).manifest(observe=0)).workflows
               if x.name == "order"]  # fmt: skip
    assert entry.definition == made.hash
    return entry


@pytest.mark.spec("stem.S20", "stem.S21", "stem.S22")
def test_a_flow_has_its_declared_steps_and_no_checkpoints() -> None:
    """Promise: the steps of a flow are its plan: each with what it does, needs and calls, its retries and timeout."""
    entry = flow_entry()
    assert (entry.kind, entry.version, entry.description) == ("flow", "3", "Sells.")
    assert (entry.states, entry.checkpoints) == ((), ())
    assert [(x.name, x.kind, x.position, x.needs, x.calls) for x in entry.steps] == [
        ("paid", "call", 0, (), ("charge",)),
        ("ok", "wait", 1, ("paid",), ()),
        ("boxes", "each", 2, (), ("ship",)),
    ]
    assert entry.steps[0].retry is not None
    assert (entry.steps[0].retry.attempts, entry.steps[0].timeout) == (3, timedelta(seconds=30))


def test_input_and_output_of_a_flow_are_its_schemas() -> None:
    """Promise: what a run is started with: the input as the file says, and the variables; references in it hold."""
    entry = flow_entry()
    assert (entry.input["required"], entry.output) == (["input"], {"type": "string"})
    assert entry.input["properties"] == {"input": {}, "vars": {"type": "object", "properties": {}}}
    schema = {"$defs": {"Id": {"type": "integer"}}, "properties": {"id": {"$ref": "#/$defs/Id"}}}
    variables = {"region": {"default": "eu"}, "token": {"secret": True, "description": "of the bank"}}
    entry = flow_entry(output="${vars.token}", input=schema, vars=variables)
    given = entry.input["properties"]["vars"]
    assert given["properties"] == {
        "region": {"default": "eu"}, "token": {"writeOnly": True, "description": "of the bank"},
    }  # fmt: skip
    assert (given["required"], entry.input["required"]) == (["token"], ["input", "vars"])
    check = jsonschema_rs.validator_for(entry.input)
    assert check.is_valid({"input": {"id": 5}, "vars": {"token": "t"}})
    assert not check.is_valid({"input": {"id": "5"}, "vars": {"token": "t"}})
    assert not check.is_valid({"input": {"id": 5}, "vars": {}})


def test_the_hash_of_a_flow_follows_its_content_and_its_id_what_it_declares() -> None:
    """Promise: the same file is the same hash in every process; another output is another hash, and the same id."""
    entry, other = flow_entry(), flow_entry(output="${steps.boxes}")
    assert (entry.id, entry.definition) == (flow_entry().id, flow_entry().definition)
    assert entry.definition == "d685a2920896b4f39874fb8ca20140eea3eb578e53e8b2dbdd8b060a368e613a"
    assert entry.id == other.id
    assert entry.definition != other.definition
    assert flow_entry(version="4").id != entry.id


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
