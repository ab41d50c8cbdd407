"""Where the time goes: what is done (counted), and which layer's code does it (profiled).

Three passes over the same work, each on a new store: a plain one for the times, one that counts, one with a profile of
every thread. A profiler slows small functions most, so its times are used as shares of the plain pass's processor time.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks import calls
from benchmarks.counting import Connections, counted_hops, counted_questions, counted_syncs
from benchmarks.launching import launch
from benchmarks.layers import LAYERS, SPLIT, layer_of
from benchmarks.parked import park
from benchmarks.places import placed
from benchmarks.program import app_at, many, one
from benchmarks.report import shown
from benchmarks.scale import SCALES, Scale
from benchmarks.threads import Place, ThreadProfile, new_profile
from benchmarks.throughput import SLOTS, finished, url_of
from holdfast import Call

PROFILED = ("W1", "W2", "W3", "W4", "W6", "W7")
TOP = 25

WAITING = ("'acquire' of '_thread", "'get' of '_queue", "'poll' of 'select")
"""Functions that only wait. A thread that is in one when its profile ends would have the time of another added."""

Stats: TypeAlias = dict[Place, tuple[int, float]]
"""Calls and own seconds of every function."""

NewStore = Callable[[str], str]
"""The address of a new store by a name."""


def calls_of(workload: str, scale: Scale) -> tuple[list[Call[Any]], float]:
    """What is run, and how many steps that is; of idling, which runs nothing, how many seconds."""
    if workload == "W1":
        return [one(n) for n in range(scale.w1_runs)], scale.w1_runs
    if workload == "W4":
        return [one(n) for n in range(scale.w4_runs)], scale.w4_runs
    if workload == "W7":
        return [], scale.w7_seconds
    if workload == "W2":
        return [many(scale.w2_steps)], scale.w2_steps
    return [many(scale.w3_steps) for _ in range(scale.w3_runs)], scale.w3_runs * scale.w3_steps


class Profiles:
    """A profile of the calling thread and of every thread that begins later, by processor time. A thread is profiled
    from its beginning; what it had done before `mark` is taken off."""

    def __init__(self) -> None:
        self._profiles: list[ThreadProfile] = []
        self._before: Stats = {}

    def begin(self, *_: object) -> None:
        """In the thread that calls it. Also what `threading.setprofile` calls in a new one."""
        profile = new_profile()
        self._profiles.append(profile)
        profile.enable()

    def mark(self) -> None:
        """The work begins now, in this thread too."""
        self._before = self._so_far()
        self.begin()

    def result(self) -> Stats:
        """Calls and own seconds of every function since the mark."""
        for profile in self._profiles:
            profile.disable()
        nothing = (0, 0.0)
        found = {
            place: (entered - self._before.get(place, nothing)[0], own - self._before.get(place, nothing)[1])
            for place, (entered, own) in self._so_far().items()
        }
        return {place: (entered, own) for place, (entered, own) in found.items() if entered}

    def _so_far(self) -> Stats:
        found: Stats = {}
        for profile in self._profiles:
            for place, count, own in profile.entries():
                if any(word in place[2] for word in WAITING):
                    continue
                before = found.get(place, (0, 0.0))
                found[place] = (before[0] + count, before[1] + own)
        return found


async def _run(workload: str, scale: Scale, url: NewStore, around: Callable[[], Any]) -> tuple[float, float]:
    """Seconds, and processor seconds, of the work itself; `around()` is a block around it."""
    async with app_at(url(f"s{time.monotonic_ns()}")) as app, app.worker(concurrency=SLOTS["async"]):
        await finished(app, [many(1), one(1)])
        if workload == "W7":
            await park(app, scale.w7_runs)
        given, _ = calls_of(workload, scale)
        with around():
            started, processed = time.perf_counter(), time.process_time()
            if workload == "W7":
                await asyncio.sleep(scale.w7_seconds)
            elif workload == "W4":
                for call in given:
                    await finished(app, [call])
            else:
                await finished(app, given)
            return time.perf_counter() - started, time.process_time() - processed


class _Block:
    """A block of two functions."""

    def __init__(self, begin: Callable[[], object], end: Callable[[], object]) -> None:
        self._begin, self._end = begin, end

    def __enter__(self) -> None:
        self._begin()

    def __exit__(self, *_: object) -> None:
        self._end()


def profile(workload: str, scale: Scale, folder: Path, url: NewStore | None = None) -> str:
    """The report; of stores at `url(name)`, which are SQLite files in the folder by default. W6 is of those alone."""
    if workload == "W6":
        return launch(scale, folder)
    url = url or (lambda name: url_of(folder, f"{name}.db"))
    units, unit = calls_of(workload, scale)[1], "second" if workload == "W7" else "step"
    wall, processor = asyncio.run(_run(workload, scale, url, lambda: _Block(_nothing, _nothing)))
    counts = _counted(workload, scale, url)
    stats = _stats(workload, scale, url)
    each = processor / units * 1e6
    if unit == "second":
        head = f"{workload}: {scale.w7_runs} runs asleep; a second of it takes {shown(each)} µs of processor"
    else:
        times = f"a step takes {shown(wall / units * 1e6)} µs, {shown(each)} µs of them processor"
        head = f"{workload}: {shown(units)} steps, {shown(units / wall)}/s; {times}"
    return "\n".join(
        [
            head,
            "",
            *_said_counts(counts, stats, units, unit),
            "",
            *_said_layers(stats, each, unit),
            "",
            *_said_calls(url),
            "",
            *_said_functions(stats, units, each, unit),
        ]
    )


def profiled(workload: str, scale: Scale, url: NewStore) -> tuple[float, Stats]:
    """Microseconds of processor of one step, and the profile of all."""
    _, processor = asyncio.run(_run(workload, scale, url, lambda: _Block(_nothing, _nothing)))
    return processor / calls_of(workload, scale)[1] * 1e6, _stats(workload, scale, url)


def shares(stats: Stats) -> dict[str, float]:
    """Which part of the time each line of the split takes."""
    layers = _layers(stats)
    total = sum(layers.values()) or 1.0
    return {name: sum(layers[layer] for layer in some) / total for name, some in SPLIT.items()}


def _stats(workload: str, scale: Scale, url: NewStore) -> Stats:
    profiles = Profiles()
    stats: Stats = {}

    def keep() -> None:
        stats.update(profiles.result())

    threading.setprofile(profiles.begin)
    try:
        asyncio.run(_run(workload, scale, url, lambda: _Block(profiles.mark, keep)))
    finally:
        threading.setprofile(None)
    return stats


def _layers(stats: Stats) -> dict[str, float]:
    layers = dict.fromkeys(LAYERS, 0.0)
    for (file, _, name), (_, own) in stats.items():
        layers[layer_of(file, name)] += own
    return layers


def _nothing() -> None:
    return None


def _counted(workload: str, scale: Scale, url: NewStore) -> Counter[str]:
    found: Counter[str] = Counter()
    with counted_syncs() as syncs, Connections() as connections, counted_hops() as hops, counted_questions() as asked:
        blocks: list[Any] = []

        def begin() -> None:
            syncs.clear()
            hops.clear()
            asked.clear()
            blocks.append(connections.counted())
            blocks.append(blocks[0].__enter__())

        def end() -> None:
            blocks[0].__exit__(None, None, None)
            found.update(syncs)
            found.update({f"thread {name}": count for name, count in hops.items()})
            for statements in (blocks[1], asked):
                found.update({f"SQL {text[:90]}": count for text, count in statements.items()})

        asyncio.run(_run(workload, scale, url, lambda: _Block(begin, end)))
    return found


def _said_counts(counts: Counter[str], stats: Stats, units: float, unit: str) -> Sequence[str]:
    coded = Counter[str]()
    for (_, _, name), (entered, _) in stats.items():
        if "msgspec" in name:
            coded[next((kind for kind in ("encodes", "decodes") if kind[:-1] in name), "others")] += entered
    statements = Counter({text: count for text, count in counts.items() if text.startswith("SQL ")})
    rest = {text: count for text, count in counts.items() if not text.startswith("SQL ")}
    commits = counts["SQL COMMIT"] / units
    lines = [f"per {unit}   statements {sum(statements.values()) / units:.2f}, commits {commits:.3f}"]
    lines += [f"           {name} {count / units:.3f}" for name, count in sorted(rest.items())]
    lines += [f"           msgspec {name} {count / units:.2f}" for name, count in sorted(coded.items())]
    lines += [f"           {count / units:8.3f}  {text[4:]}" for text, count in statements.most_common(12)]
    return lines


def _said_layers(stats: Stats, microseconds: float, unit: str) -> Sequence[str]:
    layers = _layers(stats)
    total = sum(layers.values()) or 1.0
    coarse = {name: share * total for name, share in shares(stats).items()}
    fine = {layer: layers[layer] for layer in sorted(LAYERS, key=lambda layer: -layers[layer]) if layers[layer]}
    lines = [_share(name, own, total, microseconds, unit) for name, own in coarse.items()]
    return [*lines, "", *(_share(name, own, total, microseconds, unit) for name, own in fine.items())]


def _share(name: str, own: float, total: float, microseconds: float, unit: str) -> str:
    return f"{name:32} {own / total:6.1%}  {shown(own / total * microseconds):>7} µs/{unit}"


def _said_calls(url: NewStore) -> Sequence[str]:
    """How many of Holdfast's functions are entered: on stores of their own, one run at a time."""
    return calls.said(*asyncio.run(calls.counts(url(f"c{time.monotonic_ns()}"))))


def _said_functions(stats: Stats, units: float, microseconds: float, unit: str) -> Sequence[str]:
    total = sum(own for _, own in stats.values()) or 1.0
    ordered = sorted(stats.items(), key=lambda entry: -entry[1][1])[:TOP]
    return [
        f"{own / total * microseconds:7.1f} µs/{unit} {entered / units:8.2f} calls/{unit}  {_named(place)}"
        for place, (entered, own) in ordered
    ]


def _named(place: Place) -> str:
    file, line, name = place
    if file == "~":
        return name
    parts = Path(file).parts
    return f"{'/'.join(parts[-2:])}:{line} {name}"


def report(workload: str, scale: Scale, parent: str | None, store: str = "sqlite") -> str:
    """The profile as text, on a store of its own. The watchdog notices that a profiler slows things down: quiet."""
    logging.disable(logging.WARNING)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=parent) as folder,
        placed(store, Path(folder)) as stores,
    ):
        return profile(workload, scale, Path(folder), stores.url)


def main(workload: str, scale: str, parent: str | None, store: str) -> int:
    """What `dev.py bench --profile` runs."""
    print(report(workload, SCALES[scale], parent, store))
    return 0
