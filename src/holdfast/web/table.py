"""All paths of the API: answers, roles and parameters."""

from __future__ import annotations

from dataclasses import replace

from holdfast.client.stream_reader import StreamPart
from holdfast.web import act_routes as acts
from holdfast.web import (
    batch_routes,
    fleet,
    limit_routes,
    login_routes,
    metrics,
    queue_routes,
    run_routes,
    schedule_routes,
    step_routes,
    stream_routes,
    streams,
)
from holdfast.web.bulk_routes import BulkBody, bulk
from holdfast.web.openapi import document
from holdfast.web.queries import ERROR, FILTERS
from holdfast.web.routes import BASE, Handler, Method, Route
from holdfast.web.tokens import Role

SSE = "text/event-stream"
RUN = ("run",)
DETAIL = ("run", "input", "result", "exposed", "failure", "retried_from", "is_compacted", "redacted", "problems")
STORY = (
    *DETAIL,
    "timeline",
    "omitted",
    "holders",
    "crashes",
    "children",
    "children_next",
    "machine",
    "seq",
    "streams",
    "plan",
)


def _get(
    path: str,
    handler: Handler,
    summary: str,
    *query: str,
    answer: tuple[str, ...] = (),
    media_type: str = "application/json",
    events: tuple[tuple[str, type[object]], ...] = (),
) -> Route:
    kind = Route("GET", f"{BASE}/{path}", "read", handler, summary, query=query, answer=answer, media_type=media_type)
    return replace(kind, events=events)


def _act(
    path: str,
    handler: Handler,
    summary: str,
    body: type[object],
    *,
    role: Role = "operate",
    answer: tuple[str, ...] = RUN,
    statuses: tuple[int, ...] = (200,),
    method: Method = "POST",
) -> Route:
    return Route(method, f"{BASE}/{path}", role, handler, summary, body=body, answer=answer, statuses=statuses)


ROUTES: tuple[Route, ...] = (
    _get("session", login_routes.shown, "The caller and its permissions.",
         answer=("actor", "role", "can", "features", "now")),
    _get("runs", run_routes.listed, "Runs, newest first.", *FILTERS, ERROR, "after", "limit",
         answer=("runs", "next", "seq", "looked_at")),
    _get("runs/counts", run_routes.counts, "How many runs have each status.", *FILTERS,
         answer=("counts", "capped", "cap")),
    _get("runs/histogram", run_routes.histogram, "Runs over time.", *FILTERS, "buckets",
         answer=("buckets", "is_capped")),
    _get("runs/events", streams.listed, "The list, live.", *FILTERS, ERROR, "after", media_type=SSE),
    _get("runs/{id}", run_routes.one, "One run.", answer=DETAIL),
    _get("runs/{id}/story", run_routes.story, "The story of a run: its timeline, errors and children.", answer=STORY),
    _get("runs/{id}/journal", run_routes.journal, "Its journal.", "after", "limit", answer=("turns", "next", "seq")),
    _get("runs/{id}/events", streams.journal, "Its journal, live.", "after", media_type=SSE),
    _get("runs/{id}/streams/{name}", stream_routes.parts, "Parts of a stream, live.", "after", "only", media_type=SSE,
         events=(("part", StreamPart), ("end", stream_routes.StreamEnd))),
    _get("runs/{id}/stream-ends", stream_routes.ends, "How many parts each of its streams has.", answer=("streams",)),
    _get("runs/{id}/steps/{key}", step_routes.one, "One step.", answer=("key", "step", "attempts", "events", "place")),
    _get("runs/{id}/graph", step_routes.graph, "Its declared plan.", answer=("kind", "nodes", "path")),
    _get("runs/{id}/children", run_routes.children, "Its children.", "after", "limit", answer=("runs", "next")),
    _get("runs/{id}/values", run_routes.values, "The values it exposes.", answer=("values",)),
    _get("runs/{id}/value", run_routes.value, "One whole value.", "of"),
    _get("runs/{id}/blob", run_routes.blob, "A large payload.", "name", "raw"),
    _act("runs", acts.start, "Start a run.", acts.StartBody, answer=("run", "outcome"), statuses=(200, 201)),
    _act("runs/bulk", bulk, "One act on many runs.", BulkBody, role="admin", answer=()),
    _act("runs/{id}/signal", acts.signal, "Send a signal.", acts.SignalBody, answer=("run", "awaited")),
    _act("runs/{id}/update", acts.update, "Ask it, and wait for the answer.", acts.UpdateBody, answer=("answer", "id")),
    _act("runs/{id}/approve", acts.approve, "Decide.", acts.ApproveBody, answer=("run", "awaited")),
    _act("runs/{id}/cancel", acts.cancel, "Ask it to stop.", acts.ReasonBody, answer=("run", "remark")),
    _act("runs/{id}/kill", acts.kill, "End it at once.", acts.ReasonBody, role="admin", answer=("run", "remark")),
    _act("runs/{id}", acts.delete, "Delete an ended run with its tree.", acts.EmptyBody, role="admin",
         answer=("deleted", "runs"), method="DELETE"),
    _act("runs/{id}/redact", acts.redact, "Take values out of an ended run.", acts.RedactBody, role="admin",
         answer=("redaction", "run")),
    _act("runs/{id}/pause", acts.pause, "Pause it.", acts.ReasonBody, answer=("run", "remark")),
    _act("runs/{id}/resume", acts.resume, "Resume it.", acts.EmptyBody, answer=("run", "remark")),
    _get("runs/{id}/messages", acts.messages, "Messages it has not taken.", answer=("messages",)),
    _act("runs/{id}/drop", acts.drop, "Drop a message.", acts.DropBody, role="admin"),
    _act("runs/{id}/replace", acts.replace, "Replace a signal's value.", acts.ReplaceBody, role="admin"),
    _act("runs/{id}/retry", acts.retry, "Start it again.", acts.RetryBody, statuses=(201,)),
    _act("topics/publish", acts.publish, "Publish to a topic.", acts.PublishBody, answer=("topic", "woken")),
    _get("batches", batch_routes.listed, "Batches.", "status", "after", "limit", answer=("batches", "next")),
    _get("batches/{id}", batch_routes.one, "One batch.", answer=("id", "workflow", "counts", "run")),
    _get("batches/{id}/items", batch_routes.items, "Its items.", "status", "after", "limit", answer=("items", "next")),
    _act("batches/{id}/cancel", batch_routes.cancel, "Stop the rest.", acts.ReasonBody, answer=("batch",)),
    _act("batches/{id}/pause", batch_routes.pause, "Start no further items.", acts.ReasonBody, answer=("batch",)),
    _act("batches/{id}/resume", batch_routes.resume, "Resume it.", acts.EmptyBody, answer=("batch",)),
    _act("batches/{id}/retry", batch_routes.retry, "Start what did not complete again.", acts.RetryBody,
         answer=("batch",), statuses=(201,)),
    _get("workflows", fleet.workflows, "What can be run.", answer=("format", "workflows", "step_retry")),
    _get("workflows/stats", fleet.stats, "Recent outcomes.", "workflow", "version", answer=("ended", "recent")),
    _get("overview", fleet.overview, "How many workers are alive, and how much there is of what the app declares.",
         answer=("workflows", "workers", "limits", "schedules")),
    _get("workers", fleet.workers, "The workers and what they serve.", "all", answer=("workers",)),
    _get("leases", fleet.leases, "Who grants leases, and to whom.",
         answer=("manager", "members", "holders", "compared", "disagreements", "problem")),
    _get("queues", queue_routes.listed, "What waits.", answer=("queues",)),
    _get("queues/{name}", queue_routes.one, "One queue.", answer=("queue",)),
    _act("queues/{name}/pause", queue_routes.pause, "Pause a queue.", acts.ReasonBody, answer=("queue",)),
    _act("queues/{name}/resume", queue_routes.resume, "Resume a queue.", acts.EmptyBody, answer=("queue",)),
    _act("queues/{name}/set", queue_routes.set_rules, "Change its rules.", queue_routes.RulesBody, role="admin",
         answer=("queue",)),
    _act("queues/{name}/reset", queue_routes.reset, "Return to the declared rules.", acts.EmptyBody, role="admin",
         answer=("queue",)),
    _get("schedules", schedule_routes.listed, "Schedules and their next slots.", "after", "limit",
         answer=("schedules", "problems", "next")),
    _get("schedules/{name}", schedule_routes.one, "One schedule and its last runs.", "limit",
         answer=("schedule", "runs")),
    _act("schedules/{name}/pause", schedule_routes.pause, "Pause a schedule.", acts.ReasonBody, answer=("schedule",)),
    _act("schedules/{name}/resume", schedule_routes.resume, "Resume a schedule.", acts.EmptyBody, answer=("schedule",)),
    _act("schedules/{name}/trigger", schedule_routes.trigger, "Start a run of it now.",
         schedule_routes.TriggerBody, answer=("schedule", "run")),
    _act("schedules/{name}/backfill", schedule_routes.backfill, "Start the slots of a range.",
         schedule_routes.BackfillBody, role="admin", answer=("schedule", "slots")),
    Route("DELETE", f"{BASE}/schedules/{{name}}", "admin", schedule_routes.remove, "Remove it; its runs stay.",
          statuses=(204,)),
    _get("limits", limit_routes.listed, "Limits on steps: what runs and waits.", answer=("limits",)),
    _get("limits/{name}", limit_routes.one, "One limit and its keys.", "after", "limit",
         answer=("limit", "busiest", "keys", "next")),
    _act("limits/{name}/set", limit_routes.set_rule, "Set what it allows.", limit_routes.LimitBody, role="admin",
         answer=("limit",)),
    _act("limits/{name}/reset", limit_routes.reset, "Follow the code again.", acts.EmptyBody, role="admin",
         answer=("limit",)),
    _act("limits/{name}/pause", limit_routes.pause, "Pause a limit.", acts.ReasonBody, answer=("limit",)),
    _act("limits/{name}/resume", limit_routes.resume, "Resume a limit.", acts.EmptyBody, answer=("limit",)),
    _get("doctor", fleet.doctor, "Problems and warnings.", answer=("ok", "findings")),
    _get("space", fleet.space, "What uses the space.", answer=("total", "tables", "blobs")),
    _get("openapi.json", document, "This document.", answer=("openapi", "paths")),
    Route("GET", "/metrics", "read", metrics.metrics, "Figures for Prometheus.", media_type="text/plain"),
)  # fmt: skip
