"""Observability: a span for each attempt of a step, and counts of what happens, for OpenTelemetry.

    pip install opentelemetry-sdk
    python -m examples.traced

The worker's own figures (`holdfast worker --http 127.0.0.1:7070`, `/metrics`) need no code at all.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from holdfast import App, Current, Fact, Hook, Retry, facts, step, workflow


class Spans(Hook):
    """A span around every attempt. What the body opens is inside it, as in any traced function."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def step(self, at: Current) -> Generator[None]:
        known: dict[str, str | int] = {
            "holdfast.run": at.run_id,
            "holdfast.workflow": at.workflow,
            "holdfast.attempt": at.attempt,
        }
        with self._tracer.start_as_current_span(f"step {at.step}", attributes=known):
            yield


class Counts(Hook):
    """How runs end and what is tried again. With a metrics library, each line is one of its counters."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def on(self, fact: Fact) -> None:
        match fact:
            case facts.RunEnded(status=status):
                self.seen[f"runs {status}"] += 1
            case facts.RunFailed(type=kind):
                self.seen[f"runs failed with {kind}"] += 1
            case facts.AttemptFailed(step=name):
                self.seen[f"failed attempts of {name}"] += 1
            case _:
                pass


@step(retry=Retry(3, first="1s", on=ConnectionError))
async def price(sku: str) -> int:
    await asyncio.sleep(0)
    return len(sku) * 100


@workflow
async def quote(sku: str) -> int:
    return await price(sku)


def traced_app(provider: TracerProvider, counts: Counts, url: str | None = None) -> App:
    """The app with both hooks."""
    return App(url, workflows=[quote], hooks=[Spans(provider.get_tracer("shop")), counts])


if __name__ == "__main__":
    console = TracerProvider()
    console.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    told = Counts()
    print(traced_app(console, told, "memory://").run(quote("sku-1")), dict(told.seen))
