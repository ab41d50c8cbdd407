"""`python -m benchmarks`: measures Holdfast beside its peers, prints ratios, writes `results.json` and the page."""

from __future__ import annotations

import argparse
import compileall
import os
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import holdfast
from benchmarks import http, page, profiling, split
from benchmarks.machine import machine, versions
from benchmarks.peers import PEERS, Peer
from benchmarks.process import Child
from benchmarks.report import OURS, load, save, save_more, show, tables
from benchmarks.scale import SCALES

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
NAMES = ("raw", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9")
PROFILED = {"sqlite": profiling.PROFILED, "postgresql": ("W1", "W2", "W3", "W4")}
ONCE: dict[str, tuple[str, ...]] = {"sqlite": (), "postgresql": ("W8",)}
"""What is measured in the first round alone: it takes long and does not vary."""

TRIES = 2

Measured = dict[str, dict[str, list[float]]]


class Progress:
    """One line that is overwritten on a terminal; one line for each thing done in a pipe."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._started_at = time.monotonic()
        self._is_terminal = sys.stderr.isatty()

    def begin(self, what: str) -> None:
        """Something takes a while now."""
        if self._is_terminal:
            elapsed = time.monotonic() - self._started_at
            sys.stderr.write(f"\r\x1b[K[{self._done + 1}/{self._total}] {what} … {elapsed:.0f} s")
            sys.stderr.flush()

    def end(self, what: str, seconds: float) -> None:
        """It is done."""
        self._done += 1
        if not self._is_terminal:
            print(f"[{self._done}/{self._total}] {what}: {seconds:.1f} s", file=sys.stderr, flush=True)
        elif self._done == self._total:
            sys.stderr.write("\r\x1b[K")


def measure(names: Sequence[str], peers: Sequence[Peer], rounds: int, options: argparse.Namespace) -> Measured:
    """All rounds. Engines and rounds are interleaved, so that a busy minute of the machine meets all of them."""
    once = ONCE[options.store]
    cells = [
        (number, name, engine)
        for number in range(1, rounds + 1)
        for name in names
        if number == 1 or name not in once
        for engine in (OURS, *(peer.name for peer in peers if name in peer.workloads))
    ]
    found: Measured = {OURS: {}, **{peer.name: {} for peer in peers}}
    progress = Progress(len(cells))
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=options.folder) as shared:
        for number, name, engine in cells:
            title = f"{name} {engine}, round {number} of {rounds}"
            progress.begin(title)
            started = time.monotonic()
            figures = measured(engine, name, options.scale, options.store, shared)
            for key, value in figures.items():
                found[engine].setdefault(key, []).append(value)
            progress.end(title, time.monotonic() - started)
    return found


def measured(*arguments: str) -> dict[str, float]:
    """The figures of one cell. One that breaks is measured once more, before a quarter of an hour is lost."""
    for _ in range(TRIES - 1):
        try:
            return _cell(arguments)
        except RuntimeError as error:
            print(f"\n{' '.join(arguments[:2])}: {error}; once more", file=sys.stderr, flush=True)
    return _cell(arguments)


def _cell(arguments: Sequence[str]) -> dict[str, float]:
    with Child("cell", *arguments) as cell:
        return cell.line()


def chosen(only: str | None) -> list[str]:
    """The workloads named, in their order; all without a name. The raw limits always come along."""
    if only is None:
        return list(NAMES)
    wanted = {word.strip() for word in only.split(",") if word.strip()}
    unknown = sorted(wanted - set(NAMES))
    if unknown:
        raise SystemExit(f"bench: no workload {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return [name for name in NAMES if name in wanted or name == "raw"]


def beside_earlier(
    known: Mapping[str, Any], facts: dict[str, Any], rounds: Measured
) -> tuple[dict[str, Any], Measured]:
    """What is recorded: these figures, and known ones of the workloads that were not measured now, which are named."""
    before: Measured = known.get(facts["store"], {}).get("rounds", {})
    now = {figure.partition(".")[0] for figure in rounds[OURS]}
    kept = {
        engine: {figure: values for figure, values in found.items() if figure.partition(".")[0] not in now}
        for engine, found in before.items()
        if engine in rounds
    }
    earlier = sorted({figure.partition(".")[0] for figure in kept.get(OURS, {})})
    return {**facts, "earlier": earlier}, {engine: {**kept.get(engine, {}), **rounds[engine]} for engine in rounds}


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="dev.py bench", description="Measures Holdfast beside its peers, and beside what the disk allows."
    )
    parser.add_argument("--only", metavar="W1,W3", help="only these workloads")
    parser.add_argument("--quick", action="store_true", help="smaller sizes: for a look, not for the record")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (3)")
    parser.add_argument("--store", choices=tuple(PEERS), default="sqlite", help="the store of both (sqlite)")
    parser.add_argument("--alone", action="store_true", help="without peers")
    parser.add_argument("--profile", choices=profiling.PROFILED, help="say where the time of one workload goes")
    parser.add_argument("--split", action="store_true", help="measure the split of a step again, and generate the page")
    parser.add_argument("--http", action="store_true", help="what the HTTP API and open pages cost, and nothing else")
    parser.add_argument("--runs", type=int, default=1_000_000, help="with --http: runs in the store (1,000,000)")
    parser.add_argument("--record", action="store_true", help="with --only: keep the figures, and generate the page")
    parser.add_argument("--render", action="store_true", help="generate the page of the docs from results.json")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--folder", help="where stores are made; default: the system's folder for temporary files")
    options = parser.parse_args(arguments)
    options.scale = "quick" if options.quick else "full"
    return options


def compile_all() -> None:
    """Bytecode of everything, ours and the peers', as a deployed program has it: no launch begins with a compiler."""
    for folder in (HERE, Path(holdfast.__file__).parent, Path(sysconfig.get_path("purelib"))):
        compileall.compile_dir(folder, quiet=2, workers=0)


def _server(store: str) -> dict[str, str]:
    """The version of the server of the stores, started for this process and all that it starts."""
    if store != "postgresql":
        return {}
    from benchmarks.schemas import share_server

    return {"postgresql": share_server()}


def main(arguments: Sequence[str]) -> int:
    """What `dev.py bench` runs."""
    options = parsed(arguments)
    server = _server(options.store) if not options.render else {}
    if options.render:
        page.write(load(RESULTS))
        print(f"rendered {page.PAGE.relative_to(HERE.parent)}")
        return 0
    if options.http:
        return http.main(options.store, options.runs)
    if options.split:
        save_more(
            RESULTS, options.store, {"split": split.measure(SCALES[options.scale], options.folder, options.store)}
        )
        page.write(load(RESULTS))
        return 0
    if options.profile:
        return profiling.main(options.profile, options.scale, options.folder, options.store)
    compile_all()
    names = chosen(options.only)
    peers = () if options.alone else PEERS[options.store]
    rounds_wanted = max(1, options.rounds)
    facts: dict[str, Any] = {
        "store": options.store,
        "machine": machine(),
        "versions": {**versions(), **server, **{peer.name: peer.version for peer in peers}},
        "scale": options.scale,
        "rounds_wanted": rounds_wanted,
    }
    rounds = measure(names, peers, rounds_wanted, options)
    is_record = (names == list(NAMES) or options.record) and options.scale == "full" and bool(peers)
    beside = peers or (Peer("", "", "", ()),)
    for peer, lines in zip(beside, tables(rounds, [peer.name for peer in beside], options.store), strict=True):
        show(lines, peer.title)
    if is_record:
        facts["profiles"] = {
            name: profiling.report(name, SCALES["full"], options.folder, options.store)
            for name in PROFILED[options.store]
        }
        facts["split"] = split.measure(SCALES["full"], options.folder, options.store)
        save(RESULTS, *beside_earlier(load(RESULTS), facts, rounds))
        page.write(load(RESULTS))
        print(f"\nwritten: {RESULTS.relative_to(HERE.parent)}, {page.PAGE.relative_to(HERE.parent)}")
    if options.json is not None:
        save(options.json, facts, rounds)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
