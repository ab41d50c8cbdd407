"""What ended the runs that did not complete, and which of them say a text.

Errors are in the last row of a journal, and no store has an index of their words. So a search looks at the newest runs
first, a bounded number of them in one question, and says how many it looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from holdfast.authoring.handle import RunView
from holdfast.client.access import Access
from holdfast.core import events as e
from holdfast.core.doing import decode_doing, one_line
from holdfast.core.ids import check_text
from holdfast.core.redaction import HIDDEN, NOTHING_HIDDEN, Redaction
from holdfast.core.rounds import BATCH
from holdfast.core.status import Status
from holdfast.core.turn import Row, decode_row
from holdfast.errors import CorruptJournal, InvalidInput
from holdfast.ports.runs import Filter, RunRow
from holdfast.ports.store import Store

ERROR = 200
"""Characters of an error that a list shows."""

LOOKED = 200
"""Runs that one question looks at."""

LONGEST = 200
"""Characters of a text that is searched for."""

_ENDED = (Status.FAILED, Status.CANCELLED)


Hiding: TypeAlias = Mapping[int, Redaction | None]
"""What must not be shown, by number of the run; None: nothing of it may be."""


class Found(msgspec.Struct, frozen=True, gc=False):
    """Runs whose error contains a text, the cursor after the last run that was looked at, and how many were."""

    runs: list[RunRow]
    next: str
    looked_at: int


async def read_errors(store: Store, rows: Sequence[RunRow], hiding: Hiding) -> dict[int, str]:
    """The first line of the error of each run that did not complete, by its number. Unreadable ones are left out."""
    found = await _errors(store, rows)
    return {no: one_line(hidden_text(text, hiding, no), ERROR) for no, text in found.items()}


async def hiding_of(client: Access, rows: Sequence[RunRow]) -> Hiding:
    """What lists must not show of these runs: of those that tell of an error, and of those with attributes that another
    run may have given a secret, a child or a parent."""
    telling = {row.no: row for row in rows if _tells(row)}
    named = [row for row in rows if row.attributes and row.workflow != BATCH and row.no not in telling]
    parents = await _parents(client.store, [row.id for row in named if not row.parent])
    return await client.hidden.of_each([*telling.values(), *(row for row in named if row.parent or row.id in parents)])


async def _parents(store: Store, ids: Sequence[str]) -> frozenset[str]:
    """Those of the runs that have children. If there are very many children, all may."""
    if not ids:
        return frozenset()
    page = await store.list(Filter(parents=tuple(ids)), limit=LOOKED)
    return frozenset(ids) if page.next else frozenset(row.parent for row in page.runs)


def _tells(row: RunRow) -> bool:
    """Whether a list shows words of an error of the run."""
    return row.status is Status.FAILED or any(one.detail and one.kind != "child" for one in decode_doing(row.doing).now)


def hidden_text(text: str, hiding: Hiding, no: int) -> str:
    """A text about a run, without what must not be shown of it."""
    redaction = hiding.get(no, NOTHING_HIDDEN)
    return redaction.text(text) if redaction is not None else HIDDEN if text else ""


def without_hidden(view: RunView, hiding: Hiding, no: int) -> RunView:
    """A view whose occupations and attributes tell nothing that must not be shown."""
    if no not in hiding:
        return view
    now = tuple(
        one if one.kind == "child" else msgspec.structs.replace(one, detail=hidden_text(one.detail, hiding, no))
        for one in view.doing.now
    )
    attributes = {name: hidden_text(value, hiding, no) for name, value in view.attributes.items()}
    return msgspec.structs.replace(view, attributes=attributes, doing=msgspec.structs.replace(view.doing, now=now))


async def find_errors(store: Store, which: Filter, text: str, *, after: str, limit: int) -> Found:
    """Of the runs of the filter that failed, or were cancelled if it says so, those whose error contains the text,
    in whatever case: at most `limit`, of at most `LOOKED` runs."""
    which = searched(which)
    page = await store.list(which, after=after, limit=LOOKED)
    said = await saying(store, page.runs, text)
    places = [place for place, row in enumerate(page.runs) if row.no in said]
    if len(places) <= limit:
        return Found([page.runs[place] for place in places], page.next, len(page.runs))
    looked_at = places[limit - 1] + 1
    again = await store.list(which, after=after, limit=looked_at)
    return Found([page.runs[place] for place in places[:limit]], again.next, looked_at)


async def saying(store: Store, rows: Sequence[RunRow], text: str) -> set[int]:
    """The numbers of those runs whose error contains the text, in whatever case."""
    wanted = text.casefold()
    return {no for no, error in (await _errors(store, rows)).items() if wanted in error.casefold()}


def searched(which: Filter) -> Filter:
    """The runs of a filter whose errors are looked at: failed ones, or cancelled ones too if it names them."""
    if not which.statuses:
        return msgspec.structs.replace(which, statuses=(Status.FAILED,))
    statuses = tuple(status for status in which.statuses if status in _ENDED)
    return msgspec.structs.replace(which, statuses=statuses) if statuses else Filter(ids=("",))


def check_error(text: str) -> str:
    """A text that errors are searched for; `InvalidInput` says what is wrong."""
    if len(check_text(text, "error=")) > LONGEST:
        raise InvalidInput(f"error={text[:80]!r}…: {len(text):,} characters; at most {LONGEST}")
    return text


async def _errors(store: Store, rows: Sequence[RunRow]) -> dict[int, str]:
    wanted = {row.no: row.next_ordinal - 1 for row in rows if row.status in _ENDED}
    found: dict[int, str] = {}
    lasts: Mapping[int, Sequence[Row]] = await store.read(wanted) if wanted else {}
    for no, stored in lasts.items():
        try:
            last = decode_row(stored[-1]).events[-1]
        except (CorruptJournal, IndexError):
            continue
        if isinstance(last, e.Failed):
            found[no] = f"{last.failure.type}: {last.failure.message}"
        elif isinstance(last, e.Cancelled):
            found[no] = last.reason
    return found
