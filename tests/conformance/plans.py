"""What a random turn is to do, and what of a store's answers can be compared with another's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import msgspec
from hypothesis import strategies as st

from holdfast.core import events as e
from holdfast.core.status import Status
from holdfast.core.turn import Row
from holdfast.ports.inbox import Unconsumed
from holdfast.ports.journal import Commit, Committed, Park, Tree
from holdfast.ports.runs import RunRow
from holdfast.testing.conformance.world import BOOM, DONE, STOPPED, TOPICS, Holder, publication, seconds, signal

RUNS = ("r0", "r1", "r2", "r3", "r4")
INSTANCES = ("i0", "i1", "i2")
WORKFLOWS = ("order", "parcel")
DEFINITIONS = tuple((workflow, version) for workflow in (*WORKFLOWS, "stray") for version in ("", "2"))

runs = st.sampled_from(RUNS)
instances = st.sampled_from(INSTANCES)
index = st.integers(0, 50)
delays = st.sampled_from([None, 0, 3, 30])
messages = st.sampled_from([f"m{count}" for count in range(6)])
topics = st.sampled_from(TOPICS)
keys = st.sampled_from(["k1", "k2"])


@dataclass(frozen=True)
class Plan:
    """What a turn is to do, the same for both stores."""

    what: str
    parks: bool
    delay: int | None
    sees: bool
    consumes: bool
    child: str
    child_workflow: str
    message: tuple[str, str] | None
    publishes: str
    watch: tuple[tuple[str, str], ...]
    unwatch: tuple[str, ...]
    exposes: bool


plans = st.builds(
    Plan,
    what=st.sampled_from(["go on", "go on", "go on", "pause", "complete", "fail", "cancel"]),
    parks=st.booleans(),
    delay=delays,
    sees=st.booleans(),
    consumes=st.booleans(),
    child=st.sampled_from(["", "", *RUNS]),
    child_workflow=st.sampled_from(WORKFLOWS),
    message=st.none() | st.tuples(st.sampled_from([*RUNS, "nobody"]), messages),
    publishes=st.sampled_from(["", "", *TOPICS]),
    watch=st.lists(st.tuples(topics, keys), max_size=2, unique_by=lambda wait: wait[1]).map(tuple),
    unwatch=st.lists(keys, max_size=1).map(tuple),
    exposes=st.booleans(),
)


def planned(holder: Holder, plan: Plan, inbox_last: int) -> Commit | None:
    """The turn, if the run as its holder knows it can take it."""
    run, now = holder.run, holder.world.clock.now()
    if run.end is not None:
        return None
    events: list[e.AnyEvent] = []
    if run.status is Status.PAUSED:
        events.append(e.Resumed())
    match plan.what:
        case "pause":
            events.append(e.Paused(reason="operator"))
        case "complete":
            events.append(DONE)
        case "fail":
            events.append(BOOM)
        case "cancel":
            events.append(STOPPED)
        case _:
            pass
    if plan.exposes:
        events.insert(0, e.Exposed(name="progress", value=msgspec.Raw(b"%d" % run.ordinal)))
    child = holder.child(plan.child, f"c{run.ordinal}", plan.child_workflow) if plan.child else None
    until = None if plan.delay is None else now + seconds(plan.delay)
    return holder.turn(
        *events,
        inbox_seen=inbox_last if plan.sees else 0,
        is_consuming=plan.consumes,
        children=(child,) if child else (),
        messages=(signal(*plan.message),) if plan.message else (),
        publications=(publication(plan.publishes, f"p{run.ordinal}-{holder.id}"),) if plan.publishes else (),
        watch=plan.watch,
        unwatch=plan.unwatch,
        park=Park(until) if plan.parks else None,
    )


def comparable(value: Any) -> Any:
    """The value without what a store may choose for itself."""
    match value:
        case RunRow():
            return msgspec.structs.replace(value, no=0, note="" if not value.note else "some")
        case Row():
            return msgspec.structs.replace(value, seq=0)
        case Tree():
            return msgspec.structs.replace(value, last_seq=0)
        case Committed():
            return ("Committed", value.inbox_last)
        case Unconsumed():
            return (value.no, value.kind, value.body if value.kind != "child" else _ending(value.body))
        case Commit() | Holder():
            raise AssertionError("these are questions, not answers")
        case msgspec.Struct():
            return (type(value).__name__, *(comparable(getattr(value, name)) for name in value.__struct_fields__))
        case dict():
            return {key: comparable(each) for key, each in cast("Any", value).items()}
        case list() | tuple():
            return [comparable(each) for each in cast("Any", value)]
        case _:
            return value


def _ending(body: bytes) -> Any:
    ended = msgspec.json.decode(body, type=e.ChildEnded)
    failure = ended.failure and ended.failure.type
    return (ended.key, ended.run, ended.status, bytes(ended.value), ended.blob, ended.ended_at, failure)
