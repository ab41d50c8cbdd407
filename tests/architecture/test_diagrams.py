"""The diagrams of the docs are drawn from the tables the code runs on."""

from __future__ import annotations

import os

from holdfast.core.status import ATTEMPT_TRANSITIONS, RUN_TRANSITIONS, Status, diagram
from tests.architecture.source import ROOT, shown

PAGE = ROOT / "docs" / "explanation" / "statuses.md"
UPDATE = "HOLDFAST_UPDATE_SNAPSHOTS"

TEXT = """\
# Statuses

This page is drawn from the tables in `holdfast.core.status`, which the engine itself runs on; a test keeps the two
equal. An arrow is named after the events that cause it, as they stand in the journal. What leaves a thing where it is
is not drawn.

## A run

```mermaid
{run}```

A run that waits has no status of its own: it is `running`, and what it waits for, and until when, is derived from its
journal ("sleeping until 14:00 UTC, 2 h left"). It is `running` also while no worker holds it. A run is `paused` for a
reason, which is shown with it: an operator paused it, the code no longer fits the journal (diverged), something stored
cannot be read (undecodable), the body never waits, or the run ended its worker several times (quarantined). Resuming
one that was paused before its first claim makes it `pending` again.

`completed`, `failed` and `cancelled` are final: no event follows. `sleeping`, `succeeded` and `canceled` are accepted
as filters and never stored.

## A step

One key of a run: a step asked for once. Each attempt is `scheduled` in the row after which its body may begin.

```mermaid
{step}```

`waiting` is between two attempts. A worker that is lost leaves its steps `scheduled`: the next claim counts one attempt
more. A step is `abandoned` when the author's code no longer wants its outcome, or when the pass of the body that asked
for it has failed and is to be tried again (`retry`); a late outcome is recorded and changes nothing. Only a later pass
asks for it again (`step`).
"""


def test_the_diagrams_are_those_of_the_tables() -> None:
    """Contract: a change of a table changes the page with it."""
    page = TEXT.format(run=diagram(RUN_TRANSITIONS, Status.PENDING), step=diagram(ATTEMPT_TRANSITIONS, "scheduled"))
    if os.environ.get(UPDATE):
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page, f"if that is meant, renew {shown(PAGE)} with {UPDATE}=1"
