"""Journals written long ago still replay to the same commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import App
from holdfast.core.exported import decode_export
from holdfast.core.turn import FORMAT, Row, Turn, decode_rows, is_compacted, segments_of
from holdfast.testing import replay
from tests.golden.flows import GOLDEN, lengthy
from tests.support.pure import check_replays

FILES = sorted(Path(__file__).parent.glob("*.json"))
EXPORTS = sorted((Path(__file__).parent / "exports").glob("*.json"))
FLOWS = {flow.name: flow.spec for flow, _, _ in GOLDEN.values()}


def read(path: Path) -> tuple[dict[str, Any], list[Turn]]:
    journal: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        Row(
            run=journal["run"],
            ordinal=row["ordinal"],
            epoch=row["epoch"],
            at=row["at"],
            format=journal["format"],
            checksum=bytes.fromhex(row["checksum"]),
            body=json.dumps(row["events"], separators=(",", ":"), ensure_ascii=False).encode(),
        )
        for row in journal["rows"]
    ]
    return journal, decode_rows(rows)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_journal_replays_to_the_same_commands(path: Path) -> None:
    """Contract: its checksums hold, every prefix replays, and what the code asks for next is what was recorded."""
    journal, turns = read(path)
    assert check_replays(FLOWS[journal["workflow"]], turns) == len(turns) - 1


def test_every_flow_has_a_golden_journal_of_this_format() -> None:
    """Contract: a new format, or a new flow, brings its own journals (see generate.py)."""
    assert {f"{name}-{FORMAT}" for name in GOLDEN} <= {path.stem for path in FILES}
    assert f"compacted-{FORMAT}" in {path.stem for path in EXPORTS}


@pytest.mark.parametrize("path", EXPORTS, ids=lambda path: path.stem)
def test_a_golden_export_of_a_compacted_run_replays(path: Path) -> None:
    """Contract: the stand-in's seal holds, its segments unpack, and the code still asks for what was recorded. Nothing
    else holds what was compacted: if it can no longer be read, the run cannot go on."""
    _, rows, blobs = decode_export(path.read_bytes(), path.name)
    assert is_compacted(rows[0])
    assert len(segments_of(rows[0])) == len(blobs) == 2
    assert len(rows) > 1
    replay(path, App(workflows=[lengthy])).assert_ok()
