"""Every path of the API: what it answers, who may ask, and what it takes."""

from __future__ import annotations

from holdfast.web import acts, batches, fleet, metrics, runs, session, steps, streams
from holdfast.web.bulk import BulkBody, bulk
from holdfast.web.openapi import document
from holdfast.web.queries import FILTERS
from holdfast.web.routes import BASE, Handler, Method, Route
from holdfast.web.tokens import Role

SSE = "text/event-stream"
RUN = ("run",)
DETAIL = ("run", "input", "result", "exposed", "failure", "retried_from", "is_compacted", "problems")
STORY = (*DETAIL, "timeline", "omitted", "holders", "crashes", "children", "children_next", "machine", "seq")


def _get(
    path: str,
    handler: Handler,
    summary: str,
    *query: str,
    answer: tuple[str, ...] = (),
    media_type: str = "application/json",
) -> Route:
    place = f"{BASE}/{path}"
    return Route("GET", place, "read", handler, summary, query=query, answer=answer, media_type=media_type)


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
    _get("session", session.shown, "Who asks, and what they may.", answer=("actor", "role", "can", "features", "now")),
    _get("runs", runs.listed, "Runs, newest first.", *FILTERS, "after", "limit", answer=("runs", "next", "seq")),
    _get("runs/counts", runs.counts, "How many runs have each status.", *FILTERS, answer=("counts", "capped", "cap")),
    _get("runs/histogram", runs.histogram, "Runs over time.", *FILTERS, "buckets", answer=("buckets", "is_capped")),
    _get("runs/events", streams.listed, "The list, live.", *FILTERS, "after", media_type=SSE),
    _get("runs/{id}", runs.one, "One run.", answer=DETAIL),
    _get("runs/{id}/story", runs.story, "How a run got here.", answer=STORY),
    _get("runs/{id}/journal", runs.journal, "Its journal.", "after", "limit", answer=("turns", "next", "seq")),
    _get("runs/{id}/events", streams.journal, "Its journal, live.", "after", media_type=SSE),
    _get("runs/{id}/steps/{key}", steps.one, "One step.", answer=("key", "step", "attempts", "events", "place")),
    _get("runs/{id}/graph", steps.graph, "Its declared plan.", answer=("kind", "nodes", "path")),
    _get("runs/{id}/children", runs.children, "Its children.", "after", "limit", answer=("runs", "next")),
    _get("runs/{id}/values", runs.values, "The values it shows.", answer=("values",)),
    _get("runs/{id}/value", runs.value, "One whole value.", "of"),
    _get("runs/{id}/blob", runs.blob, "A large payload.", "name", "raw"),
    _act("runs", acts.start, "Start a run.", acts.StartBody, answer=("run", "outcome"), statuses=(200, 201)),
    _act("runs/bulk", bulk, "One act on many runs.", BulkBody, role="admin", answer=()),
    _act("runs/{id}/signal", acts.signal, "Send a signal.", acts.SignalBody, answer=("run", "awaited")),
    _act("runs/{id}/approve", acts.approve, "Decide.", acts.ApproveBody, answer=("run", "awaited")),
    _act("runs/{id}/cancel", acts.cancel, "Ask it to stop.", acts.ReasonBody, answer=("run", "remark")),
    _act("runs/{id}/kill", acts.kill, "End it at once.", acts.ReasonBody, role="admin", answer=("run", "remark")),
    _act("runs/{id}/pause", acts.pause, "Pause it.", acts.ReasonBody, answer=("run", "remark")),
    _act("runs/{id}/resume", acts.resume, "Resume it.", acts.EmptyBody, answer=("run", "remark")),
    _get("runs/{id}/messages", acts.messages, "Messages it has not taken.", answer=("messages",)),
    _act("runs/{id}/drop", acts.drop, "Drop a message.", acts.DropBody, role="admin"),
    _act("runs/{id}/replace", acts.replace, "Replace a signal's value.", acts.ReplaceBody, role="admin"),
    _act("runs/{id}/retry", acts.retry, "Start it again.", acts.RetryBody, statuses=(201,)),
    _act("topics/publish", acts.publish, "Publish to a topic.", acts.PublishBody, answer=("topic", "woken")),
    _get("batches", batches.listed, "Batches.", "status", "after", "limit", answer=("batches", "next")),
    _get("batches/{id}", batches.one, "One batch.", answer=("id", "workflow", "counts", "run")),
    _get("batches/{id}/items", batches.items, "Its items.", "status", "after", "limit", answer=("items", "next")),
    _act("batches/{id}/cancel", batches.cancel, "Stop the rest.", acts.ReasonBody, answer=("batch",)),
    _act("batches/{id}/pause", batches.pause, "Start no further items.", acts.ReasonBody, answer=("batch",)),
    _act("batches/{id}/resume", batches.resume, "Resume it.", acts.EmptyBody, answer=("batch",)),
    _act("batches/{id}/retry", batches.retry, "Start what did not complete again.", acts.RetryBody, answer=("batch",),
         statuses=(201,)),
    _get("workflows", fleet.workflows, "What can be run.", answer=("format", "workflows", "step_retry")),
    _get("workflows/stats", fleet.stats, "How it went lately.", "workflow", "version", answer=("ended", "recent")),
    _get("workers", fleet.workers, "Who works.", "all", answer=("workers",)),
    _get("queues", fleet.queues, "What waits.", answer=("queues",)),
    _get("doctor", fleet.doctor, "What is wrong.", answer=("ok", "findings")),
    _get("space", fleet.space, "Where the room goes.", answer=("total", "tables", "blobs")),
    _get("openapi.json", document, "This document.", answer=("openapi", "paths")),
    Route("GET", "/metrics", "read", metrics.metrics, "Figures for Prometheus.", media_type="text/plain"),
)  # fmt: skip
