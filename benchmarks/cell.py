"""One round of one workload of one engine in a process of its own. Says its figures.

`python -m benchmarks.cell ENGINE WORKLOAD SCALE STORE SHARED`. SHARED is a folder that all rounds of a run share; the
store itself is made in a new folder inside it, gone afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.peers import PEERS
from benchmarks.peers.grounds import ground_of
from benchmarks.places import placed
from benchmarks.process import say
from benchmarks.scale import SCALES

OURS = "holdfast"


async def measure(engine: str, workload: str, scale: str, store: str, shared: Path) -> dict[str, float]:
    """Its figures."""
    with tempfile.TemporaryDirectory(prefix=f"{engine}-{workload}-", dir=shared) as folder:
        if engine == OURS:
            from benchmarks.workloads import WORKLOADS

            with placed(store, Path(folder)) as place:
                return await WORKLOADS[workload](SCALES[scale], place)
        (peer,) = (one for one in PEERS[store] if one.name == engine)
        return await peer.measures()[workload](SCALES[scale], ground_of(store, Path(folder), shared))


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # that a killed worker's runs were dropped is what is measured here
    engine, workload, scale, store, shared = sys.argv[1:]
    say(**asyncio.run(measure(engine, workload, scale, store, Path(shared))))
    sys.stdout.flush()
    os._exit(0)  # a peer's threads may be busy with runs that sleep for an hour
