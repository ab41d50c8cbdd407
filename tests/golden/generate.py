"""Writes the golden journals that are not there yet: `PYTHONPATH=src:. python tests/golden/generate.py`.

An existing file is never written again: it stands for journals in users' stores. See README.md.
"""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.core.turn import FORMAT, Turn, encode_events, micros
from tests.golden.flows import GOLDEN
from tests.support.pure import PureRun

FOLDER = Path(__file__).parent


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


if __name__ == "__main__":
    main()
