"""A level that changes single values of a store behind its back: each is found, or changes nothing.

Every column of every table is flipped, in some of its rows: a bit of a number, a letter or a byte; a value that may be
missing is taken away, or made up. Then `verify` looks. What it does not find must be harmless: users read the same as
before, and every run comes to the same result. A column that only schedules may delay a run, and no more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.client.verification import verify_run
from holdfast.errors import HoldfastError
from holdfast.ports.runs import Filter
from holdfast.stores import open_store
from tests.lab.bits.runs import PATIENCE, Outcomes, Readings, outcomes, readings
from tests.lab.bits.stores import Column, Filled, Kind, Refused, filled
from tests.lab.levels import Effort, Report, level, unheard

DELAYING = {
    *(("runs", name) for name in ("available_at", "ready", "instance", "worker", "claims", "bounces", "epoch")),
    *(("workers", name) for name in ("instance", "expires", "boot", "lease_boot", "has_ended", "worker")),
    ("meta", "name"),  # without its first seq a store takes no write at all
    ("meta", "value"),
    *(("duties", name) for name in ("duty", "holder", "expires", "boot", "lease_boot")),
}
"""What schedules: a run may stand still because of it, until somebody looks."""

ENOUGH_TO_SEE = 2.5
"""Seconds to watch a store in which a run may stand still."""

Verdict: TypeAlias = Literal["verify", "refused", "reading", "running", "harmless", "delays", "no value", "PROBLEM"]


class Flip(msgspec.Struct, frozen=True):
    """One changed value, and what came of it."""

    kind: Kind
    column: Column
    was: Any
    now: Any
    verdict: Verdict
    detail: str = ""

    def __str__(self) -> str:
        return (
            f"{self.kind}: {self.column[0]}.{self.column[1]}: {self.was!r:.60} became {self.now!r:.60}: {self.detail}"
        )


def flipped(value: Any, rng: Random) -> list[Any]:
    """Other values that one flipped bit, or one lost value, could leave in its place."""
    match value:
        case None:
            return [1]
        case bool():
            return [not value]
        case int():
            return [value ^ 1, value ^ (1 << rng.randrange(1, 20)), None]
        case str():
            place = rng.randrange(len(value)) if value else 0
            letter = chr(ord(value[place]) ^ 1) if value and value[place].isascii() else "x"
            return [value[:place] + (letter if letter.isprintable() else "x") + value[place + 1 :]]
        case bytes() | memoryview():
            data = bytearray(bytes(value)) or bytearray(b"\0")  # pyright: ignore[reportUnknownArgumentType]
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return [bytes(data), b""] if value else [bytes(data)]
        case _:
            raise TypeError(repr(value))


class Flipping:
    """One filled store, what is read of it and what comes of it."""

    def __init__(self, kind: Kind, store: Filled) -> None:
        self._kind: Kind = kind
        self._store = store
        self._spare = ""
        url = store.copy()
        assert not (found := asyncio.run(verified(url))), found
        self._readings: Readings = asyncio.run(readings(url))
        self._outcomes: Outcomes = asyncio.run(outcomes(url, PATIENCE))
        store.drop(url)
        standing = {name: end for name, end in self._outcomes.items() if end[0] != "ended"}
        assert not standing, standing

    def flips(self, rng: Random, rows: int, tables: tuple[str, ...]) -> Iterator[Flip]:
        """Every column, in so many rows; of these tables, if some are named."""
        for column in self._store.columns():
            if tables and column[0] not in tables:
                continue
            found = self._store.rows(column)
            if not found:
                yield Flip(self._kind, column, None, None, "no value", "the table is empty")
            for place, value in rng.sample(found, min(rows, len(found))):
                for other in flipped(value, rng):
                    yield self._flip(column, place, value, other)

    def _flip(self, column: Column, place: Any, value: Any, other: Any) -> Flip:
        """On a copy, which is used again if it was only looked at."""
        url = self._spare = self._spare or self._store.copy()
        try:
            self._store.change(url, column, place, other)
        except Refused as error:
            return Flip(self._kind, column, value, other, "refused", f"by the database: {error}")
        verdict, detail = asyncio.run(self._judged(url, column))
        if verdict == "verify" and self._store.is_costly:
            self._store.change(url, column, place, value)
        else:
            self._store.drop(url)
            self._spare = ""
        return Flip(self._kind, column, value, other, verdict, detail)

    async def _judged(self, url: str, column: Column) -> tuple[Verdict, str]:
        try:
            if found := await verified(url):
                return "verify", found[0]
        except Exception as error:  # noqa: BLE001 a row that cannot be decoded at all is refused by whoever reads it
            return "refused", f"{type(error).__name__}: {error}"
        try:
            read = await readings(url)
        except HoldfastError as error:
            return "reading", f"{type(error).__name__}: {error}"
        if different := [name for name in read if read[name] != self._readings[name]]:
            return "PROBLEM", f"users read something else of {', '.join(different)}, and verify is silent"
        came = await outcomes(url, ENOUGH_TO_SEE if column in DELAYING else PATIENCE)
        for name, end in came.items():
            if end == self._outcomes[name]:
                continue
            if end[0] in {"paused", "refused"}:
                return "running", f"{name}: {end[1]}"
            if end[0] == "open" and column in DELAYING:
                return "delays", f"{name}: {end[1]}"
            return "PROBLEM", f"{name} came to {end}, not to {self._outcomes[name]}, and verify is silent"
        return "harmless", "same readings, same results"


async def verified(url: str) -> list[str]:
    """What `holdfast verify` finds."""
    store = await open_store(url)
    try:
        runs = (await store.list(Filter(), limit=1000)).runs
        return [f"{row.id}: {problem}" for row in runs for problem in (await verify_run(store, row)).problems]
    finally:
        await store.close()


def tried(kind: Kind, rng: Random, rows: int, tables: tuple[str, ...] = ()) -> list[Flip]:
    """The flips of a store of that kind; of these tables, if some are named."""
    with unheard(), filled(kind) as store:
        flipping = Flipping(kind, store)
        return list(flipping.flips(rng, rows, tables))


@level("bits", "single values of a store changed behind its back", share=2)
def bits(effort: Effort) -> Report:
    """Every column of every table, on SQLite and PostgreSQL."""
    report = Report()
    flips: list[Flip] = []
    seed = effort.first
    last = seed + (effort.seeds or 1)
    while seed < last and not (flips and effort.is_over):
        for kind in ("sqlite", "postgres"):
            flips += tried(kind, Random(f"{seed}:{kind}"), 2)
        seed += 1
    count = Counter(flip.verdict for flip in flips)
    report.figures = {
        "seeds": seed - effort.first,
        "columns": len({(flip.kind, flip.column) for flip in flips}),
        "values changed": len(flips) - count["no value"],
        "found by verify": count["verify"],
        "refused when opened, or by the database": count["refused"],
        "found when read, or by the run": count["reading"] + count["running"],
        "harmless": count["harmless"],
        "delays": count["delays"],
    }
    report.sometimes = {"found by verify": count["verify"], "harmless": count["harmless"]}
    report.problems = [f"seed {effort.first}: {flip}" for flip in flips if flip.verdict == "PROBLEM"]
    report.listed = table(flips)
    return report


def table(flips: list[Flip]) -> list[dict[str, str]]:
    """Column by column: what became of the changes."""
    by_column: dict[tuple[Kind, Column], list[Flip]] = {}
    for flip in flips:
        by_column.setdefault((flip.kind, flip.column), []).append(flip)
    return [
        {
            "store": kind,
            "column": ".".join(column),
            "found or harmless": ", ".join(sorted({flip.verdict for flip in found})),
            "because": _because(found),
        }
        for (kind, column), found in by_column.items()
    ]


def _because(flips: list[Flip]) -> str:
    first = next((flip for flip in flips if flip.verdict not in {"refused", "no value"}), flips[0])
    return first.detail.replace("\n", " ")[:100]
