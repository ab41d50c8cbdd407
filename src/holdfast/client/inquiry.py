"""Asks a run: the question goes into its inbox, and the outcome is read from the store.

The id identifies the question: asking again with it, from any process and at any later time, returns the same answer.
Hints wake a waiting caller early; polling finds every answer.
"""

from __future__ import annotations

import asyncio
import secrets
from hashlib import sha256
from typing import Any, TypeVar

import msgspec

from holdfast.authoring.script.context import find_program
from holdfast.authoring.script.update import AnyUpdate, Update
from holdfast.client.access import Access
from holdfast.client.repeated_message import check_repeat
from holdfast.core import events as e
from holdfast.core.acceptance import update_refusal
from holdfast.core.commands import carry
from holdfast.core.durations import Duration, format_duration, parse_duration
from holdfast.core.message_ids import check_message_id
from holdfast.core.redacted import whole
from holdfast.core.specs import WorkflowSpec
from holdfast.core.trace import trace_now
from holdfast.errors import (
    Conflict,
    InvalidInput,
    NotAllowedHere,
    RunFinished,
    RunNotFound,
    UpdateRefused,
    UpdateTimeout,
    UpdateUnanswered,
)
from holdfast.ports.inbox import Accepted, Ended, Message, Missing, message
from holdfast.ports.runs import RunRow
from holdfast.ports.updates import Question, UpdateAnswer

Q = TypeVar("Q")
A = TypeVar("A")


class Inquiry:
    """One question to one run."""

    def __init__(self, client: Access, run: str, spec: WorkflowSpec | None, name: str, id: str) -> None:
        self._client = client
        self._run = run
        self._spec = spec
        self._name = name
        self._id = id

    async def put(self, data: bytes) -> Question | None:
        """Asks. If the question was asked before, it must have the same value; then returns what is known of it."""
        store = self._client.store
        sent = self._message(data)
        match await store.send(sent):
            case Accepted(is_repeat=False):
                return None
            case Accepted():
                return await self._asked_before(sent)
            case Ended(status=status):
                raise RunFinished(
                    f"run {self._run} has {status.value}: it no longer takes update {self._name}",
                    run_id=self._run,
                    status=status.value,
                )
            case Missing():
                raise RunNotFound(f"no run {self._run!r} in {store.url}: update {self._name} was not asked")

    def _message(self, data: bytes) -> Message:
        blobs: dict[str, bytes] = {}
        raw, blob, refs = carry(data, blobs)
        event = e.UpdateReceived(
            message=self._id,
            name=self._name,
            sender=self._client.actor,
            value=raw,
            blob=blob,
            refs=refs,
            trace=trace_now(self._client.current_trace),
        )
        asks = sha256(self._name.encode() + b"\0" + data).digest()
        return message(self._run, self._id, "update", event, blobs=tuple(blobs.items()), asks=asks)

    async def _asked_before(self, sent: Message) -> Question:
        found = await self._client.store.question(self._run, self._id)
        if found is None:
            kept = await self._client.store.sent(self._run, self._id)
            check_repeat(kept, self._id, sent.body, f"update {self._name}")
            raise Conflict(
                f"run {self._run}: id {self._id!r} is that of another message, so update {self._name} was not asked. "
                "Use a different id."
            )
        if found.asked and found.asked != sent.asks:
            raise Conflict(
                f"run {self._run}: id {self._id!r} was used for a different question, so update {self._name} was not "
                "asked. Use a different id for a different value."
            )
        return found

    async def check(self, data: bytes) -> None:
        """Refuses a question that the run would not take. Checks the definition of the handle first; the run may have
        another by now, so its row decides."""
        if self._spec is None or update_refusal(self._spec, self._name, data) is None:
            return
        spec = self._client.spec_of(await self._row())
        why = update_refusal(spec, self._name, data) if spec is not None else None
        if why is not None:
            raise InvalidInput(f"run {self._run}: {why} Nothing was asked.")

    async def _row(self) -> RunRow:
        row = await self._client.store.get(self._run)
        if row is None:
            raise RunNotFound(f"no run {self._run!r} in {self._client.store.url}")
        return row

    async def outcome(self, known: Question | None, timeout: Duration | None) -> UpdateAnswer:
        """Waits until the question is settled."""
        if known is not None and known.answer is not None:
            return known.answer
        loop = asyncio.get_running_loop()
        limit = None if timeout is None else parse_duration(timeout, what="timeout")
        until = None if limit is None else loop.time() + limit.total_seconds()
        store = self._client.store
        with self._client.waiting.listen(self._run, every=True) as news:
            while True:
                row = await self._row()
                found = await store.question(self._run, self._id)
                if found is not None and found.answer is not None:
                    return found.answer
                if row.status.is_terminal:
                    raise self._unanswered(f"the run {row.status.value} before it answered")
                left = None if until is None else until - loop.time()
                if left is not None and limit is not None and left <= 0:
                    raise await self._late(row, format_duration(limit))
                await news.next(left)

    async def _late(self, row: RunRow, limit: str) -> UpdateTimeout:
        workers = await self._client.store.workers()
        label = f"{row.workflow} (version {row.version})" if row.version else row.workflow
        definition = (row.workflow, row.version)
        is_served = any(worker.is_live and definition in worker.definitions for worker in workers)
        why = "" if is_served else f" No live worker serves {label}."
        text = (
            f"run {self._run} did not answer update {self._name} within {limit}.{why} The question stays asked: ask "
            f"again with id={self._id!r} to get the answer."
        )
        return UpdateTimeout(text, run_id=self._run, update=self._name, id=self._id)

    def _unanswered(self, why: str) -> UpdateUnanswered:
        return UpdateUnanswered(why, run_id=self._run, update=self._name, id=self._id)

    async def value(self, answer: UpdateAnswer) -> bytes:
        """The answer as JSON. Raises if the question was refused or never answered."""
        data = await self._client.store.get_blob(answer.blob) if answer.blob else answer.value
        if answer.outcome == "answered":
            return whole(data, self._run, f"the answer to update {self._id}")
        why = str(msgspec.json.decode(data))
        if answer.outcome == "refused":
            raise UpdateRefused(why, run_id=self._run, update=self._name, id=self._id)
        raise self._unanswered(why)


async def ask(
    client: Access,
    run: str,
    spec: WorkflowSpec | None,
    update: AnyUpdate[Q, A],
    value: Q,
    id: str | None,
    timeout: Duration | None,
) -> A:
    given: Any = update
    if not isinstance(given, AnyUpdate):
        raise InvalidInput(f"run.update() takes an update such as Update[int, str]('reassign'), got {given!r}")
    if find_program() is not None:
        raise NotAllowedHere(
            f"run.update({update.name}, …) in a workflow would ask again on every replay: ask in a step, with "
            "app.get(…)"
        )
    chosen = check_message_id(id, "id of the update") if id is not None else secrets.token_hex(12)
    if timeout is not None:
        parse_duration(timeout, what="timeout")
    data = update.encode(value)
    inquiry = Inquiry(client, run, spec, update.name, chosen)
    await inquiry.check(data)
    known = await inquiry.put(data)
    answer = await inquiry.value(await inquiry.outcome(known, timeout))
    return update.answer_shape.decode(answer)


async def ask_for_show(
    client: Access, row: RunRow, name: str, value: Any, id: str, timeout: Duration | None, spec: WorkflowSpec | None
) -> Any:
    """The same for an answer that is shown to a person: what must not be shown of the run is hidden in it."""
    try:
        answer = await ask(client, row.id, spec, Update[Any, Any](name), value, id, timeout)
    except UpdateRefused as error:
        reason = (await client.hidden.of(row)).text(error.reason)
        raise type(error)(reason, run_id=error.run_id, update=error.update, id=error.id) from None
    return (await client.hidden.of(row)).value(answer)
