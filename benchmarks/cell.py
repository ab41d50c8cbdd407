"""One round of one workload in a process of its own: `python -m benchmarks.cell W3 quick FOLDER`. Says its figures."""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from benchmarks.process import say
from benchmarks.scale import SCALES
from benchmarks.workloads import WORKLOADS


async def measure(workload: str, scale: str, parent: str | None) -> dict[str, float]:
    """Its figures. The store lives in a new folder, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=parent) as folder:
        return await WORKLOADS[workload](SCALES[scale], Path(folder))


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # that a killed worker's runs were dropped is what is measured here
    say(**asyncio.run(measure(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)))
