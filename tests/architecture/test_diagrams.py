"""The diagrams of the docs are drawn from the tables the code runs on."""

from __future__ import annotations

import os
from typing import get_args

from holdfast.core.status import ATTEMPT_TRANSITIONS, RUN_TRANSITIONS, Status, diagram
from holdfast.turn.effects import Effect
from holdfast.turn.inputs import INPUTS, Lost
from holdfast.turn.states import ALLOWED, State
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


# -- the machine of a run ----------------------------------------------------------------------------------------------

MACHINE_PAGE = ROOT / "docs" / "explanation" / "how-a-run-is-executed.md"
BEGIN, END = "<!-- drawn from holdfast.turn.states -->\n", "<!-- end -->\n"


def machine_diagram() -> str:
    """The table of the machine: an arrow is named after the inputs that may cause it. What changes nothing, and the
    loss of the run, which ends everything, are not drawn."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (state, kind), following in ALLOWED.items():
        for after in sorted(following, key=lambda x: x.value):
            if after is not state and kind is not Lost:
                arrows.setdefault((state.value, after.value), []).append(kind.__name__)
    lines = [f"    {before} --> {after}: {', '.join(kinds)}" for (before, after), kinds in arrows.items()]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {State.NEW.value}", *lines, ""])


def test_the_diagram_of_the_machine_is_that_of_its_table() -> None:
    """Contract: the picture of how a run is executed shows the steps that the machine is proven to take."""
    page = MACHINE_PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    drawn = f"{head}{BEGIN}```mermaid\n{machine_diagram()}```\n{END}{tail}"
    if os.environ.get(UPDATE):
        MACHINE_PAGE.write_text(drawn, encoding="utf-8")
    assert MACHINE_PAGE.read_text(encoding="utf-8") == drawn, (
        f"if that is meant, renew {shown(MACHINE_PAGE)} with {UPDATE}=1"
    )


def test_the_page_names_every_input_and_every_effect() -> None:
    """Contract: a contributor finds each of them on the page."""
    page = MACHINE_PAGE.read_text(encoding="utf-8")
    effects = {kind for union in get_args(Effect) for kind in (get_args(union) or (union,))}
    missing = sorted(kind.__name__ for kind in {*INPUTS, *effects} if f"`{kind.__name__}`" not in page)
    assert missing == []
