"""Where the time of a run went, and what grew since the committed figures. It warns; it never fails a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.command.durations import Cost, Figures
from tests.command.stages import Outcome

LONG = 20.0
"""Seconds past which a test is named loudly."""

SPARE = 1.3
"""How much more than the committed figure a stage may use before it is named loudly."""

LEAST = 10.0
"""Processor seconds below which a stage has no budget: it is noise."""

SHOWN = 10


def report(outcomes: Sequence[Outcome], tests: Mapping[str, Cost], known: Figures, seconds: float) -> Iterator[str]:
    """The lines at the end of a run."""
    yield "\n== where the time went"
    yield f"   {'':6} {'seconds':>8} {'processor s':>12} {'servers s':>10}  stage"
    for one in outcomes:
        servers = f"{one.servers:10.1f}" if one.servers else f"{'':10}"
        yield f"   {'ok' if one.is_ok else 'FAILED':6} {one.seconds:8.1f} {one.processor:12.1f} {servers}  {one.name}"
    processor, servers = (sum(values) for values in zip(*((x.processor, x.servers) for x in outcomes), strict=True))
    yield f"   {'':6} {seconds:8.1f} {processor:12.1f} {servers:10.1f}  all together"
    yield from slowest(tests)
    yield from warnings(outcomes, tests, known)


def slowest(tests: Mapping[str, Cost]) -> Iterator[str]:
    """The tests that took longest, most first."""
    if tests:
        yield f"== the {min(SHOWN, len(tests))} slowest of {len(tests)} tests"
        yield f"   {'seconds':>8} {'processor s':>12}  test"
    for name, cost in sorted(tests.items(), key=lambda pair: -pair[1].seconds)[:SHOWN]:
        yield f"   {cost.seconds:8.1f} {cost.processor:12.1f}  {name}"


def warnings(outcomes: Sequence[Outcome], tests: Mapping[str, Cost], known: Figures) -> Iterator[str]:
    """Tests that are too long, stages over their budget, and what grew."""
    long = sorted(((cost.seconds, name) for name, cost in tests.items() if cost.seconds > LONG), reverse=True)
    for seconds, name in long:
        before = f" (committed: {known.tests[name].seconds:.1f} s)" if name in known.tests else ""
        yield f"!! SLOW TEST: {seconds:.1f} s, more than {LONG:g} s: {name}{before}"
    over = [x for x in outcomes if x.processor > max(known.stages.get(x.name, x.processor), LEAST) * SPARE]
    for one in over:
        budget = known.stages[one.name]
        yield f"!! OVER BUDGET: {one.name} used {one.processor:.0f} processor seconds, {budget:.0f} are committed"
    if over or long:
        yield from grown(tests, known.tests)


def grown(tests: Mapping[str, Cost], known: Mapping[str, Cost]) -> Iterator[str]:
    """The tests that cost most beyond their committed figure. One without a figure cost less than a second."""
    nothing = Cost()
    more = [(cost.processor - known.get(name, nothing).processor, name) for name, cost in tests.items()]
    found = [(by, name) for by, name in sorted(more, reverse=True)[:SHOWN] if by >= 1.0]
    if found:
        yield "!! what grew most since the committed figures, in processor seconds (`--record` renews them):"
    for by, name in found:
        before = f" (committed: {known[name].processor:.1f})" if name in known else " (no figure yet)"
        yield f"   {by:+8.1f}  {name}{before}"
