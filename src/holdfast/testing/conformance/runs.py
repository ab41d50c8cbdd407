"""Runs: creation by id and key, lists, counts and exposed values."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.doing import decode_doing
from holdfast.core.fold import fold
from holdfast.core.projection import project
from holdfast.core.status import Status
from holdfast.core.turn import decode_row, decode_rows
from holdfast.errors import BlobNotFound, InvalidInput
from holdfast.ports.journal import Commit, Committed, Park
from holdfast.ports.runs import Existing, Filter, Lacking, Made, NewRun
from holdfast.testing.conformance.suite import Suite, shows
from holdfast.testing.conformance.world import DONE, START, WINDOW, World, chained, new_run, seconds

BLOB = b"arguments" * 100
BLOB_NAME = sha256(BLOB).hexdigest()
HOSTILE: tuple[datetime, ...] = (
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    datetime(2027, 1, 1),  # noqa: DTZ001 - naive on purpose
)
"""Instants that no store could read back."""


async def pages(world: World, which: Filter, limit: int) -> list[list[str]]:
    """The ids of a whole list, page by page."""
    found: list[list[str]] = []
    after = ""
    while True:
        page = await world.store.list(which, after=after, limit=limit)
        found.append([run.id for run in page.runs])
        if not page.next:
            return found
        after = page.next


FILTERS: dict[str, tuple[Filter, set[str]]] = {
    "any": (Filter(), {"a", "b", "c", "d"}),
    "workflow": (Filter(workflow="parcel"), {"d"}),
    "unknown workflow": (Filter(workflow="Order"), set()),
    "version": (Filter(version="2"), {"b"}),
    "no version": (Filter(version=""), {"a", "c", "d"}),
    "queue": (Filter(queue="slow"), {"c"}),
    "parent": (Filter(parent="a"), {"d"}),
    "root": (Filter(root="a"), {"a", "d"}),
    "key": (Filter(key="k"), {"b"}),
    "one status": (Filter(statuses=(Status.COMPLETED,)), {"a"}),
    "two statuses": (Filter(statuses=(Status.COMPLETED, Status.RUNNING)), {"a", "b"}),
    "no such status": (Filter(statuses=(Status.FAILED,)), set()),
    "worker": (Filter(worker="w2"), {"b"}),
    "attribute": (Filter(attributes={"shop": "7"}), {"b", "c"}),
    "two attributes": (Filter(attributes={"shop": "7", "vip": "yes"}), {"c"}),
    "attribute of another value": (Filter(attributes={"shop": "77"}), set()),
    "odd attribute": (Filter(attributes={'sh"op.': "%"}), {"d"}),
    "ids": (Filter(ids=("a", "d", "zz")), {"a", "d"}),
    "parents": (Filter(parents=("a", "b", "zz")), {"d"}),
    "parents without children": (Filter(parents=("b", "d")), set()),
    "prefix": (Filter(prefix="b"), {"b"}),
    "together": (Filter(workflow="order", queue="slow", attributes={"vip": "yes"}), {"c"}),
    "together, against each other": (Filter(workflow="parcel", queue="slow"), set()),
}


def first_turn(world: World, new: NewRun, *events: e.AnyEvent, **rest: Any) -> Commit:
    """The first turn of a run that is created with it: its number is not known yet."""
    turns = decode_rows([new.row])
    row = chained(new.row.checksum, new.row.run, 2, 1, world.clock.now(), (e.Claimed(worker="w1"), *events))
    is_terminal = any(isinstance(event, e.TERMINAL) for event in events)
    projection = project(fold(new.row.run, [*turns, decode_row(row)]))
    return Commit(no=0, row=row, after=new.row.checksum, projection=projection, is_terminal=is_terminal, **rest)


class RunsSuite(Suite):
    """Runs: creation by id and key, lists, counts and exposed values."""

    # -- creation ------------------------------------------------------------------------------------------------------

    @shows("stem.S30", "stepflow.M1", "vectorbea.V9")
    async def test_a_run_is_made_pending_and_due(self, world: World) -> None:
        """Contract: every fact of its first row becomes a column; it is unclaimed, and due at once."""
        new = world.new(
            "r",
            input_hash="abc",
            version="2",
            code="c0de",
            codec="json",
            queue="slow",
            priority=7,
            key="k",
            deadline=START + seconds(60),
            parent="elsewhere",
            parent_key="pk",
            root="top",
            attributes={"shop": "7", "ort": "Köln"},
            value=msgspec.Raw(b'{"n":1}'),
        )
        creation = await world.create(new)
        assert isinstance(creation, Made)
        row = creation.run
        assert row == await world.get("r")
        assert (row.id, row.workflow, row.version, row.code, row.codec) == ("r", "order", "2", "c0de", "json")
        assert (row.status, row.doing, row.queue, row.priority) == (Status.PENDING, new.doing, "slow", 7)
        assert decode_doing(row.doing).now[0].kind == "start"
        assert (row.key, row.input_hash) == ("k", "abc")
        assert (row.parent, row.parent_key, row.root) == ("elsewhere", "pk", "top")
        assert (row.deadline, row.attributes) == (START + seconds(60), {"shop": "7", "ort": "Köln"})
        assert (row.created_at, row.updated_at, row.started_at, row.ended_at) == (START, START, None, None)
        assert (row.next_ordinal, row.available_at) == (2, START)
        assert (row.worker, row.instance, row.epoch, row.claims) == ("", "", 0, 0)
        assert (row.inbox_last, row.inbox_read, row.bounces, row.note) == (0, 0, 0, "")

    async def test_the_first_row_is_in_the_journal(self, world: World) -> None:
        """Contract: ordinal 1, epoch 0, as given, with a seq."""
        new = world.new("r")
        await world.create(new)
        (row,) = await world.store.history("r")
        assert row == msgspec.structs.replace(new.row, seq=row.seq)
        assert row.seq > 0

    async def test_a_run_without_a_root_is_its_own(self, world: World) -> None:
        """Contract: the root of a run without a parent is itself."""
        assert (await world.make("r")).root == "r"

    async def test_numbers_of_runs_differ(self, world: World) -> None:
        """Contract: each run has a number of its own, rising with its creation."""
        numbers = [(await world.make(f"r{count}")).no for count in range(5)]
        assert numbers == sorted(set(numbers))

    async def test_blobs_come_with_the_run(self, world: World) -> None:
        """Contract: a run's first row never refers to a missing blob."""
        await world.make("r", blob=BLOB_NAME, blobs=((BLOB_NAME, BLOB),))
        assert await world.store.get_blob(BLOB_NAME) == BLOB

    @pytest.mark.parametrize("workflow", ["order", "parcel"])
    @pytest.mark.parametrize("has_ended", [True, False])
    async def test_an_id_in_use_gives_the_run_that_has_it(self, world: World, workflow: str, has_ended: bool) -> None:
        """Contract: Existing, not by key, whatever its workflow and status; nothing is written."""
        await (world.ended_run("r") if has_ended else world.make("r"))
        before = await world.dump()
        creation = await world.create(world.new("r", workflow, priority=9, blobs=((BLOB_NAME, BLOB),)))
        assert creation == Existing(await world.get("r"))
        assert await world.dump() == before
        with pytest.raises(BlobNotFound):
            await world.store.get_blob(BLOB_NAME)

    async def test_a_key_in_use_gives_the_run_that_has_it(self, world: World) -> None:
        """Contract: Existing by key, though the id is another; nothing is written."""
        await world.make("r1", key="k")
        before = await world.dump()
        assert await world.create(world.new("r2", key="k")) == Existing(await world.get("r1"), by="key")
        assert await world.dump() == before
        assert await world.store.get("r2") is None

    async def test_an_ended_run_keeps_its_key(self, world: World) -> None:
        """Contract: a key names its run within the window, ended or not."""
        await world.ended_run("r1", key="k")
        assert await world.create(world.new("r2", key="k")) == Existing(await world.get("r1"), by="key")

    async def test_a_key_belongs_to_one_workflow(self, world: World) -> None:
        """Contract: the same key of another workflow is another key."""
        await world.make("r1", key="k")
        assert isinstance(await world.create(world.new("r2", "parcel", key="k")), Made)

    async def test_an_empty_key_is_no_key(self, world: World) -> None:
        """Contract: runs without a key never match each other."""
        await world.make("r1", key="")
        assert isinstance(await world.create(world.new("r2", key="")), Made)

    async def test_the_id_is_asked_before_the_key(self, world: World) -> None:
        """Contract: a call that meets one run by id and another by key is answered by id."""
        await world.make("r1", key="k")
        await world.make("r2")
        assert await world.create(world.new("r2", key="k")) == Existing(await world.get("r2"))

    async def test_a_key_lasts_for_its_window(self, world: World) -> None:
        """Contract: only a run made after `key_since` counts; then the newest one has the key."""
        await world.make("r1", key="k")
        world.clock.advance(WINDOW - seconds(1))
        assert isinstance(await world.create(world.new("r2", key="k")), Existing)
        world.clock.advance(seconds(2))
        assert isinstance(await world.create(world.new("r3", key="k")), Made)
        creation = await world.create(world.new("r4", key="k"))
        assert creation == Existing(await world.get("r3"), by="key")

    @pytest.mark.parametrize("by", ["id", "key"])
    async def test_concurrent_creations_make_one_run(self, world: World, by: str) -> None:
        """Contract: any number of concurrent callers get one run, and one of them made it."""
        new = [world.new("r", key="k") if by == "id" else world.new(f"r{count}", key="k") for count in range(10)]
        creations = await asyncio.gather(*(world.create(each) for each in new))
        assert Counter(type(creation) for creation in creations) == {Made: 1, Existing: 9}
        assert len({creation.run.id for creation in creations if not isinstance(creation, Lacking)}) == 1
        assert {creation.by for creation in creations if isinstance(creation, Existing)} == {by}
        assert len(await world.runs()) == 1

    async def test_a_run_can_be_made_already_claimed(self, world: World) -> None:
        """Contract: with `instance` the run is held from its first moment: epoch 1, still pending, and not for other
        workers."""
        await world.worker("i1")
        other = await world.worker("i2")
        creation = await world.create(world.new("r"), instance="i1", worker="w1")
        assert isinstance(creation, Made)
        row = creation.run
        assert (row.status, row.instance, row.worker, row.epoch, row.claims) == (Status.PENDING, "i1", "w1", 1, 1)
        assert set(await world.store.held("i1")) == {"r"}
        assert (await world.claim(other)).runs == []
        holder = await world.reader(row)
        await holder.commits(e.StepScheduled(key="charge"))
        assert (await world.get("r")).status is Status.RUNNING

    @pytest.mark.parametrize("what", ["continues", "parks", "ends"])
    async def test_a_run_can_be_made_with_itsfirst_turn(self, world: World, what: str) -> None:
        """Contract: run, lease and first turn in one write; all that a turn may do, it does here too."""
        await world.worker("i1")
        new, at = world.new("r", attributes={"a": "b"}), world.clock.now() + seconds(60)
        events: tuple[e.AnyEvent, ...] = (DONE,) if what == "ends" else (e.StepScheduled(key="charge"),)
        park = {"continues": None, "parks": Park(at), "ends": Park(None)}[what]
        child = new_run("c", world.clock.now(), "parcel", watcher=("r", "k"), parent="r", parent_key="k", root="r")
        first = first_turn(world, new, *events, park=park, children=(child,), blobs={BLOB_NAME: BLOB})
        creation = await world.create(new, instance="i1", worker="w1", first=first)
        assert isinstance(creation, Made)
        assert creation.first == Committed((await world.store.history("r"))[-1].seq, 0)
        row = await world.get("r")
        assert (row.no, row.next_ordinal, row.epoch, row.claims) == (creation.run.no, 3, 1, 0)
        assert row.instance == ("i1" if what == "continues" else "")
        if what == "parks":
            assert row.available_at == at
        assert row.status is (Status.COMPLETED if what == "ends" else Status.RUNNING)
        assert (await world.get("c")).parent == "r"
        assert await world.store.get_blob(BLOB_NAME) == BLOB
        assert [each.body for each in await world.store.history("r")] == [new.row.body, first.row.body]
        await world.verify()

    async def test_a_first_turn_is_only_for_a_run_made_now_and_claimed(self, world: World) -> None:
        """Contract: a run that was there, and one that is not due yet, are not begun by it."""
        await world.worker("i1")
        await world.make("there")
        before = await world.dump()
        new = world.new("there")
        creation = await world.create(new, instance="i1", worker="w1", first=first_turn(world, new, DONE))
        assert isinstance(creation, Existing)
        assert await world.dump() == before
        new = world.new("later", available_at=world.clock.now() + seconds(60))
        creation = await world.create(new, instance="i1", worker="w1", first=first_turn(world, new, DONE))
        assert isinstance(creation, Made)
        assert (creation.first, (await world.get("later")).next_ordinal) == (None, 2)
        await world.verify()

    async def test_a_run_that_was_there_is_not_claimed_by_its_creation(self, world: World) -> None:
        """Contract: Existing writes nothing, a lease included."""
        await world.worker("i1")
        await world.make("r")
        creation = await world.create(world.new("r"), instance="i1", worker="w1")
        assert isinstance(creation, Existing)
        assert (creation.run.instance, creation.run.epoch) == ("", 0)
        assert await world.store.held("i1") == {}

    async def test_a_delayed_run_is_not_claimed_before_its_time(self, world: World) -> None:
        """Contract: `available_at` in the future makes it wait, however it is made."""
        worker = await world.worker("i1")
        at = world.clock.now() + seconds(60)
        creation = await world.create(world.new("r", available_at=at), instance="i1", worker="w1")
        assert isinstance(creation, Made)
        row = creation.run
        assert (row.instance, row.epoch, row.claims, row.available_at) == ("", 0, 0, at)
        assert (await world.claim(worker, only=["r"])).runs == []
        world.clock.advance(59)
        assert (await world.claim(worker)).runs == []
        world.clock.advance(1)
        assert await world.claimed_ids(worker) == ["r"]

    @shows("stepflow.M4")
    async def test_a_missing_run_is_none(self, world: World) -> None:
        """Contract: `get` of an unknown id is None."""
        assert await world.store.get("nobody") is None

    async def test_ids_are_kept_exactly(self, world: World) -> None:
        """Contract: no case folding, no normalisation, no pattern matching."""
        names = ["Run", "run", "é", "e\u0301", "100%", "a_b", "a'b", 'a"b', "{x}", "*"]
        for name in names:
            await world.make(name)
        assert sorted(run.id for run in await world.runs()) == sorted(names)
        for name in names:
            assert (await world.get(name)).id == name

    # -- lists ---------------------------------------------------------------------------------------------------------

    async def test_lists_begin_with_the_newest(self, world: World) -> None:
        """Contract: by creation, then by number, both falling."""
        for name in "abc":
            await world.make(name)
            world.clock.advance(1)
        assert await pages(world, Filter(), 10) == [["c", "b", "a"]]

    @shows("openworkflow.O100")
    async def test_runs_made_in_one_instant_are_listed_once_each(self, world: World) -> None:
        """Contract: a cursor holds its place among runs of the same `created_at`; the last page says it is the last."""
        for name in "abcdef":
            await world.make(name)
        assert await pages(world, Filter(), 2) == [["f", "e"], ["d", "c"], ["b", "a"]]
        assert await pages(world, Filter(), 4) == [["f", "e", "d", "c"], ["b", "a"]]

    async def test_a_run_made_in_the_past_takes_its_place(self, world: World) -> None:
        """Contract: lists go by the time in the first row, not by the order of arrival."""
        new = world.new("early")
        world.clock.advance(10)
        await world.make("late")
        await world.create(new)
        assert await pages(world, Filter(), 1) == [["late"], ["early"]]

    async def test_a_list_is_stable_while_runs_are_made(self, world: World) -> None:
        """Contract: runs made between two pages neither shift the next page nor appear in it."""
        for name in "abcd":
            await world.make(name)
            world.clock.advance(1)
        first = await world.store.list(Filter(), limit=2)
        await world.make("new")
        second = await world.store.list(Filter(), after=first.next, limit=2)
        assert [run.id for run in (*first.runs, *second.runs)] == ["d", "c", "b", "a"]
        assert second.next == ""

    @pytest.mark.parametrize("cursor", ["x", "not a cursor", "!!!!", "AAAA", "OnJ1bnM6", "é", "0", "-1", "'; --"])
    async def test_a_foreign_cursor_is_refused(self, world: World, cursor: str) -> None:
        """Contract: a cursor that was not made by this store is an InvalidInput, not an empty page."""
        await world.make("r")
        with pytest.raises(InvalidInput):
            await world.store.list(Filter(), after=cursor)

    @pytest.mark.parametrize("name", list(FILTERS))
    async def test_filters_choose_runs(self, world: World, name: str) -> None:
        """Contract: each filter lets through what equals it; several let through what fits all."""
        await world.ended_run("a")
        await world.worker("i2", definitions=(("order", "2"),))
        await (await world.held_run("b", instance="i2", version="2", key="k", attributes={"shop": "7"})).commits()
        await world.make("c", queue="slow", attributes={"shop": "7", "vip": "yes"})
        await world.make("d", "parcel", parent="a", parent_key="x", root="a", attributes={'sh"op.': "%"})
        which, expected = FILTERS[name]
        assert {run.id for run in (await world.store.list(which)).runs} == expected
        assert {run for page in await pages(world, which, 1) for run in page} == expected

    async def test_runs_are_counted_by_status(self, world: World) -> None:
        """Contract: how many runs have each status."""
        await world.ended_run("a")
        await world.ended_run("b")
        await world.make("c")
        await (await world.held_run("d")).commits(e.Paused(reason="operator"))
        counts = await world.store.count()
        assert {status: count for status, count in counts.items() if count} == {
            Status.COMPLETED: 2,
            Status.PENDING: 1,
            Status.PAUSED: 1,
        }

    # -- exposed values ------------------------------------------------------------------------------------------------

    async def test_exposed_values_are_shown(self, world: World) -> None:
        """Contract: the last value of each name, inline or as a blob's name; they outlive the run."""
        holder = await world.held_run("r")
        await holder.commits(
            e.Exposed(name="progress", value=msgspec.Raw(b"1")), e.Exposed(name="état", value=msgspec.Raw(b"null"))
        )
        await holder.commits(e.Exposed(name="progress", value=msgspec.Raw(b"2")), e.Exposed(name="big", blob=BLOB_NAME))
        await holder.commits(DONE)
        assert await world.store.exposed("r", "progress") == (b"2", "")
        assert await world.store.exposed("r", "état") == (b"null", "")
        assert await world.store.exposed("r", "big") == (b"null", BLOB_NAME)
        assert sorted(await world.store.exposures("r")) == [
            ("big", b"null", BLOB_NAME),
            ("progress", b"2", ""),
            ("état", b"null", ""),
        ]

    async def test_values_that_are_not_exposed_are_none(self, world: World) -> None:
        """Contract: None for an unknown name or run, nothing for a run that shows nothing."""
        await world.make("r")
        assert await world.store.exposed("r", "progress") is None
        assert await world.store.exposed("nobody", "progress") is None
        assert list(await world.store.exposures("r")) == []
        assert list(await world.store.exposures("nobody")) == []

    @pytest.mark.parametrize("at", HOSTILE, ids=str)
    async def test_an_instant_that_could_not_be_read_is_not_written(self, world: World, at: datetime) -> None:
        """Contract: such a run is refused, and nothing of it is there."""
        new = world.new("a")
        hostile = msgspec.structs.replace(new, started=msgspec.structs.replace(new.started, deadline=at))
        with pytest.raises(InvalidInput):
            await world.create(hostile)
        assert await world.store.get("a") is None
        await world.make("a")
