"""`python -m benchmarks.verbs`: what each verb costs in commits and statements on SQLite, and in round trips on
PostgreSQL.

Counted, not timed, so a busy machine gives the same figures. A verb of a client is counted without a worker. A verb of
a workflow is counted as the difference between a run that uses it and a run that does not, with one worker beside it
that looks so seldom that only the work itself is counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final

import msgspec

from benchmarks.counting import Connections, counted_questions
from benchmarks.section import show_section
from benchmarks.verb_section import RESULTS, rendered
from benchmarks.verb_workflows import INSIDE, WORKFLOWS, approve, approved, asked, nothing
from holdfast import App, UpdateTimeout
from holdfast.config import Configuration, RecoverySettings
from tests.support.postgres import clean_url

Verb = Callable[[App, str], Awaitable[Any]]


TIMES: Final = 5


class Cost(msgspec.Struct):
    """Of one verb. `trips`: statements that a server was asked, each of them one round trip, without the notices to
    other processes, which are sent beside the work."""

    commits: int = 0
    writes: int = 0
    reads: int = 0
    trips: int = 0

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            self.commits - other.commits,
            self.writes - other.writes,
            self.reads - other.reads,
            self.trips - other.trips,
        )


async def _start(app: App, id: str) -> None:
    await app.start(approve(), id=id)


async def _signal(app: App, id: str) -> None:
    await (await app.get(f"{id}-there")).signal(approved, True)


async def _start_with_signal(app: App, id: str) -> None:
    await app.start(approve(), id=id, signal=(approved, True))


async def _signal_with_start(app: App, id: str) -> None:
    await app.start(approve(), id=f"{id}-there", signal=(approved, True))


async def _ask(app: App, id: str) -> None:
    run = await app.get(f"{id}-there", approve)
    try:
        await run.update(asked, 1, timeout=0)
    except UpdateTimeout:
        return


async def _cancel(app: App, id: str) -> None:
    await (await app.get(f"{id}-there")).cancel()


async def _unique(app: App, id: str) -> None:
    await app.start(approve(), id=id, unique=id)


async def _replace(app: App, id: str) -> None:
    await app.start(approve(), id=id, unique=f"{id}-there", if_exists="replace")


async def _debounce(app: App, id: str) -> None:
    await app.start(approve(), unique=f"{id}-late", debounce="1h")


CLIENTS: Final[Mapping[str, Verb]] = {
    "`app.start(…)`": _start,
    "`app.start(…, unique=…)`": _unique,
    '`app.start(…, unique=…, if_exists="replace")`, and the run is there': _replace,
    "`app.start(…, unique=…, debounce=…)`, and the run is there": _debounce,
    "`app.start(…, signal=…)`": _start_with_signal,
    "`app.start(…, signal=…)`, and the run is there": _signal_with_start,
    "`app.get(…)` and `run.signal(…)`": _signal,
    "`app.get(…)` and `run.update(…)`, without the wait for the answer": _ask,
    "`app.get(…)` and `run.cancel()`": _cancel,
}


def _app(url: str) -> App:
    return App(url, workflows=WORKFLOWS, config=Configuration(recovery=RecoverySettings(enabled=False)))


async def of_clients(url: str, counted: Counted, times: int = TIMES) -> dict[str, Cost]:
    """The cost of each verb of a client. What it needs is there before it is counted."""
    found: dict[str, Cost] = {}
    async with _app(url) as app:
        for number, (name, verb) in enumerate(CLIENTS.items()):
            costs: list[Cost] = []
            for turn in range(times + 1):
                own = f"{number}-{turn}"
                await app.start(approve(), id=f"{own}-there", unique=f"{own}-there")
                await app.start(approve(), unique=f"{own}-late", debounce="1h")
                with counted() as cost:
                    await verb(app, own)
                costs.append(cost)
            found[name] = _least(costs)
    return found


async def of_workflows(url: str, counted: Counted, times: int = TIMES) -> dict[str, Cost]:
    """What a run costs more that uses the verb."""
    found: dict[str, Cost] = {}
    async with _app(url) as app, app.worker(poll="100s", ttl="1h"):

        async def run(call: Callable[[], Any]) -> Cost:
            costs: list[Cost] = []
            for _ in range(times + 1):
                with counted() as cost:
                    await (await app.start(call())).result(timeout="60s")
                costs.append(cost)
            return _least(costs)

        plain = await run(nothing)
        found["a run that does nothing"] = plain
        for name, made in INSIDE.items():
            found[name] = await run(made) - plain
    return found


def _least(costs: Sequence[Cost]) -> Cost:
    """The least of each, without the first: that one prepares statements and opens connections. A look of the worker
    may fall into the others."""
    rest = costs[1:]
    return Cost(
        *(min(getattr(cost, name) for cost in rest) for name in ("commits", "writes", "reads", "trips")),
    )


Counted = Callable[[], AbstractContextManager[Cost]]


@contextmanager
def counted_on_sqlite(connections: Connections) -> Iterator[Cost]:
    cost = Cost()
    with connections.counted() as statements:
        yield cost
    for text, count in statements.items():
        word = text.partition(" ")[0].upper()
        cost.commits += count * (word == "COMMIT")
        cost.writes += count * (word in {"INSERT", "UPDATE", "DELETE", "REPLACE"})
        cost.reads += count * (word in {"SELECT", "WITH"})


@contextmanager
def _on_postgres() -> Iterator[Cost]:
    cost = Cost()
    with counted_questions() as statements:
        yield cost
    cost.trips = sum(count for text, count in statements.items() if "pg_notify" not in text)


async def measured(stores: Sequence[str]) -> dict[str, dict[str, dict[str, dict[str, int]]]]:
    """Verb by verb, for clients and workflows, of each store."""
    found: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
    for store in stores:
        for name, measure in (("clients", of_clients), ("workflows", of_workflows)):
            with tempfile.TemporaryDirectory() as folder, Connections() as connections:
                if store == "sqlite":
                    costs = await measure(f"sqlite:///{folder}/verbs.db", partial(counted_on_sqlite, connections))
                else:
                    costs = await measure(clean_url(), _on_postgres)
            found.setdefault(name, {})[store] = {verb: msgspec.to_builtins(cost) for verb, cost in costs.items()}
    return found


if __name__ == "__main__":
    show_section("verbs", __doc__, ["sqlite", "postgresql"], measured, rendered, RESULTS)
