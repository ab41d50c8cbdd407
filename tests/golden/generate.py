"""Writes the golden journals that are not there yet: `PYTHONPATH=src:. python tests/golden/generate.py`.

An existing file is never written again: it stands for journals in users' stores. See README.md.
"""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.client.exports import export_journal
from holdfast.core.turn import FORMAT, Turn, encode_events, micros
from holdfast.testing import Sim
from holdfast.testing.virtual_loop import at_once
from holdfast.upkeep.compaction import compact
from tests.golden import flows
from tests.golden.flows import GOLDEN
from tests.support.pure import PureRun

FOLDER = Path(__file__).parent
EXPORTS = FOLDER / "exports"


def rows(turns: list[Turn]) -> list[dict[str, object]]:
    """The rows of a journal as the file holds them."""
    return [
        {
            "ordinal": turn.ordinal,
            "epoch": turn.epoch,
            "at": micros(turn.at),
            "checksum": turn.checksum.hex(),
            "events": json.loads(encode_events(turn.events)),
        }
        for turn in turns
    ]


def compacted() -> bytes:
    """A run whose first rows are gone, as `holdfast export` writes it: packed in two segments, with rows after them."""
    with Sim() as sim:
        run = sim.start(flows.lengthy(6), id="golden-compacted")
        for _ in range(2):
            row = at_once(sim.store.get(run.id))
            assert row is not None
            assert sim.call(compact(sim.store, run.id, row.no, row.next_ordinal - 1)) > 0
            run.signal(flows.approved, True)
        return at_once(export_journal(sim.store, run.id))


def main() -> None:
    for name, (flow, call, drive) in GOLDEN.items():
        path = FOLDER / f"{name}-{FORMAT}.json"
        if path.exists():
            continue
        run = drive(PureRun(call(), seed=name, run=f"golden-{name}"))
        run.program.close()
        assert run.end is not None, name
        journal = {"workflow": flow.name, "run": run.fold.id, "format": FORMAT, "rows": rows(run.turns)}
        path.write_text(json.dumps(journal, indent=1) + "\n", encoding="utf-8")
    exported = EXPORTS / f"compacted-{FORMAT}.json"
    if not exported.exists():
        exported.write_bytes(compacted())


if __name__ == "__main__":
    main()
