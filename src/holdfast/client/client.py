"""The client of one store."""

from __future__ import annotations

import copy
import secrets
from collections.abc import AsyncIterator, Awaitable, Sequence
from datetime import datetime, timedelta
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from holdfast.adapters.telemetry.logs import logged
from holdfast.authoring.handle import Run, RunView
from holdfast.authoring.registry import Registry
from holdfast.authoring.script.channels import Channel
from holdfast.authoring.script.workflows import AnyWorkflow, Call, checked_call
from holdfast.client.access import LocalWorker
from holdfast.client.audit import this_user
from holdfast.client.client_run import ClientRun
from holdfast.client.feed import Feeds
from holdfast.client.hidden_values import HiddenValues
from holdfast.client.join import call_with, collected, collected_value, joined_start
from holdfast.client.lost_holders import lost_runs
from holdfast.client.repeated_message import check_repeat
from holdfast.client.run_errors import check_error, find_errors, hiding_of, read_errors, without_hidden
from holdfast.client.run_view import view_of
from holdfast.client.signal_message import deliver, with_signal
from holdfast.client.start_options import DEFAULT, IfExists, StartOptions
from holdfast.client.waiters import Waiting, nowhere
from holdfast.client.watches import Watches
from holdfast.core import events as e
from holdfast.core.attributes import checked_attributes
from holdfast.core.commands import carry
from holdfast.core.definition import DefinitionBytes
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.ids import check_id, check_name
from holdfast.core.instants import instant_after, kept_instant, later
from holdfast.core.message_ids import check_message_id
from holdfast.core.payload import input_hash, is_same_input
from holdfast.core.specs import WorkflowSpec
from holdfast.core.status import Status
from holdfast.core.trace import CurrentTrace, no_trace, trace_now
from holdfast.core.turn import Turn
from holdfast.errors import BlobNotFound, Conflict, InvalidInput, NotAllowedHere, RunNotFound
from holdfast.ports.facts import RunStarted
from holdfast.ports.inbox import Message, publication
from holdfast.ports.runs import Creation, Existing, Filter, Joined, Lacking, Made, NewRun, Replaced, RunRow
from holdfast.ports.store import Store
from holdfast.ports.telemetry import Telemetry
from holdfast.turn.start import new_run, succeeding

R = TypeVar("R")
T = TypeVar("T")

KEY_WINDOW = timedelta(hours=24)

ANY = Filter()

COUNTED = 10_000
"""Default limit when counting runs of a status."""

_LACKING = (
    "a blob that the run needs has been collected: unused blobs are kept only for upkeep.blob_grace. "
    "Nothing was started. Provide the inputs of a batch faster, or raise blob_grace."
)


class Client:
    """Starts and queries runs."""

    def __init__(
        self, store: Store, registry: Registry, keep: timedelta | None = None, *, telemetry: Telemetry | None = None
    ) -> None:
        self.store = store
        self.telemetry: Telemetry = logged() if telemetry is None else telemetry
        self.keep = keep
        self.registry = registry
        self.waiting: Waiting = Waiting(store)
        self.feeds: Feeds = Feeds(store)
        self.watches: Watches = Watches(store, self.feeds)
        self.hidden: HiddenValues = HiddenValues(store)
        self.local: LocalWorker | None = None
        self.current_trace: CurrentTrace = no_trace
        """Returns the caller's trace; called at every start, signal, publication, cancel and retry."""
        self._actor = ""

    @property
    def actor(self) -> str:
        """Who sends signals and operates on runs, as the journal names them."""
        self._actor = self._actor or this_user()
        return self._actor

    @actor.setter
    def actor(self, name: str) -> None:
        self._actor = name

    def acting_as(self, actor: str) -> Self:
        """The same client, acting as another person."""
        other = copy.copy(self)
        other.actor = actor
        return other

    def spec_of(self, row: RunRow) -> WorkflowSpec | None:
        """The definition of a run, if this process has it or its declaration."""
        return self.registry.declared(row.workflow, row.version)

    def handle(self, row: RunRow) -> ClientRun[Any]:
        """The handle of a run that was found."""
        return ClientRun(self, row.id, self.spec_of(row))

    def serve(self, worker: LocalWorker | None) -> LocalWorker | None:
        """Lets that worker begin new runs and report their ends. Returns the previous worker."""
        previous, self.local = self.local, worker
        if previous is not None:
            previous.tell_ends(_ignore_end)
        if worker is not None:
            worker.tell_ends(self.waiting.ended)
        self.waiting.is_settled_here = worker.settles if worker is not None else nowhere
        self.waiting.is_held_here = worker.holds if worker is not None else nowhere
        return previous

    def close(self) -> None:
        self.waiting.close()

    async def start(self, call: Call[R], how: StartOptions = DEFAULT) -> Run[R]:
        """Starts a run; it is durable when this returns. `BlobNotFound` if a blob that it needs has been collected."""
        spec, now = _checked(call, how), self.store.clock.now()
        run_id = check_id(how.id, "run id") if how.id is not None else secrets.token_hex(12)
        blobs: dict[str, bytes] = dict(how.brings or {})
        value, blob, refs = carry(call.args, blobs)
        has_deadline = how.deadline is not None or spec.deadline is not None
        started = e.Started(
            workflow=spec.name,
            version=spec.version,
            code=spec.code,
            style=spec.style,
            queue=check_id(how.queue, "queue"),
            priority=_priority(how.priority),
            key=check_name(how.key, "key") if how.key is not None else "",
            available_at=_after(now, how.delay, "delay") if how.delay is not None else None,
            deadline=_deadline(how.deadline, spec, now) if has_deadline else None,
            keep=spec.keep,
            attributes=checked_attributes(how.attributes) if how.attributes else {},
            actor=self.actor if how.by_hand else "",
            value=value,
            blob=blob,
            refs=refs,
            trace="" if self.current_trace is no_trace else trace_now(self.current_trace),
            share=check_name(how.share, "share") if how.share is not None else "",
        )
        if spec.definition:
            blobs[spec.code] = DefinitionBytes(spec.definition)
        unique, joins = _unique(how), None
        if how.debounce is not None or how.max_wait is not None or how.collects is not None:
            started, joins = joined_start(started, run_id, how, now)
        digest = input_hash(call.args)
        new, turn = new_run(
            run_id, started, now, blobs=blobs, needs=how.needs, input_hash=digest, unique=unique, joins=joins
        )
        run: ClientRun[R] = ClientRun(self, run_id, spec)
        sent: Message | None = None
        if how.signal is not None:
            new, sent = with_signal(self, new, spec, how)
        made = await self._create(run, new, turn, how)
        may_replace = joins is not None or how.if_exists == "replace"
        if may_replace and isinstance(made, Existing) and made.by == "unique":
            made = await self._replace(made, new, turn, how)
        if not isinstance(made, Made):
            run = ClientRun(self, _existing_id(made, spec, new, how.if_exists), spec)
            run.had_ended = isinstance(made, Existing) and made.run.status.is_terminal
            if sent is not None:
                await deliver(self, replace(sent, run=run.id), "the signal of the start", how.connection)
            return run
        run.is_new = True
        if RunStarted in self.telemetry.wanted:
            self.telemetry.tell(RunStarted(run_id, spec.name, spec.version, started.queue))
        return run

    def _create(self, run: ClientRun[Any], new: NewRun, turn: Turn, how: StartOptions) -> Awaitable[Creation]:
        """Creates the run in the caller's transaction, through a worker that begins it at once, or in the store
        alone."""
        started, key_since = new.started, turn.at - KEY_WINDOW
        if how.connection is not None:
            return self.store.create_within(how.connection, new, key_since=key_since)
        # A run that is delayed, or waits for the turn of its share, is not begun at once.
        # One that has a signal reads its inbox first.
        is_plain = started.available_at == turn.at and not started.share and new.message is None
        local = self.local if is_plain else None
        if local is not None and local.wants(started.workflow, started.version, started.queue):
            run.expect()
            return local.make(new, turn, key_since=key_since, is_named=how.id is not None)
        return self.store.create(new, key_since=key_since)

    async def collect(
        self,
        workflow: AnyWorkflow[..., R],
        item: object,
        *,
        into: str,
        within: Duration,
        most: int,
        queue: str = "default",
        unique: str | None = None,
    ) -> Run[R]:
        """Gives the item to a run that collects, or to a new one."""
        how = collected(workflow.spec, into, within, most)
        call: Call[R] = call_with(workflow.spec, item, into)
        return await self.start(call, StartOptions(collects=how, queue=queue, unique=unique))

    async def _replace(self, met: Existing, new: NewRun, turn: Turn, how: StartOptions) -> Creation:
        """In the place of the run that was met."""
        from holdfast.client.replacement import follow, replace  # few need it

        def create(replaced: Replaced, after: tuple[str, ...]) -> Awaitable[Creation]:
            successor, since = succeeding(new, turn, replaced, after), turn.at - KEY_WINDOW
            if how.connection is not None:
                return self.store.create_within(how.connection, successor, key_since=since)
            return self.store.create(successor, key_since=since)

        if new.joins is not None:
            return await follow(met, create)
        return await replace(self, met, new.row.run, create, is_joined=how.connection is not None)

    async def get(self, id: str, workflow: AnyWorkflow[..., R] | None = None) -> Run[Any]:
        """The run with that id."""
        row = await self.store.get(check_id(id, "run id"))
        if row is None:
            raise RunNotFound(f"no run {id!r} in {self.store.url}; list what is there with app.runs()")
        if workflow is not None and workflow.name != row.workflow:
            raise Conflict(f"run {id!r} is of workflow {row.workflow!r}, not {workflow.name!r}")
        spec = workflow.spec if workflow is not None else self.registry.declared(row.workflow, row.version)
        return ClientRun(self, row.id, spec)

    async def runs(self, which: Filter = ANY, *, limit: int | None = None, error: str = "") -> AsyncIterator[RunView]:
        """Runs in the order of the filter; pages are fetched as they are needed."""
        left, after = limit, ""
        while left is None or left > 0:
            most = 100 if left is None else min(100, left)
            views, after, _ = await self.look(which, after=after, limit=most, error=error)
            for view in views:
                yield view
            if not after:
                return
            left = None if left is None else left - len(views)

    async def count(self, which: Filter, *, by: str = "status", at_most: int = COUNTED) -> dict[Status, int]:
        """The number of runs of each status that match the filter, each counted up to `at_most`."""
        if by != "status":
            raise InvalidInput(f"count(by={by!r}): use by='status'")
        if isinstance(at_most, bool) or not isinstance(at_most, int) or at_most < 1:
            raise InvalidInput(f"count(at_most={at_most!r}): give a whole number of at least 1")
        return await self.store.tally(which, at_most=at_most)

    async def page(self, which: Filter, *, after: str = "", limit: int = 100) -> tuple[list[RunView], str]:
        """One page, and the cursor of the next."""
        views, after, _ = await self.look(which, after=after, limit=limit)
        return views, after

    async def look(
        self, which: Filter, *, after: str = "", limit: int = 100, error: str = ""
    ) -> tuple[list[RunView], str, int]:
        """One page, the cursor of the next, and how many runs were looked at. With `error` only runs whose error
        contains that text: of a bounded number of runs, so a page may be empty and not the last."""
        if error:
            found = await find_errors(self.store, which, check_error(error), after=after, limit=limit)
            return await self.views(found.runs), found.next, found.looked_at
        page = await self.store.list(which, after=after, limit=limit)
        return await self.views(page.runs), page.next, len(page.runs)

    async def views(self, rows: Sequence[RunRow]) -> list[RunView]:
        """Rows for people, with the first line of the reason for runs that did not complete, and a note on runs whose
        worker has gone: two more queries for all. Those that tell of an error are read for what they must not show."""
        hiding = await hiding_of(self, rows)
        lost, errors = await lost_runs(self.store, rows), await read_errors(self.store, rows, hiding)
        now = self.store.clock.now()
        views = [view_of(row, now, errors.get(row.no, ""), lost.get(row.no, "")) for row in rows]
        return [without_hidden(view, hiding, row.no) for view, row in zip(views, rows, strict=True)]

    async def publish(self, topic: Channel[T], value: T, *, id: str | None = None) -> list[str]:
        """Sends to every run waiting on the topic now; returns their ids."""
        _check_topic(topic, "publish")
        blobs: dict[str, bytes] = {}
        raw, blob, refs = carry(topic.encode(value), blobs)
        message = check_message_id(id) if id is not None else secrets.token_hex(12)
        trace, who = trace_now(self.current_trace), self.actor
        event = e.TopicReceived(
            key="", message=message, name=topic.name, sender=who, value=raw, blob=blob, refs=refs, trace=trace
        )
        sent = publication(topic.name, message, event, blobs=tuple(blobs.items()))
        if id is not None:
            check_repeat(await self.store.published(topic.name, id), id, sent.body, f"topic {topic.name}")
        return list(await self.store.publish(sent))

    async def watching(self, topic: Channel[Any]) -> list[str]:
        """Ids of the runs waiting on the topic now."""
        _check_topic(topic, "waiting")
        return [watcher.run for watcher in await self.store.watchers(topic.name)]


def _ignore_end(end: e.ChildEnded) -> None:
    return None


def _checked(call: Call[Any], how: StartOptions) -> WorkflowSpec:
    """The workflow to start. Raises what is wrong with the call or its options."""
    if not isinstance(call, Call):
        checked_call(call, "app.start")
    if how.if_exists not in {None, "return", "reject", "replace"}:
        raise InvalidInput(
            f"if_exists={how.if_exists!r}: use 'return' (the existing run, whatever its input), 'reject', or 'replace' "
            "with unique="
        )
    if how.if_exists == "replace" and how.unique is None:
        raise InvalidInput(
            'if_exists="replace" needs unique=: the open run that has that value is cancelled, and the new one takes '
            "its place"
        )
    return call.spec


def _check_topic(channel: Channel[Any], verb: str) -> None:
    if isinstance(channel, Channel) and channel.kind == "topic":
        return
    if not isinstance(channel, Channel):
        raise InvalidInput(f"app.{verb}() takes a topic such as Topic[int]('prices'), got {channel!r}")
    advice = f"await run.signal({channel.name}, …)" if verb == "publish" else "look at `waiting` of app.runs()"
    raise NotAllowedHere(f"app.{verb}({channel.name}): {channel.name} is a Signal, which goes to one run: {advice}")


def _existing_id(made: Existing | Joined | Lacking, spec: WorkflowSpec, new: NewRun, if_exists: IfExists | None) -> str:
    """The run that has the id, key or unique value, if it may be returned. Else an error: nothing was started."""
    if isinstance(made, Lacking):
        raise BlobNotFound(_LACKING)
    if isinstance(made, Joined):
        return made.run.id
    row, what = made.run, "unique value" if made.by == "unique" else made.by
    name = {
        "id": f"run {row.id!r} exists",
        "key": f"key {row.key!r} was used less than 24 h ago for run {row.id}",
        "unique": f"unique={new.unique!r}: run {row.id} of {spec.name} has this value until it ends",
    }[made.by]
    if if_exists == "reject":
        why = f'{name} ({row.status.value}), and if_exists="reject" was given: nothing was started'
        raise Conflict(why, run=row.id)
    if row.workflow != spec.name:
        why = f"{name}, and it is of workflow {row.workflow!r}; choose another {what} for {spec.name!r}"
        raise Conflict(why, run=row.id)
    if if_exists in {None, "replace"} and not is_same_input(row.input_hash, new.input_hash):
        why = (
            f"{name}, with different input: nothing was started. Use a different {what} for a different request, or "
            'if_exists="return" to get that run whatever its input'
        )
        raise Conflict(why, run=row.id)
    return row.id


def _unique(how: StartOptions) -> str:
    if how.collects is not None:
        return collected_value(how.collects, how.queue, how.unique)
    return check_id(how.unique, "unique") if how.unique is not None else ""


def _priority(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -1_000_000 <= value <= 1_000_000:
        raise InvalidInput(f"priority={value!r}: give a whole number between -1,000,000 and 1,000,000")
    return value


def _deadline(value: Duration | datetime | None, spec: WorkflowSpec, now: datetime) -> datetime | None:
    if value is None:
        return later(now, spec.deadline) if spec.deadline is not None else None
    if isinstance(value, datetime):
        return kept_instant(value, "deadline")
    return _after(now, value, "deadline")


def _after(now: datetime, value: Duration, what: str) -> datetime:
    return instant_after(now, parse_duration(value, what=what), what)
