"""Batches that runs make themselves: no item is lost, and none is there twice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from holdfast.authoring.batch.batch_plan import COUNTS, NAME, index_of
from holdfast.core import events as e

if TYPE_CHECKING:
    from tests.lab.sim.watch import Watch


def verify_items(watch: Watch) -> None:
    """In the end: a batch that has completed has one run for each of its items, each of them completed, and a run that
    read the results of its batch has read one of each."""
    made: dict[str, list[int]] = {}
    for name in watch.runs:
        above = name.rpartition("/")[0]
        if above in watch.runs and watch.runs[above].fold.workflow == NAME:
            index = index_of(above, name)
            made.setdefault(above, []).append(-1 if index is None else index)
    for name, known in list(watch.runs.items()):
        fold = known.fold
        if fold.workflow != NAME or not isinstance(fold.end, e.Completed):
            continue
        watch.met["batch of a run completed"] += bool(fold.parent)
        total = COUNTS.decode(fold.end.value).total
        if sorted(made.get(name, [])) != list(range(total)):
            watch.wrong("items", name, f"{total} items have the runs {made.get(name)}")
        for index in made.get(name, []):
            item = watch.runs[f"{name}/{index}"]
            done = Counter(key for _, key in item.completions)
            if not isinstance(item.fold.end, e.Completed) or max(done.values(), default=1) > 1:
                watch.wrong("items", name, f"item {index} ended with {item.fold.end}, its steps completed {done}")
