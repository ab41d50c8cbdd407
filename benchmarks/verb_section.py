"""The part of the page about speed that tells what each verb costs: made from `verbs.json`, which
`python -m benchmarks.verbs --record` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).with_name("verbs.json")

_OPENING = """\
## What each verb costs

Counted by `python -m benchmarks.verbs --record`, so these figures do not depend on the machine. A commit on SQLite that
has written is one sync of the disk; a writing statement touches one row or a few. On PostgreSQL a round trip is one
question to the server, mostly a whole transaction in one call of a function, which does there what the statements do on
SQLite.
"""

_CLIENTS = "Verbs of a client, without a worker beside it:"
_WORKFLOWS = """\
Verbs of a workflow: what a run costs more than one that does nothing. The client and a worker are in one process, and
what they ask for work, messages and results is among the round trips. The items of a batch share commits as they happen
to end together, so its figures vary a little:"""


def verb_section(path: Path = RESULTS) -> list[str]:
    """The section; nothing if there are no results."""
    return [rendered(json.loads(path.read_text(encoding="utf-8")))] if path.exists() else []


def rendered(found: Mapping[str, Any]) -> str:
    """The section of these results."""
    lines = [_OPENING]
    for name, said in (("clients", _CLIENTS), ("workflows", _WORKFLOWS)):
        lines += [said, "", *_table(found[name]), ""]
    return "\n".join(lines)


def _table(costs: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[str]:
    first = next(iter(costs.values()))
    lines = [
        "| | commits on SQLite | writing statements | reading | round trips to PostgreSQL |",
        "|---|---:|---:|---:|---:|",
    ]
    for verb in first:
        lite, server = costs.get("sqlite", {}).get(verb), costs.get("postgresql", {}).get(verb)
        told = ["", "", ""] if lite is None else [str(lite[what]) for what in ("commits", "writes", "reads")]
        lines.append(f"| {verb} | {' | '.join(told)} | {'' if server is None else server['trips']} |")
    return lines
