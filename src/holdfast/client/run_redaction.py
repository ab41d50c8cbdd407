"""Takes values out of an ended run, for a client. `Upkeep.rewrite` writes what is left, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.authoring.handle import RedactionResult
from holdfast.client.access import Access
from holdfast.client.ended_run import ended_row
from holdfast.client.kept_contents import read_contents
from holdfast.client.other_holders import left_in_itself, left_in_others
from holdfast.core.erasure import Erasure
from holdfast.core.hints import did_you_mean
from holdfast.core.ids import check_text
from holdfast.core.redacted import Redacted
from holdfast.errors import Conflict, InvalidInput
from holdfast.ports.facts import RunRedacted

TRIES = 20
BREATH = 0.05
"""Seconds between two tries while the run is compacted, deleted or redacted by another process."""

ENDED = "a run that has ended can be redacted"

LONGEST = 1000
"""Characters of a path."""

MOST = 100
"""Paths of one call."""

SHOWN = 8
"""Places that an error names."""


async def redact(client: Access, run_id: str, paths: Sequence[str], reason: str, *, dry_run: bool) -> RedactionResult:
    """Takes out what is at the paths, and every copy of it in the run. With `dry_run` it writes nothing."""
    _check(paths, reason)
    store = client.store
    for _ in range(TRIES):
        row = await ended_row(client, run_id, ENDED)
        kept = await read_contents(store, row)
        erasure = Erasure(paths)
        await asyncio.to_thread(kept.teach, erasure)
        if erasure.missing:
            raise InvalidInput(_nothing_at(row.id, erasure.missing[0], list(erasure.known)))
        redaction = erasure.redaction
        said = Redacted(
            paths=tuple(redaction.text(path) for path in paths),
            at=store.clock.now(),
            reason=redaction.text(reason),
            actor=client.actor,
        )
        new = await asyncio.to_thread(kept.without, erasure, said)
        own = await left_in_itself(store, kept, new, redaction)
        others, searched, has_more = await left_in_others(store, kept, redaction)
        if dry_run or await store.rewrite(new):
            if not dry_run and RunRedacted in client.telemetry.wanted:
                client.telemetry.tell(RunRedacted(row.id, len(erasure.places), client.actor))
            return RedactionResult(
                run=row.id,
                changed=tuple(erasure.places),
                left_in=(*own, *others),
                searched=searched,
                has_more=has_more,
                is_dry=dry_run,
            )
        await asyncio.sleep(BREATH)
    raise Conflict(f"run {run_id} was not redacted: other processes change it all the time. Try again.")


def _check(paths: Sequence[str], reason: str) -> None:
    check_text(reason, "reason")
    if not 0 < len(paths) <= MOST:
        raise InvalidInput(f"redact() takes 1 to {MOST} paths such as 'input.customer.email', got {len(paths)}")
    for path in paths:
        given: object = path
        if not isinstance(given, str) or not path or len(path) > LONGEST:
            raise InvalidInput(
                f"redact({str(given)[:80]!r}): a path is a text of 1 to {LONGEST} characters such as "
                "'input.customer.email' or 'steps.charge.result'"
            )


def _nothing_at(run: str, path: str, known: list[str]) -> str:
    hint = did_you_mean(path, known)
    places = ", ".join(known[:SHOWN]) + (", …" if len(known) > SHOWN else "")
    return f"run {run} has nothing at {path!r}, or it was redacted before. Nothing was changed.{hint} It has {places}."
