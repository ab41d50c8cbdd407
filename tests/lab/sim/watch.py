"""The watch: sees every call as the store answers it, keeps what each run must be, and says what is wrong."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.authoring.batch.child_batch import read_results
from holdfast.authoring.script.context import StepScope
from holdfast.core import events as e
from holdfast.core.run import Run
from holdfast.core.turn import Row, Turn, decode_row, is_compacted
from holdfast.ports.journal import Commit, Committed, Fenced, Verdict
from holdfast.ports.leases import Beat, ClaimRequest, Claims, Taken, Taking
from holdfast.ports.limits import PlaceAnswer
from holdfast.ports.runs import Creation, Existing, Made, RunRow
from holdfast.ports.schedules import Move, Moved, Moving
from holdfast.ports.store import Store
from holdfast.ports.upkeep import Collected, Removed
from tests.lab.sim import receipts
from tests.lab.sim.conversations import stored_before, wrong_calls
from tests.lab.sim.holding import (
    Holding,
    Traces,
    is_to_be_refused,
    s3_no_trace,
    s3_no_trace_among_others,
    s3_release,
    traces_of,
)
from tests.lab.sim.invariants import (
    OF_BODIES,
    OF_ROWS,
    Attempt,
    Begun,
    Known,
    Written,
    s5_awake,
    s12_watches,
    s13_wakes,
)
from tests.lab.sim.knocks import has_once_in_flight
from tests.lab.sim.meeting import met_in
from tests.lab.sim.place_ledger import PlaceLedger
from tests.lab.sim.places import s16_places
from tests.lab.sim.slots import SlotLedger
from tests.lab.sim.workflows import inside, leave, rumour

if TYPE_CHECKING:
    from tests.lab.sim.world import World

Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]


class Watch:
    """See the module. `problems` is empty as long as everything holds."""

    def __init__(self, store: Store, world: World) -> None:
        self._store = store
        self._world = world
        self.runs: dict[str, Known] = {}
        self.problems: list[str] = []
        self.met: Counter[str] = world.met
        self._trace = blake2b(digest_size=16)
        self._keys: dict[str, str] = {}
        self._names: dict[int, str] = {}
        self.holding = Holding(world.clock, world.scenario.max_claims)
        self.asked_at = 0.0
        """When somebody last claimed, or was given, a run."""
        self.had_room_at = 0.0
        """When somebody last claimed and could have taken more."""
        self._places = PlaceLedger(self._row_of)
        self.slots = SlotLedger(world, store)
        self.story: list[str] | None = None
        self.until_end: Counter[str] = Counter()
        self._looks: dict[str, Callable[..., Awaitable[None]]] = {
            "commit": self._committed,
            "create": self._created,
            "claim": self._claimed,
            "take": self._taken,
            "release": self._released,
            "release_all": self._all_released,
            "register": self._registered,
            "reinstate": self._reinstated,
            "remove": self._removed,
            "collect": self._collected,
            "move_places": self._moved_places,
            "move_schedule": self._moved_schedule,
        }

    # -- calls ---------------------------------------------------------------------------------------------------------

    async def call(
        self, actor: int, name: str, found: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Makes the call, and looks at what came of it."""
        self.note(f"{actor} {name}")
        look = self._looks.get(name)
        before = await self._before(name, args)
        answer = await found(*args, **kwargs)
        if look is not None:
            try:
                await look(actor, answer, args, kwargs, before)
            except Exception as error:  # noqa: BLE001 the engine would take it for the store's
                self.wrong("watch", "any", "".join(traceback.format_exception(error)))
        return answer

    async def _before(self, name: str, args: Args) -> list[Any]:
        """What a call that may be refused would change."""
        if name == "release":
            return [await self._store.get(self._names.get(args[0], ""))]
        found: list[RunRow | Traces | None] = []
        for commit in args[0] if name == "commit" else ():
            row = await self._store.get(commit.row.run)
            is_alone = len(args[0]) == 1
            found.append(await traces_of(self._store, commit) if is_alone and is_to_be_refused(commit, row) else row)
        return found

    def note(self, what: str) -> None:
        """One line of the trace."""
        line = f"{self._world.loop.time():.6f} {what}"
        self._trace.update(line.encode())
        if self.story is not None:
            self.story.append(line)

    def say(self, what: str) -> None:
        """A line of the story that is no part of the trace."""
        if self.story is not None:
            self.story.append(f"{self._world.loop.time():.6f}    {what}")

    @property
    def trace(self) -> str:
        """What happened, in one short text."""
        return self._trace.hexdigest()

    def wrong(self, promise: str, run: str, what: str) -> None:
        """Something does not hold."""
        self.problems.append(f"{promise}: run {run}: {what}")
        self.say(f"WRONG {self.problems[-1]}")

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def _committed(
        self, actor: int, verdicts: Sequence[Verdict], args: Args, kwargs: Kwargs, before: list[Any]
    ) -> None:
        if len({commit.row.run for commit in args[0]}) < len(args[0]):
            self.wrong("contract", args[0][0].row.run, "one transaction holds two turns of a run")
        for commit, earlier, verdict in zip(args[0], before, verdicts, strict=True):
            if isinstance(verdict, Committed):
                known = self.runs.get(commit.row.run)
                if known is not None and known.fold.ordinal >= commit.row.ordinal:
                    self.met["ambiguous commit resolved"] += 1
                else:
                    await self._accepted(actor, commit.row, commit)
            else:
                if isinstance(earlier, dict):
                    left = s3_no_trace(commit, earlier, await traces_of(self._store, commit))
                else:
                    left = s3_no_trace_among_others(commit, earlier, await self._store.get(commit.row.run))
                for problem in left:
                    self.wrong("S3", commit.row.run, problem)
                if isinstance(verdict, Fenced):
                    self._refused(commit)
                else:
                    self.met["signal-vs-park race"] += 1
                    settled = {
                        x.key for x in decode_row(commit.row).events if isinstance(x, e.StepCompleted | e.StepFailed)
                    }
                    is_left = has_once_in_flight(self.runs[commit.row.run].fold, but=settled)
                    self.met["end refused with a once step in flight"] += is_left
                    self.say(f"{commit.row.run}: its end was refused, messages are unread")

    def _refused(self, commit: Commit) -> None:
        known = self.runs.get(commit.row.run)
        self.met["fenced append"] += 1
        self.say(f"{commit.row.run} row {commit.row.ordinal} epoch {commit.row.epoch}: fenced")
        if known is None:
            return
        holders = known.holders
        if holders.get(commit.row.epoch) is not None and holders.get(commit.row.epoch) == holders.get(max(holders)):
            self.met["ABA re-claim"] += 1

    async def _created(self, actor: int, answer: Creation, args: Args, kwargs: Kwargs, before: object) -> None:
        first: Commit | None = kwargs.get("first")
        if not isinstance(answer, Made):
            self.met["same-key concurrent start"] += isinstance(answer, Existing) and answer.by == "key"
            return
        name = answer.run.id
        if answer.run.key and self._keys.setdefault(answer.run.key, name) in self.runs:
            self.wrong("S11", name, f"key {answer.run.key} belongs to {self._keys[answer.run.key]}, and is used again")
        self._keys[answer.run.key] = name
        rows = (await self._store.read({answer.run.no: 1}))[answer.run.no]
        self.runs[name] = Known(Run(name))
        self.holding.learn_claims(answer.run)
        if answer.run.epoch:
            self._granted(actor, answer.run)
        self._take(actor, rows[0], [rows[0]], await self._row(name), None)
        if first is not None and answer.first is not None:
            await self._accepted(actor, first.row, first)

    async def _accepted(self, actor: int, row: Row, commit: Commit) -> None:
        run = await self._row(row.run)
        if commit.is_terminal or commit.park is not None:
            self.holding.given_back(run.id)
        stored = (await self._store.read({run.no: row.ordinal}))[run.no]
        is_watching = _has_topic(self.runs[row.run])
        self._take(actor, row, stored, run, commit)
        if is_watching or _has_topic(self.runs[row.run]):
            watched = {each.key for each in await self._store.watchers(rumour.name) if each.run == row.run}
            for problem in s12_watches(self.runs[row.run].fold, watched):
                self.wrong("S12", row.run, problem)
        for child in commit.children:
            name = child.row.run
            if name not in self.runs:
                made = await self._store.get(name)
                if made is None:
                    self.wrong("S5", row.run, f"row {row.ordinal} starts child {name}, which is not there")
                    continue
                self.runs[name] = Known(Run(name))
                first = (await self._store.read({made.no: 1}))[made.no]
                self._take(actor, first[0], [first[0]], made, None)
        for message in commit.messages:
            target = await self._store.get(message.run)
            if target is not None:
                for problem in s5_awake(target, self._world.clock.now()):
                    self.wrong("S5", target.id, problem)
            if message.reply and (lost := await receipts.what_is_wrong(self._store, message, target, run)):
                self.wrong("S12", row.run, lost)
        if commit.park is not None and run.inbox_last > commit.inbox_seen:
            self.met["signal-vs-park race"] += 1
        self.runs[row.run].has_blobs |= bool(commit.blobs)
        for blob in commit.blobs:
            if await self._store.blob_kind(blob) is None:
                self.wrong("S18", row.run, f"row {row.ordinal} names blob {blob[:8]}, which is not there")
        self.met["piece stored before"] += stored_before(row, commit.blobs)
        for problem in await wrong_calls(self._store, row):
            self.wrong("S18", row.run, problem)

    async def _row(self, name: str) -> RunRow:
        row = await self._store.get(name)
        assert row is not None, name
        return row

    def _take(self, actor: int, row: Row, stored: list[Row], run: RunRow, commit: Commit | None) -> None:
        known = self.runs[row.run]
        self._names[run.no] = row.run
        turn = decode_row(row)
        identity = known.fold.identity
        self._time(known, turn)
        self._owe(known, turn)
        self.met.update(met_in(known.fold, turn))
        ended_in = known.ended_in
        known.messages += [x.message for x in turn.events if isinstance(x, e.SignalReceived)]
        known.heard += [(x.message, identity, x.key) for x in turn.events if isinstance(x, e.TopicReceived)]
        try:
            known.fold.apply(turn)
        except Exception as error:  # noqa: BLE001 whatever the fold refuses is wrong
            self.wrong("S1", row.run, f"row {row.ordinal} cannot follow the rows before it: {error}")
            return
        written = Written(
            known, identity, turn, stored, run, actor, commit, self._world.holds, self._world.clock.latest
        )
        for check in OF_ROWS:
            for problem in check(written):
                self.wrong(check.__name__[: check.__name__.index("_")].upper(), row.run, problem)
        if commit is not None:
            for problem in self.holding.l5_kept(run, turn):
                self.wrong("L5", row.run, problem)
        self._learn(known, identity, turn)
        known.rows += stored
        self._trace.update(row.checksum)
        if turn.events and isinstance(turn.events[-1], e.TERMINAL) and not ended_in:
            known.ended_in = turn.epoch
            self.until_end = self._world.boundaries.copy()
        if self.story is not None:
            kinds = " ".join(_named(event) for event in turn.events)
            self.say(f"{row.run} row {row.ordinal} epoch {row.epoch}: {kinds}")

    def _time(self, known: Known, turn: Turn) -> None:
        """When each wait by time is over, from the rows before."""
        known.timers = {key: wait.until for key, wait in known.fold.waits.items() if wait.until is not None}

    def _owe(self, known: Known, turn: Turn) -> None:
        """What a run owes before it may end by itself, from the rows before and this one."""
        fold = known.fold
        is_stopping = fold.cancel is not None or fold.past_deadline is not None
        stops = not is_stopping and _stops(turn)
        for event in turn.events:
            match event:
                case e.CancelRequested() if fold.cancel is None:
                    waits = fold.waits.values()
                    known.owed |= {wait.run for wait in waits if wait.kind == "child" and wait.on_cancel == "cancel"}
                case e.MessageSent(kind="cancel"):
                    known.owed.discard(event.to)
                case e.ChildEnded():
                    known.owed.discard(event.run)
                case e.StepScheduled() if event.step == read_results.name:
                    known.readings.add(event.key)
                case e.StepScheduled() if (event.step or event.key) == inside.name:
                    known.guards += 1
                case e.StepScheduled() if (event.step or event.key) == leave.name:
                    known.guards -= 1
                    if is_stopping or stops:
                        known.cleanups.add(event.key)
                case e.StepCompleted():
                    known.cleanups.discard(event.key)
                case e.StepAbandoned() if stops:  # begun because its body was done, and then interrupted
                    known.cleanups.discard(event.key)
                case _:
                    pass
        if stops and any(isinstance(event, e.StepCompleted | e.StepFailed) for event in turn.events):
            known.guards = 0  # likewise, and the run may have ended with it

    def _learn(self, known: Known, identity: str, turn: Turn) -> None:
        for event in turn.events:
            match event:
                case e.StepScheduled() | e.AttemptStarted():
                    self._attempt(known, identity, event.key, turn.epoch, is_new=True)
                case e.Claimed():
                    for key in (*event.restarted, *event.begun):
                        self._attempt(known, identity, key, turn.epoch, is_new=key in event.restarted)
                    if event.restarted:
                        self.met["takeover"] += 1
                        if sum(1 for each in known.attempts if each[:2] == (identity, event.restarted[0])) > 2:
                            self.met["double crash"] += 1
                case e.StepCompleted():
                    known.completions[identity, event.key] = turn.epoch
                case e.TimerFired() if event.key in known.timers:
                    known.fired.add((identity, event.key, known.timers[event.key]))
                    if (turn.at - known.timers[event.key]).total_seconds() > 1:
                        self.met["overdue timer"] += 1
                case e.Paused():
                    self.met[{"quarantined": "quarantine", "diverged": "divergence"}.get(event.reason, "paused")] += 1
                case _:
                    pass

    def has_asked(self, run: str, identity: str, key: str) -> bool:
        """Whether that life of the run asked for the step."""
        known = self.runs.get(run)
        return known is not None and any(each[:2] == (identity, key) for each in known.attempts)

    def _attempt(self, known: Known, identity: str, key: str, epoch: int, *, is_new: bool) -> None:
        step = known.fold.steps.get(key)
        if step is not None:
            known.attempts[identity, key, step.attempt] = epoch
            known.allowed[identity, key, step.attempt] += is_new

    # -- leases --------------------------------------------------------------------------------------------------------

    async def _claimed(self, actor: int, claims: Claims, args: Args, kwargs: Kwargs, before: object) -> None:
        self.asked_at = self._world.loop.time()
        request: ClaimRequest = args[0]
        has_room = not request.only and len(claims.runs) < request.limit
        if has_room and request.worker.definitions == self._world.registry.held:
            self.had_room_at = self.asked_at
        for run in claims.runs:
            for problem in self.holding.l5_counted(run):
                self.wrong("L5", run.id, problem)
            self._granted(actor, run)
        for problem in await s16_places(self._store, self._world.scenario, claims.runs):
            self.wrong("S16", claims.runs[0].id, problem)

    async def _taken(self, actor: int, taking: Taking, args: Args, kwargs: Kwargs, before: object) -> None:
        if isinstance(taking, Taken):
            if kwargs.get("steal"):
                self.holding.given_back(taking.run.id)
            self._granted(actor, taking.run)

    async def _released(self, actor: int, is_done: bool, args: Args, kwargs: Kwargs, before: list[Any]) -> None:
        known = self.runs.get(self._names.get(args[0], ""))
        if known is None:
            return
        row = await self._row(known.fold.id)
        for problem in s3_release(before[0], row, kwargs["epoch"], is_done=is_done):
            self.wrong("S3", known.fold.id, problem)
        if not is_done:
            return
        self.holding.given_back(row.id)
        self.holding.learn_claims(row)
        if kwargs["until"] is not None and known.fold.epoch < kwargs["epoch"]:
            return  # put off by somebody who could not open it
        for problem in s13_wakes(known.fold, row, self._world.clock.latest):
            self.wrong("S13", known.fold.id, problem)

    async def _all_released(self, actor: int, count: int, args: Args, kwargs: Kwargs, before: object) -> None:
        self.holding.ended(args[0])
        for name in self.runs:
            self.holding.learn_claims(await self._row(name))

    async def _registered(self, actor: int, freed: object, args: Args, kwargs: Kwargs, before: object) -> None:
        self.holding.registered(*args, **kwargs)

    async def _reinstated(self, actor: int, is_done: bool, args: Args, kwargs: Kwargs, before: object) -> None:
        self.met["owner written back"] += is_done
        self.holding.written_back(args[0], kwargs["instance"], is_done=is_done)

    def _granted(self, actor: int, run: RunRow) -> None:
        known = self.runs.get(run.id)
        if known is None:
            return
        self.asked_at = self._world.loop.time()
        self.say(f"{run.id} epoch {run.epoch} goes to {actor}")
        holder = known.holders.setdefault(run.epoch, actor)
        if holder != actor or run.epoch < max(known.holders):
            self.wrong("S16", run.id, f"epoch {run.epoch} is given to {actor} after {known.holders}")
        for problem in self.holding.s16_is_free(run):
            self.wrong("S16", run.id, problem)
        self.holding.granted(run)

    def beaten(self, actor: int, instance: str, ttl: timedelta, beat: Beat) -> None:
        """A heartbeat was accepted."""
        self.holding.beaten(instance, ttl)
        self.note(f"{actor} beat {beat.orphaned}")
        if beat.has_lapsed:
            self.met["lapsed lease"] += 1

    # -- upkeep --------------------------------------------------------------------------------------------------------

    async def _removed(self, actor: int, removed: Removed, args: Args, kwargs: Kwargs, before: object) -> None:
        if not removed.trees:
            return
        for name in [name for name in self.runs if await self._store.get(name) is None]:
            if not self.runs[name].ended_in:
                self.wrong("S2", name, "was removed before it ended")
            del self.runs[name]
            self.met["removed run"] += 1

    async def _collected(self, actor: int, answer: Collected, args: Args, kwargs: Kwargs, before: object) -> None:
        gone = set(answer.names)
        self.met["blob GC race"] += any(known.has_blobs and not known.ended_in for known in self.runs.values())
        for name, known in self.runs.items():
            for row in known.rows:
                if gone and any(blob.encode() in row.body for blob in gone) and not await self._is_compacted(name, row):
                    self.wrong("S18", name, f"row {row.ordinal} names a blob that was collected")

    async def _moved_places(self, actor: int, answer: PlaceAnswer, args: Args, kwargs: Kwargs, before: object) -> None:
        for problem in await self._places.moved(args[0], answer):
            self.wrong("S16", self._names.get(args[0].no, ""), problem)
        self.met["waited for a limit"] += len(answer.granted) < len(args[0].asks)

    async def _moved_schedule(self, actor: int, answer: Moving, args: Args, kwargs: Kwargs, before: object) -> None:
        move: Move = args[0]
        for problem in await self.slots.moved(move, answer):
            self.wrong("C7", move.name, problem)
        for name in answer.made if isinstance(answer, Moved) else ():
            self.say(f"schedule {move.name} starts {name}")
            made = await self._row(name)
            self.runs[name] = Known(Run(name))
            self.holding.learn_claims(made)
            first = (await self._store.read({made.no: 1}))[made.no]
            self._take(actor, first[0], [first[0]], made, None)

    async def _row_of(self, no: int) -> RunRow | None:
        return await self._store.get(self._names.get(no, ""))

    async def _is_compacted(self, name: str, row: Row) -> bool:
        run = await self._row(name)
        stored = (await self._store.read({run.no: row.ordinal}))[run.no]
        return not stored or (is_compacted(stored[0]) and stored[0].ordinal > row.ordinal)

    # -- the ledger ----------------------------------------------------------------------------------------------------

    def begun(self, actor: int, scope: StepScope, *, is_once: bool) -> None:
        """A body begins."""
        known = self.runs.get(scope.run)
        self.note(f"{actor} body {scope.run} {scope.key} {scope.attempt}")
        if known is None:  # removed: somebody was cut off for long
            return
        attempt: Attempt = (scope.identity, scope.key, scope.attempt)
        begun = Begun(known, attempt, actor, is_once)
        for check in OF_BODIES:
            for problem in check(begun):
                self.wrong(check.__name__[: check.__name__.index("_")].upper(), scope.run, problem)
        for problem in self.holding.l5_quarantined(scope.run, known.attempts.get(attempt, 0)):
            self.wrong("L5", scope.run, problem)
        known.executions[attempt] += 1


def _has_topic(known: Known) -> bool:
    return any(wait.kind == "topic" for wait in known.fold.waits.values())


def _stops(turn: Turn) -> bool:
    return any(isinstance(event, e.CancelRequested | e.DeadlineReached) for event in turn.events)


def _named(event: e.AnyEvent) -> str:
    kind = str(event.__struct_config__.tag)
    key = getattr(event, "key", "") or getattr(event, "reason", "") or getattr(event, "worker", "")
    return f"{kind}({key})" if key else kind
