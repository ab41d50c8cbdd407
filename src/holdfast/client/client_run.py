"""`ClientRun`: a run as a client sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from textwrap import indent
from typing import Any, TypeVar, cast

import msgspec

from holdfast.authoring.handle import JournalEvent, Part, RedactionResult, Run, RunView, StoredMessage
from holdfast.authoring.script.channels import Channel, RunVar
from holdfast.authoring.script.context import find_program
from holdfast.authoring.script.stream import Sent
from holdfast.authoring.script.update import AnyUpdate
from holdfast.authoring.script.verdicts import run_error
from holdfast.client import deletion, inquiry, operator_acts, run_redaction, stream_reader, unread_messages
from holdfast.client.access import Access
from holdfast.client.lost_holders import lost_runs
from holdfast.client.run_errors import hiding_of, read_errors, without_hidden
from holdfast.client.run_view import view_of
from holdfast.client.signal_message import deliver, signal_message
from holdfast.core import events as e
from holdfast.core.acceptance import refusal
from holdfast.core.durations import Duration, format_duration, parse_duration
from holdfast.core.failure import Failure
from holdfast.core.messages import encode_event, ended
from holdfast.core.redacted import whole
from holdfast.core.redaction import NOTHING_HIDDEN
from holdfast.core.specs import WorkflowSpec
from holdfast.core.status import Status
from holdfast.core.turn import Turn, decode_row, last_turn
from holdfast.errors import (
    InvalidInput,
    NotAllowedHere,
    ResultTimeout,
    RunCancelled,
    RunFailed,
    RunNotFound,
)
from holdfast.ports.inbox import Message
from holdfast.ports.runs import RunRow
from holdfast.turn.payloads import inline

R = TypeVar("R")
T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")

KEPT_END = (
    "The run ended before this call. It keeps its outcome, even if the code has changed since. To run it from the "
    "beginning, use a different id, or first `holdfast delete {run}`. To continue where it failed: "
    "`holdfast retry {run}`, which makes a new run with its own id."
)


class ClientRun(Run[R]):
    """A handle that asks the store."""

    def __init__(self, client: Access, id: str, spec: WorkflowSpec | None) -> None:
        super().__init__(id)
        self._access = client
        self._spec = spec
        self._end: e.ChildEnded | None = None
        self._is_expected = False
        self.is_new: bool = False
        """Whether the start that returned this handle made the run."""
        self.had_ended: bool = False
        """Whether the run had ended before the start that returned this handle."""

    def expect(self) -> None:
        """The run is about to begin in this process, which will report its end."""
        self._is_expected = True
        self._access.waiting.expect(self)

    def told(self, end: e.ChildEnded) -> None:
        """The run began and ended in this process, with this outcome."""
        self._end = end

    @property
    def _client(self) -> Access:
        """The way to the store, except in a workflow."""
        if find_program() is not None:
            raise NotAllowedHere(
                f"the handle of run {self.id} was used in a workflow, which would do the same again on every replay: "
                "use signals and children there, or use the handle in a step"
            )
        return self._access

    async def _row(self) -> RunRow:
        row = await self._client.store.get(self.id)
        if row is None:
            raise RunNotFound(f"no run {self.id!r} in {self._client.store.url}")
        return row

    async def status(self) -> Status:
        """The run's status."""
        return (await self._row()).status

    async def view(self) -> RunView:
        """Everything the run's row says."""
        row, store = await self._row(), self._client.store
        hiding = await hiding_of(self._client, [row])
        lost, errors = await lost_runs(store, [row]), await read_errors(store, [row], hiding)
        view = view_of(row, store.clock.now(), errors.get(row.no, ""), lost.get(row.no, ""))
        return without_hidden(view, hiding, row.no)

    async def wait(self, timeout: Duration | None = None) -> Status | None:
        """Waits for the end and returns how the run ended; None if the time runs out first."""
        found = await self._waited(timeout)
        return None if found is None else Status(found.status)

    async def _waited(
        self, timeout: Duration | None, paused: Callable[[RunRow], None] | None = None
    ) -> e.ChildEnded | RunRow | None:
        """The run's end if this process already knows it, else its row; None if the time runs out first."""
        if find_program() is not None:
            raise NotAllowedHere("waiting for a run through the app in a workflow: await the workflow itself (a child)")
        loop = asyncio.get_running_loop()
        limit = None if timeout is None else parse_duration(timeout, what="timeout").total_seconds()
        until = None if limit is None else loop.time() + limit
        local = self._access.local
        waiting = self._access.waiting
        if self._is_expected and self._end is None and waiting.is_quiet and local is not None and local.holds(self.id):
            await asyncio.sleep(0)  # a short run that is alone ends in this pass of the loop: that takes no listener
        if self._end is not None:
            return self._end
        with waiting.listen(self.id) as news:
            is_known_to_run = self._is_expected and local is not None and local.holds(self.id)
            self._is_expected = False
            while True:
                if news.end is not None:
                    return news.end
                if not is_known_to_run:
                    row = await self._row()
                    if row.status.is_terminal:
                        return row
                    if row.status is Status.PAUSED and paused is not None:
                        paused(row)
                is_known_to_run = False
                left = None if until is None else until - loop.time()
                if left is not None and left <= 0:
                    return None
                await news.next(left)

    async def result(self, timeout: Duration | None = None) -> R:
        """Waits for the end and returns the result, or raises the error the run ended with."""
        return await self.result_or_pause(None, timeout)

    async def result_or_pause(self, paused: Callable[[RunRow], None] | None, timeout: Duration | None) -> R:
        """`result`. Calls `paused` whenever it finds the run paused; what that raises ends the wait."""
        found = await self._waited(timeout, paused)
        if found is None:
            assert timeout is not None
            limit = format_duration(parse_duration(timeout, what="timeout"))
            doing = (await self.view()).waiting
            raise ResultTimeout(f"run {self.id} has not ended within {limit}: {doing}. It continues; ask again later.")
        end = await self._stored_end(found) if isinstance(found, RunRow) else found
        if end.blob:
            end = cast("e.ChildEnded", inline(end, await self._client.store.get_blobs([end.blob])))
        if end.status == "completed":
            whole(end.value, self.id, "its result")
            return cast("R", self._spec.result.decode(end.value) if self._spec else msgspec.json.decode(end.value))
        error = end_error(end, self._spec)
        if self.had_ended:
            error.add_note(KEPT_END.format(run=self.id))
        raise error

    async def _stored_end(self, row: RunRow) -> e.ChildEnded:
        turn = last_turn(self.id, (await self._client.store.read({row.no: row.next_ordinal - 2}))[row.no])
        terminal = cast("e.Terminal", turn.events[-1])
        return ended(self.id, terminal, turn.at, "")

    async def signal(
        self, channel: Channel[T], value: T, *, id: str | None = None, connection: object | None = None
    ) -> None:
        """Sends a signal: durable when this returns, delivered exactly once."""
        message, data = signal_message(self._client, self.id, channel, value, id)
        await self._check_accepted(channel.name, data)
        await deliver(self._client, message, f"signal {channel.name}", connection)

    async def update(
        self, update: AnyUpdate[Q, A], value: Q, *, id: str | None = None, timeout: Duration | None = None
    ) -> A:
        """Asks the run and waits for its answer."""
        return await inquiry.ask(self._access, self.id, self._spec, update, value, id, timeout)

    async def _check_accepted(self, name: str, data: bytes) -> None:
        """Refuses a signal that the run would not take. Checks the definition of the handle first; the run may have
        another by now, so its row decides."""
        if self._spec is None or refusal(self._spec, name, data) is None:
            return
        spec = self._client.spec_of(await self._row())
        why = refusal(spec, name, data) if spec is not None else None
        if why is not None:
            raise InvalidInput(f"run {self.id}: {why} Nothing was sent.")

    async def send(self, message: Message, what: str) -> None:
        """Puts a message into the run's inbox."""
        await deliver(self._client, message, what)

    async def get(self, var: RunVar[T]) -> T | None:
        """A value that the run exposes."""
        found = await self._client.store.exposed(self.id, _checked("get", var).name)
        if found is None:
            await self._row()
            return None
        return var.shape.decode(await self._shown(var, *found))

    async def _shown(self, var: RunVar[Any], value: bytes, blob: str) -> bytes:
        data = await self._client.store.get_blob(blob) if blob else value
        return whole(data, self.id, f"its value {var.name}")

    async def watch(self, var: RunVar[T]) -> AsyncIterator[T]:
        """A value that the run exposes: now, then the newest after each change, until the run ends."""
        if find_program() is not None:
            raise NotAllowedHere(f"run.watch({var!r}) in a workflow: wait for a signal or a child instead")
        async with self._client.watches.values(self.id, _checked("watch", var).name) as shown:
            async for value, blob in shown:
                yield var.shape.decode(await self._shown(var, value, blob))

    async def cancel(self, reason: str = "") -> None:
        """Cancels the run. Does nothing if it was already cancelled."""
        await operator_acts.cancel(self._client, self, reason)

    async def kill(self, reason: str = "") -> None:
        """Ends the run at once: none of its code runs, nothing is undone."""
        self._is_expected = False
        await operator_acts.kill(self._client, self.id, reason)

    async def delete(self) -> int:
        """Deletes the ended run with its whole tree. Returns how many runs were deleted."""
        gone = await deletion.delete(self._client, self.id)
        self._end, self._is_expected = None, False
        return gone

    async def redact(self, *paths: str, reason: str = "", dry_run: bool = False) -> RedactionResult:
        """Takes values out of the ended run for good. Returns what else has them."""
        found = await run_redaction.redact(self._client, self.id, paths, reason, dry_run=dry_run)
        self._end = None
        return found

    async def pause(self, reason: str = "") -> None:
        """Pauses the run until it is resumed."""
        await operator_acts.pause(self._client, self, reason)

    async def resume(self) -> None:
        """Resumes a paused run."""
        await operator_acts.resume(self._client, self.id)

    async def messages(self) -> list[StoredMessage]:
        """Messages that the run has not taken yet, oldest first."""
        return await unread_messages.stored(self._client, await self._row())

    async def drop_message(self, message: int | str, reason: str = "") -> bool:
        """Drops a message that the run has not taken."""
        return await unread_messages.drop(self._client, await self._row(), message, reason)

    async def replace_message(self, message: int | str, value: object, reason: str = "") -> None:
        """Replaces the value of a signal that the run has not taken."""
        await unread_messages.replace(self._client, await self._row(), message, value, reason)

    async def retry(self, *, id: str | None = None) -> Run[R]:
        """Starts a new run that takes over what this one has completed."""
        new_id = await operator_acts.retry(self._client, self.id, id)
        return ClientRun(self._client, new_id, self._spec)

    async def history(self) -> list[Turn]:
        """The whole journal, without secrets."""
        turns: list[Turn] = []
        after = 0
        run = await self._row()
        while rows := await self._client.store.history(self.id, after_seq=after):
            read = [decode_row(row) for row in rows]
            redaction = await self._client.hidden.of(run)
            turns.extend(redaction.turn(turn) for turn in read)
            after = rows[-1].seq
        return turns

    async def follow(self, *, after: int | JournalEvent = 0) -> AsyncIterator[JournalEvent]:
        """The journal, live, until the run ends."""
        root = (await self._row()).root
        seen = (after.seq, after.index) if isinstance(after, JournalEvent) else (after + 1, -1)
        async for turn in self.follow_turns(after=seen[0] - 1):
            for event in events_of(turn, root):
                if (event.seq, event.index) > seen:
                    yield event

    def read(
        self, stream: Sent[T], *, after: int | Part[Any] | None = None, only: stream_reader.Only = None
    ) -> AsyncIterator[Part[T]]:
        """The parts of a stream, live, until the run ends."""
        return stream_reader.read(self._access, self.id, stream, after, only)

    async def read_now(
        self, stream: Sent[T], *, after: int | Part[Any] | None = None, only: stream_reader.Only = None
    ) -> list[Part[T]]:
        """The parts that exist now, without waiting for more."""
        return await stream_reader.read_now(self._access, self.id, stream, after, only)

    async def follow_turns(self, *, after: int = 0) -> AsyncIterator[Turn]:
        """The journal turn by turn, without secrets."""
        store = self._client.store
        async with self._client.feeds.of_run(self.id) as news:
            while True:
                row = await self._row()
                rows = await store.history(self.id, after_seq=after)
                turns = [decode_row(stored) for stored in rows]
                redaction = await self._client.hidden.of(row) if turns else NOTHING_HIDDEN
                for turn in turns:
                    yield redaction.turn(turn)
                    after = turn.seq
                if row.status.is_terminal and not rows:
                    return
                if not rows:
                    await news.wait()


def events_of(turn: Turn, root: str) -> list[JournalEvent]:
    """The events of one turn of a run in that tree."""
    return [
        JournalEvent(
            seq=turn.seq,
            run=turn.run,
            root=root,
            ordinal=turn.ordinal,
            index=index,
            at=turn.at,
            type=str(type(event).__struct_config__.tag),
            data=_data(event),
        )
        for index, event in enumerate(turn.events)
    ]


def _data(event: e.AnyEvent) -> dict[str, Any]:
    data = cast("dict[str, Any]", msgspec.json.decode(encode_event(event)))
    data.pop("t", None)
    return data


def end_error(end: e.ChildEnded, spec: WorkflowSpec | None) -> BaseException:
    """The error that a run ended with: a declared exception unchanged, else `RunFailed`. Its notes, which Python
    prints, have the frames of what failed in the run, and the command that shows more."""
    error = _end_error(end) if spec is None else run_error(end, spec)
    if isinstance(error, RunFailed):
        if error.traceback:
            error.add_note(f"In the run:\n{indent(error.traceback.rstrip(), '  ')}")
        error.add_note(f"More: holdfast show {end.run}")
    return error


def _end_error(end: e.ChildEnded) -> BaseException:
    failure = end.failure or Failure(type="Exception", message="")
    message = end.failure.message if end.failure else ""
    if end.status == "cancelled":
        return RunCancelled(f"run {end.run} was cancelled: {message}", run_id=end.run, reason=message)
    return RunFailed(
        f"run {end.run} failed: {failure.type}: {message}",
        run_id=end.run,
        type=failure.type,
        message=message,
        traceback=failure.traceback,
    )


def _checked(verb: str, var: RunVar[T]) -> RunVar[T]:
    """The value to read. Raises if the argument is something else."""
    given: object = var
    if not isinstance(given, RunVar):
        raise InvalidInput(f"run.{verb}({given!r:.80}): a RunVar is needed, such as RunVar[int]('progress')")
    return var
