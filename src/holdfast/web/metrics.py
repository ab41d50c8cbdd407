"""Figures for Prometheus, in its text format. Labels are statuses, queues and states of workers, whose number does not
grow with the runs."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from holdfast.client.client import Client
from holdfast.core.status import Status
from holdfast.ports.condition import Diagnosable
from holdfast.ports.runs import Filter
from holdfast.web.handler_call import Call
from holdfast.web.run_routes import CAP
from holdfast.web.service import Service

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def metrics(call: Call) -> Response:
    """`GET /metrics`."""
    return Response(await figures(call.service, call.client), media_type=MEDIA_TYPE)


async def figures(service: Service, client: Client) -> str:
    """All figures, at most a few seconds old."""
    return await service.kept("metrics", lambda: _figures(service, client))


async def _figures(service: Service, client: Client) -> str:
    store, lines = client.store, list[str]()
    counts = await store.tally(Filter(), at_most=CAP)
    by_status = [({"status": status.value}, counts[status]) for status in Status]
    lines += _metric("holdfast_runs", f"Runs by status, counted up to {CAP} each.", by_status)
    workers = await store.workers()
    live = [worker for worker in workers if worker.is_live]
    lines += _metric("holdfast_workers", "Live workers.", [({}, len(live))])
    lines += _metric("holdfast_runs_held", "Runs that live workers hold.", [({}, sum(x.active for x in live))])
    if isinstance(store, Diagnosable):
        waiting: dict[str, int] = {"default": 0}
        oldest, now = 0.0, store.clock.now()
        for one in await store.backlog():
            waiting[one.queue] = waiting.get(one.queue, 0) + one.count
            oldest = max(oldest, (now - one.since).total_seconds())
        by_queue = [({"queue": queue}, count) for queue, count in sorted(waiting.items())]
        lines += _metric("holdfast_runs_waiting", "Runs that wait for a worker.", by_queue)
        lines += _metric("holdfast_oldest_wait_seconds", "How long the oldest of them waits.", [({}, oldest)])
    lines += _metric("holdfast_http_streams", "Streams that this process holds open.", [({}, service.streams)])
    return "\n".join(lines) + "\n"


def _metric(name: str, text: str, values: Iterable[tuple[dict[str, str], float]]) -> list[str]:
    head = [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
    return [*head, *(f"{name}{_labels(labels)} {value:g}" for labels, value in values)]


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
