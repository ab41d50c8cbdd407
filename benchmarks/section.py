"""The frame of a benchmark that makes one section of the page: measures, shows the section, and keeps the figures."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import machine, versions


def measured_on(sizes: NamedTuple) -> dict[str, Any]:
    """The machine, before it is busy with this, and how much was measured."""
    return {"machine": {**machine(), "python": versions()["python"]}, "sizes": sizes._asdict()}


def show_section(
    name: str,
    doc: str | None,
    stores: Sequence[str],
    measure: Callable[[Sequence[str]], Coroutine[Any, Any, Mapping[str, Any]]],
    rendered: Callable[[Mapping[str, Any]], str],
    results: Path,
) -> None:
    """What `python -m benchmarks.NAME` does. `measure` takes the names of stores; `results` is written if asked for."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=doc)
    parser.add_argument("--store", action="append", choices=stores)
    parser.add_argument("--record", action="store_true", help=f"write {results.name}, which the page is made from")
    given = parser.parse_args()
    os.environ.setdefault("PYTEST_XDIST_TESTRUNUID", f"bench-{os.getpid()}")  # the server of this process, fsync on
    found = asyncio.run(measure(given.store or stores))
    sys.stdout.write(rendered(found))
    if given.record:
        results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
