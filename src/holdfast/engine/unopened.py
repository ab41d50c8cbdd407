"""Runs that are paused instead of opened: diverged, undecodable, damaged, or suspected of killing their workers."""

from __future__ import annotations

from holdfast.core import events as e
from holdfast.core.run import Run
from holdfast.core.suspicion import sentence
from holdfast.engine import report
from holdfast.engine.home import EngineHome
from holdfast.errors import CorruptJournal
from holdfast.ports.journal import Committed, Park
from holdfast.ports.runs import RunRow
from holdfast.ports.transactions import Settlement
from holdfast.turn.commit import finish
from holdfast.turn.draft import Draft
from holdfast.turn.rules import pause_reason


def check_row(row: RunRow) -> None:
    """Raises `CorruptJournal` for a row that cannot be read in full."""
    if row.damage:
        raise CorruptJournal(
            f"its row is damaged: {'; '.join(row.damage)}. Look at it with holdfast verify; then restore the store, "
            "kill the run, or resume it."
        )


def pause(engine: EngineHome, row: RunRow, run: Run, error: Exception | None) -> None:
    """Pauses a run that cannot be opened, or, without an error, quarantines it. Reported once it is durable. A damaged
    row that takes no turn is set aside with a note."""
    reason = pause_reason(error)
    detail = sentence(row.suspicion, row.claims) if error is None else str(error)
    at = max(engine.clock.now(), row.updated_at)
    draft = Draft(at, [e.Claimed(worker=engine.worker_id), e.Paused(reason=reason, detail=detail)])
    commit = finish(run, row.no, row.epoch, draft, inbox_seen=row.inbox_last, is_consuming=False, park=Park(None))

    def settled(verdict: Settlement) -> None:
        if isinstance(verdict, Committed):
            report.paused_unopened(engine.telemetry, row, engine.worker_id, reason, detail)
            if reason == "undecodable":
                engine.met("undecodable", row.id, detail)
        elif row.damage:
            engine.spawn(_set_aside(engine, row))
        engine.freed()

    engine.committer.submit(commit, settled)


async def _set_aside(engine: EngineHome, row: RunRow) -> None:
    note = f"damaged: {row.damage[0]}"
    await engine.asking.insist(
        lambda: engine.store.release(row.no, epoch=row.epoch, until=None, inbox_seen=row.inbox_last, note=note),
        f"run {row.id}: release",
    )
