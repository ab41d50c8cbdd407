"""How a performance ended: what the store holds at the end, without what may differ between performances.

Times, epochs, attempts and order are left out: after a crash two concurrent steps may end in the other order. The rest
must be the same: each step with its arguments and its outcome, the children, what was sent and shown, and how each run
ended.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.adapters.memory.store import MemoryStore
from holdfast.client.stream_page import state_of
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.mailbox import apply_attributes
from holdfast.core.step import UNKNOWN
from holdfast.core.turn import Row, decode_row
from holdfast.ports.parts import unpack
from holdfast.testing.virtual_loop import at_once

_COUNTED = re.compile(r"(after|at) (\d+ attempts?|attempt \d+)\b")


@dataclass(slots=True)
class Ending:
    """What is compared."""

    status: str = "not ended"
    result: str = ""
    facts: Counter[str] = field(default_factory=Counter[str])
    is_in_doubt: bool = False
    """Whether a once=True step was cut off, so that the workflow was told that its outcome is unknown."""
    paused: str = ""
    failure: Failure | None = None


def ending_of(root: str, rows: Sequence[Row]) -> Ending:
    """How the tree of a run ended."""
    found = Ending()
    events: dict[str, list[e.AnyEvent]] = {}
    for row in rows:
        events.setdefault(row.run, []).extend(decode_row(row).events)
    for run, facts in events.items():
        is_root = run == root
        workflow = next((x.workflow for x in facts if isinstance(x, e.Started)), "")
        found.facts.update(f"{'' if is_root else workflow + ': '}{fact}" for fact in _facts(facts))
        found.is_in_doubt |= any(isinstance(x, e.StepFailed) and x.failure.type == UNKNOWN for x in facts)
        if is_root:
            _end(found, facts)
    return found


def stream_facts(store: MemoryStore, runs: Iterable[str]) -> Iterable[str]:
    """What completed attempts, and the workflow itself, sent to streams. Concurrent steps may alternate differently."""
    for run in runs:
        for name in at_once(store.streams_of(run)):
            page = at_once(store.read_parts(run, name, limit=1_000_000))
            sent: dict[str, list[str]] = {}
            for row in page.rows if page is not None else ():
                if page is not None and state_of(row, page) == "completed":
                    sent.setdefault(row.step, []).extend(bytes(part).decode() for part in unpack(row.packed))
            for step, parts in sent.items():
                yield f"{step or 'the workflow'} sent {', '.join(parts)} to {name}"


def _end(found: Ending, events: Sequence[e.AnyEvent]) -> None:
    for event in events:
        match event:
            case e.Completed():
                found.status, found.result = "completed", _payload(event)
            case e.Failed():
                found.status, found.result = "failed", failure_text(event.failure)
                found.failure = event.failure
            case e.Cancelled():
                found.status = "cancelled"
            case e.Paused():
                found.status, found.paused = f"paused: {event.reason}", event.detail
            case _:
                pass


def _facts(events: Sequence[e.AnyEvent]) -> Iterable[str]:
    asked: dict[str, e.StepScheduled] = {}
    shown: dict[str, str] = {}
    attributes: dict[str, str] = {}
    for event in events:
        match event:
            case e.StepScheduled():
                asked[event.key] = event
            case e.StepAbandoned():
                asked.pop(event.key, None)
            case e.StepCompleted() if (step := asked.get(event.key)) is not None:
                yield f"step {step.step or step.key}{_payload(step)} gave {_payload(event)}"
            case e.StepFailed() if (step := asked.get(event.key)) is not None:
                yield f"step {step.step or step.key}{_payload(step)} failed with {failure_text(event.failure)}"
            case e.ChildStarted():
                yield f"child {event.workflow}{_payload(event)}"
            case e.MessageSent():
                yield f"{event.kind} {event.name} {_payload(event)}"
            case e.Exposed():
                shown[event.name] = _payload(event)
            case e.Answered():
                yield f"update {event.message} {event.outcome}: {_payload(event)}"
            case e.AttributesSet():
                apply_attributes(attributes, event.attributes)
            case e.Completed():
                yield f"completed with {_payload(event)}"
            case e.Failed():
                yield f"failed with {failure_text(event.failure)}"
            case e.Cancelled():
                yield "cancelled"
            case _:
                pass
    for name, value in shown.items():
        yield f"shows {name} = {value}"
    for name, value in attributes.items():
        yield f"is found by {name} = {value}"


def failure_text(failure: Failure) -> str:
    """A failure without its number of attempts, which a crash may raise."""
    return _COUNTED.sub("after its attempts", f"{failure.type}: {failure.message}")


def _payload(event: e.Carrier) -> str:
    if isinstance(event, e.StepScheduled) and event.pieces:
        return f"<{event.hashed[:12]} in pieces>"
    return f"<blob {event.blob[:12]}>" if event.blob else bytes(event.value).decode(errors="replace")


def journal_lines(rows: Sequence[Row], root: str) -> list[str]:
    """A journal for people: a line for each fact."""
    return [
        f"{row.ordinal:>4}  {_line(event)}{'' if row.run == root else f'   [{row.run}]'}"
        for row in rows
        for event in decode_row(row).events
    ]


def _line(event: e.AnyEvent) -> str:
    tag = str(type(event).__struct_config__.tag)
    name = getattr(event, "key", "") or getattr(event, "name", "") or getattr(event, "workflow", "")
    payload = _payload(event) if isinstance(event, e.Carrier) else ""
    failure = getattr(event, "failure", None)
    detail = failure_text(failure) if isinstance(failure, Failure) else payload if payload != "null" else ""
    if isinstance(event, e.Claimed) and event.restarted:
        detail = f"begins again: {', '.join(event.restarted)}"
    text = f"{tag:<14} {name:<20} {detail}".rstrip()
    return text if len(text) <= 160 else text[:159] + "…"
