"""Runs and stories as the HTTP API says them, made up for the tests of the page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]
VERBS = [
    *"start signal publish approve cancel pause resume retry kill drop bulk trigger set reset".split(),
    *"update backfill remove".split(),
]
NOW = datetime.now(UTC)


def instant(seconds: float) -> str:
    """So many seconds from now."""
    return (NOW + timedelta(seconds=seconds)).isoformat(timespec="microseconds").replace("+00:00", "Z")


SESSION: Json = {
    "actor": "ann", "role": "admin", "expires_at": None, "version": "0.1.0", "store": "sqlite:///shop.db",
    "engine": "SQLite", "has_app": True, "features": ["batches", "limits", "schedules"], "now": instant(0),
    "can": VERBS,
}  # fmt: skip


def run(id: str, status: str = "running", *, age: float = 60, took: float = 2, **more: Any) -> Json:
    """One run; `doing` is a list of what it does."""
    has_ended = status in {"completed", "failed", "cancelled"}
    doing = more.pop("doing", [])
    return {
        "id": id, "workflow": "fulfil", "version": "2", "status": status, "queue": "default", "priority": 0, "key": "",
        "parent": "", "root": id, "attributes": {}, "created_at": instant(-age), "started_at": instant(-age),
        "updated_at": instant(took - age if has_ended else -1), "ended_at": instant(took - age) if has_ended else None,
        "available_at": None, "deadline": None, "worker": "worker-2",
        "is_held": any(one["kind"] == "step" for one in doing), "epoch": 1, "turns": 9,
        "doing": {"now": doing, "more": 0}, "note": "", "seen_at": instant(0), "damage": [], "waiting": "", "error": "",
    } | more  # fmt: skip


def runs() -> list[Json]:
    """One of each kind."""
    retry = {"kind": "retry", "name": "charge:1", "until": instant(3600), "attempt": 1, "of": 5, "detail": "card down"}
    paused = {"kind": "paused", "name": "diverged", "detail": "the journal says charge, the code asks for reserve"}
    refused = "httpx.ConnectError: carrier.example: connection refused"
    signal = {"kind": "signal", "name": "approved", "until": instant(259_000)}
    return [
        run("mail-99120", "pending", age=4, workflow="email", worker="", doing=[{"kind": "start", "name": ""}]),
        run("order-48213", age=42, epoch=2, turns=23, attributes={"tier": "gold"}, doing=[retry]),
        run("agent-311", age=65, workflow="research", doing=[{"kind": "step", "name": "model", "attempt": 1}]),
        run("order-48212", age=180, worker="", doing=[signal]),
        run("order-48211", "completed", age=240, took=2.31),
        run("order-48209", "failed", age=360, took=64, error=refused),
        run("order-48190", "cancelled", age=720, took=8.4, error="customer left"),
        run("order-47990", "paused", age=1860, version="1", worker="", doing=[paused]),
    ]  # fmt: skip


def entry(number: int, start: float, end: float | None, key: str, outcome: str, **more: Any) -> Json:
    """Of a timeline; seconds after the run began, 42 s ago."""
    ended = None if end is None else instant(end - 42)
    first = start < 15
    return {
        "number": number, "ordinal": number, "at": instant(start - 42), "kind": "step", "name": key, "key": key,
        "attempt": 1, "outcome": outcome, "ended_at": ended, "worker": "worker-1" if first else "worker-2",
        "epoch": 1 if first else 2, "text": f"step {key}: {outcome}",
    } | more  # fmt: skip


def story(of: Json) -> Json:
    """Of an order whose worker died on the way."""
    crash = {
        "worker": "worker-1", "epoch": 1, "last_seen": instant(-27.5), "cut": ["notify:1", "warehouse"],
        "taken_over_at": instant(-19.8), "by": "worker-2", "after_seconds": 7.7,
    }  # fmt: skip
    holders = [
        {"worker": "worker-1", "epoch": 1, "from": instant(-42), "until": instant(-19.8), "last_seen": instant(-27.5),
         "end": "crashed"},
        {"worker": "worker-2", "epoch": 2, "from": instant(-19.8), "until": None, "last_seen": instant(-1),
         "end": "held"},
    ]  # fmt: skip
    timeline = [
        entry(3, 0.1, 2.2, "charge", "completed"),
        entry(4, 2.4, 9.8, "approved", "received", kind="signal"),
        entry(6, 10, 12.4, "notify", "completed"),
        entry(7, 10, None, "notify:1", "cut off"),
        entry(8, 10, None, "warehouse", "cut off"),
        entry(10, 22.2, 24, "notify:1", "completed", attempt=2),
        entry(11, 22.2, 26.4, "warehouse", "completed", attempt=2),
        entry(12, 26.5, 29, "sleep", "woke", kind="sleep"),
        entry(13, 29, 30.1, "charge:1", "failed", until=instant(3600), error="PaymentError: card down", of=5),
        entry(14, 29, None, "ship", "open", kind="child", run=f"{of['id']}/ship", name="ship"),
    ]
    child = run(f"{of['id']}/ship", workflow="ship", parent=of["id"], age=13, doing=[{"kind": "step", "name": "pack"}])
    return {
        "run": of, "input": {"order": {"id": "48213", "cents": 250}}, "result": None, "failure": None,
        "exposed": {"progress": "charged payment-48213"}, "retried_from": "", "is_compacted": False, "problems": [],
        "timeline": timeline, "omitted": 0, "holders": holders, "crashes": [crash], "children": [child],
        "children_next": "", "machine": None, "seq": "0", "streams": {}, "plan": "",
    }  # fmt: skip


FACTS: list[tuple[float, str, Json]] = [
    (0, "started", {"workflow": "fulfil", "version": "2"}),
    (0.05, "claimed", {"worker": "worker-1"}),
    (0.1, "step", {"key": "charge"}),
    (2.2, "done", {"key": "charge", "value": "payment-48213"}),
    (2.4, "wait", {"key": "approved", "name": "approved"}),
    (9.8, "signal", {"name": "approved", "sender": "ann@42", "message": "m1", "value": True}),
    (10, "step", {"key": "notify:1"}),
    (12.4, "done", {"key": "notify"}),
    (22.2, "claimed", {"worker": "worker-2", "restarted": ["notify:1", "warehouse"]}),
    (24, "done", {"key": "notify:1"}),
    (29, "step", {"key": "charge:1"}),
    (30.1, "attempt_failed", {"key": "charge:1", "attempt": 1, "failure": {"type": "PaymentError", "message": "no"}}),
]


def turn(number: int, second: float, type: str, data: Json) -> Json:
    """A row of a journal with one fact."""
    common = {"seq": str(number), "ordinal": number, "epoch": 1, "at": instant(second - 42)}
    return {**common, "events": [{**common, "index": 0, "type": type, "data": data}]}


def step(key: str, run_id: str) -> Json:
    """A step that failed once and waits for its next attempt."""
    failure = {
        "type": "PaymentError",
        "message": "card down",
        "traceback": 'Traceback (most recent call last):\n  File "pay.py", line 88, in post\nPaymentError: card down\n',
    }
    attempt = {
        "attempt": 1, "at": instant(-13), "ended_at": instant(-12), "outcome": "failed", "worker": "worker-2",
        "epoch": 2, "failure": failure, "retry_at": instant(3600),
    }  # fmt: skip
    return {
        "key": key, "step": "charge", "run": run_id, "outcome": "open", "scheduled_at": instant(-13), "ended_at": None,
        "ordinal": 10, "input": {"order": {"id": "48213"}, "what": "tip"}, "output": None, "failure": None,
        "idempotency_key": f"{run_id}/{key}", "undo": False, "undoes": "", "retry_at": instant(3600), "of": 5,
        "place": {"file": "orders.py", "line": 27, "name": "orders.charge"}, "attempts": [attempt], "events": [],
    }  # fmt: skip
