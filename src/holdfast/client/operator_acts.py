"""Operator verbs: what a client does to a run that is not its own.

Some verbs send a message, which waits for the holder. Those that must not wait take the lease (epoch + 1), append their
event and release the lease; the earlier holder is fenced from then on.
"""

from __future__ import annotations

import secrets

import msgspec

from holdfast.client.access import Access, Addressee
from holdfast.core import events as e
from holdfast.core.doing import decode_doing
from holdfast.core.ids import check_id, check_text
from holdfast.core.messages import encode_event
from holdfast.core.passes import last_start, settled_prefix
from holdfast.core.run import Run
from holdfast.core.status import Status
from holdfast.core.trace import trace_now
from holdfast.errors import Conflict, RunFinished, RunNotFound, RunRedacted
from holdfast.ports.inbox import Message
from holdfast.ports.runs import Made, RunRow
from holdfast.turn.source import load
from holdfast.turn.start import new_run
from holdfast.upkeep import imposition


async def cancel(client: Access, run: Addressee, reason: str) -> None:
    """Cancels a run; one that has not started ends at once. A stuck run is resumed, since nothing else can wake it."""
    check_text(reason, "reason")
    row = await _row(client, run.id)
    if row.status is Status.CANCELLED:
        return
    if row.status is Status.PENDING:
        end: list[e.AnyEvent] = [e.Cancelled(reason=reason, actor=client.actor)]
        if await imposition.impose(client.store, run.id, lambda _: end, steal=False, only=Status.PENDING):
            return
    message = f"cancel {secrets.token_hex(8)}"
    trace = trace_now(client.current_trace)
    event = e.CancelRequested(message=message, reason=reason, actor=client.actor, trace=trace)
    try:
        await run.send(Message(run=run.id, id=message, kind="cancel", body=encode_event(event)), "cancel")
    except RunFinished as finished:
        if finished.status != Status.CANCELLED.value:
            raise
        return
    if is_stuck(await _row(client, run.id)):
        await resume(client, run.id)


def is_stuck(row: RunRow) -> bool:
    """Whether the run is paused because nothing can wake it. An operator's pause is different: it stays."""
    if row.status is not Status.PAUSED:
        return False
    return any(now.kind == "paused" and now.name == "stuck" for now in decode_doing(row.doing).now)


async def kill(client: Access, run_id: str, reason: str) -> None:
    """Ends the run at once, even if another worker holds it. Lists what was not undone."""
    check_text(reason, "reason")
    if not await imposition.kill(client.store, run_id, reason=reason, actor=client.actor):
        row = await _row(client, run_id)
        if row.status is not Status.CANCELLED:
            raise RunFinished(
                f"run {run_id} has {row.status.value}: kill was refused", run_id=run_id, status=row.status.value
            )


async def pause(client: Access, run: Addressee, reason: str) -> None:
    """Pauses the run: at once if no worker holds it, else when its running steps end."""
    check_text(reason, "reason")
    event = e.Paused(reason="operator", detail=reason, actor=client.actor)
    if (await _row(client, run.id)).status is Status.PAUSED:
        return
    if await imposition.impose(client.store, run.id, lambda _: [event], steal=False):
        return
    message = f"pause {secrets.token_hex(8)}"
    await run.send(Message(run=run.id, id=message, kind="pause", body=encode_event(event)), "pause")


async def resume(client: Access, run_id: str) -> None:
    row = await _row(client, run_id)
    if row.status.is_terminal:
        raise RunFinished(
            f"run {run_id} has {row.status.value}: resume was refused; "
            f"a retry starts it again: run.retry(), or holdfast retry {run_id}",
            run_id=run_id,
            status=row.status.value,
        )
    if row.status is Status.PAUSED:  # a paused run has no holder, and a running one is not disturbed
        await imposition.impose(
            client.store, run_id, lambda _: [e.Resumed(actor=client.actor)], steal=False, only=Status.PAUSED
        )


async def retry(client: Access, run_id: str, new_id: str | None) -> str:
    """A new run with the arguments of an ended one, which takes over its completed steps."""
    row = await _row(client, run_id)
    if not row.status.is_terminal:
        raise Conflict(f"run {run_id} is {row.status.value}: only a run that has ended can be retried")
    loaded = await load(client.store, row.no, run_id)
    check_whole(loaded.run, "retried")
    turns = loaded.turns
    started = last_start(run_id, turns)
    now = client.store.clock.now()
    chosen = check_id(new_id, "run id") if new_id is not None else f"{run_id[:230]}~{secrets.token_hex(4)}"
    again = msgspec.structs.replace(
        started,
        retried_from=run_id,
        key="",
        available_at=None,
        parent="",
        parent_key="",
        root="",
        deadline=None,
        in_rounds=False,
        after=(),
        actor=client.actor,
        trace=trace_now(client.current_trace),
    )
    facts = settled_prefix(turns)
    contents = await client.store.contents(row.no)
    new, _ = new_run(
        chosen,
        again,
        now,
        # All that the original refers to: its older facts may not say themselves what their payloads refer to.
        references=tuple(sorted(contents.references)) if contents is not None else (),
        input_hash=row.input_hash,
        adopted=e.Adopted(facts=facts) if facts else None,
    )
    made = await client.store.create(new, key_since=now)
    if not isinstance(made, Made):
        raise Conflict(f"id {chosen!r} is in use; choose a different id for the retry of {run_id}")
    return chosen


def check_whole(run: Run, verb: str) -> None:
    """Raises `RunRedacted` for a run from which something was removed."""
    if run.redacted:
        raise RunRedacted(
            f"run {run.id} was redacted, so it cannot be {verb}: what it would take over is gone. Start a new run with "
            f"the input that it needs: holdfast start {run.workflow}",
            run_id=run.id,
        )


async def append(client: Access, run_id: str, events: list[e.AnyEvent], *, only: Status) -> bool:
    """Writes what an operator did to a run of that status. Returns False if the status has changed."""
    return await imposition.impose(client.store, run_id, lambda _: events, steal=False, only=only)


async def _row(client: Access, run_id: str) -> RunRow:
    row = await client.store.get(run_id)
    if row is None:
        raise RunNotFound(f"no run {run_id!r} in {client.store.url}")
    return row
