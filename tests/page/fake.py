"""A server that speaks the page's part of the HTTP API from made-up data, and misbehaves when it is told to."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.page import samples
from tests.page.bundle import STATIC
from tests.page.samples import Json

PAGES = {
    f"/{name}"
    for name in "  runs run workflows workflow workers queues limits schedules batches batch login".split(" ")
}
TYPES = {"html": "text/html; charset=utf-8", "js": "text/javascript", "css": "text/css"}
STATUSES = ("pending", "running", "paused", "completed", "failed", "cancelled")
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
TOKEN = "hf_right"
SEARCHED = 500
"""Failed runs that one answer looks at."""


@dataclass
class Site:
    """What the server knows, and what the page asked of it."""

    runs: list[Json] = field(default_factory=samples.runs)
    answers: dict[str, Json] = field(default_factory=dict[str, Json])
    """By path: what is answered instead of what follows from the runs."""
    asked: list[str] = field(default_factory=list[str])
    """The path of each question."""
    posts: list[tuple[str, Json, Json]] = field(default_factory=list[tuple[str, Json, Json]])
    """What was sent: path, query, body."""
    removed: list[str] = field(default_factory=list[str])
    """What was removed: path and name."""
    resumed: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Each stream that was opened: path, and the id after which it was to go on."""
    held: set[str] = field(default_factory=set[str])
    """Paths, and after a blank the page after which they ask, whose answers are made at once and sent late."""
    needs_login: bool = False
    is_down: bool = False
    is_busy: bool = False
    """Whether the proxy before it says that it is away."""
    url: str = ""
    news: threading.Condition = field(default_factory=threading.Condition)
    _log: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    _cuts: int = 0
    _late: set[str] = field(default_factory=set[str])

    def say(self, stream: str, event: str, data: Json) -> None:
        """Tells everyone who follows that stream."""
        with self.news:
            self._log.append((stream, event, json.dumps({"seq": str(len(self._log) + 1), **data})))
            self.news.notify_all()

    def cut(self) -> None:
        """Ends every open stream at once, in the middle of whatever it was saying."""
        with self.news:
            self._cuts += 1
            self.news.notify_all()

    def follow(self, stream: str, after: int) -> Iterator[tuple[int, str, str]]:
        """Messages after that one, as they come, until the streams are cut."""
        with self.news:
            cuts = self._cuts
            self.resumed.append((stream, str(after)))
            self.news.notify_all()
        while True:
            with self.news:
                while self._cuts == cuts and len(self._log) <= after:
                    self.news.wait()
                if self._cuts != cuts:
                    return
                fresh = list(enumerate(self._log[after:], after + 1))
                after = len(self._log)
            yield from ((number, event, data) for number, (name, event, data) in fresh if name == stream)

    def wait_opened(self, count: int) -> None:
        """Until so many streams have been opened in all."""
        with self.news:
            assert self.news.wait_for(lambda: len(self.resumed) >= count, timeout=60), self.resumed

    def wait_held(self, place: str) -> None:
        """Until an answer is made and held there."""
        with self.news:
            assert self.news.wait_for(lambda: place in self._late, timeout=60), self.asked

    def release(self, place: str) -> None:
        """Sends what is held there."""
        with self.news:
            self.held.discard(place)
            self._late.discard(place)
            self.news.notify_all()

    def hold(self, place: str) -> None:
        """Returns when the answer may be sent."""
        with self.news:
            if place in self.held:
                self._late.add(place)
                self.news.notify_all()
                self.news.wait_for(lambda: place not in self.held, timeout=60)

    # -- answers -------------------------------------------------------------------------------------------------------

    def get(self, path: str, query: dict[str, list[str]]) -> Json | None:
        self.asked.append(path)
        if path in self.answers:
            return self.answers[path]
        one = {name: values[0] for name, values in query.items()}
        found = next((run for run in self.runs if run["id"] == one.get("id")), None)
        match path:
            case "runs":
                return self._page(query, one)
            case "runs/counts":
                counts = {name: sum(run["status"] == name for run in self.runs) for name in STATUSES}
                return {
                    "counts": counts,
                    "capped": ["completed"] if counts["completed"] > 10_000 else [],
                    "cap": 10_000,
                }
            case "runs/histogram":
                return self._histogram()
            case "run/story" if found:
                return samples.story(found)
            case "run/stream-ends" if found:
                return {"streams": {}}
            case "run/journal" if found:
                turns = [samples.turn(number, *fact) for number, fact in enumerate(samples.FACTS, 1)]
                return {"turns": turns, "next": "", "seq": "0"}
            case "run/steps" if found and one["key"].startswith("charge"):
                return samples.step(one["key"], one["id"])
            case "workflows" | "queues" | "limits" | "workers":
                return {path: []}
            case "overview":
                return {"workflows": 3, "workers": 2, "limits": 0, "schedules": 1}
            case "leases":
                return {
                    "manager": "store",
                    "members": [],
                    "holders": [],
                    "compared": 0,
                    "disagreements": [],
                    "problem": "",
                }
            case "schedules":
                return {"schedules": [], "problems": [], "next": ""}
            case _:
                return None

    def _page(self, query: dict[str, list[str]], one: dict[str, str]) -> Json:
        statuses, prefix = query.get("status"), one.get("q", "")
        found = [x for x in self.runs if (not statuses or x["status"] in statuses) and x["id"].startswith(prefix)]
        start, limit = int(one.get("after", "0")), int(one.get("limit", "100"))
        text = one.get("error", "")
        if text:
            found, limit = [x for x in found if x["status"] == "failed"], SEARCHED
        last = start + limit
        page = found[start:last]
        shown = [x for x in page if text in x["error"]]
        return {"runs": shown, "next": str(last) if last < len(found) else "", "seq": "0", "looked_at": len(page)}

    def _histogram(self) -> Json:
        width = 900
        buckets: list[Json] = []
        for number in range(96):
            counts = dict.fromkeys(STATUSES, 0) | {"completed": 30 + number * 7919 % 23}
            counts["failed"] = 9 if 60 < number < 68 else 0
            buckets.append({"at": samples.instant(width * (number - 96)), **counts})
        since, until = samples.instant(-86_400), samples.instant(0)
        return {
            "since": since, "until": until, "width_seconds": width, "is_capped": False, "cap": 50_000,
            "buckets": buckets,
        }  # fmt: skip

    def post(self, path: str, query: Json, body: Json) -> Json | None:
        self.posts.append((path, query, body))
        if path in self.answers:
            return self.answers[path]
        if path == "runs":
            return {"run": samples.run(body.get("id") or "new-1"), "outcome": "created"}
        if path == "runs/bulk":
            return {
                "dry_run": True,
                "matched": len(body["ids"] or self.runs),
                "is_capped": False,
                "sample": self.runs[:3],
            }
        if path.startswith("run/"):
            return {"run": samples.run(query["id"]), "remark": f"{path}: noted", "awaited": True}
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def log_message(self, format: str, *args: Any) -> None:
        del format, args

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path, query = parts.path.removeprefix("/api/v1/"), parse_qs(parts.query)
        if parts.path in PAGES:
            self._send(200, (STATIC / "index.html").read_bytes(), TYPES["html"])
        elif parts.path.startswith("/static/"):
            file = STATIC / parts.path.removeprefix("/static/")
            self._send(200, file.read_bytes(), TYPES[file.suffix[1:]])
        elif self.site.is_down:
            self.close_connection = True
        elif self.site.is_busy:
            self._refuse(503, "Service unavailable", "no server")
        elif self.site.needs_login:
            self._refuse(401, "Not signed in", "no credential")
        elif path == "session":
            self._answer(samples.SESSION)
        elif path.endswith("/events"):
            self._stream(path, query)
        elif path == "run/streams":
            self._stream(f"{path} {query['name'][0]}", query)
        else:
            found = self.site.get(path, query)
            self.site.hold(" ".join([path, *query.get("after", [])]))
            self._answer(found)

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        path = parts.path.removeprefix("/api/v1/")
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if path == "session":
            self.site.posts.append((path, query, body))
            if body.get("token") == TOKEN or body.get("code") == "once":
                self.site.needs_login = False
                self._answer(samples.SESSION)
            else:
                self._refuse(401, "Unknown token", "this token is not known")
        elif path == "runs/bulk" and not body["dry_run"]:
            self.site.posts.append((path, query, body))
            total = body["expect"]
            words = [
                ("progress", {"done": 1, "total": total}),
                ("end", {"done": total, "total": total, "problems": []}),
            ]
            text = "".join(f"event: {event}\ndata: {json.dumps(data)}\n\n" for event, data in words)
            self._send(200, text.encode(), "text/event-stream")
        else:
            self._answer(self.site.post(path, query, body))

    def do_DELETE(self) -> None:
        parts = urlsplit(self.path)
        path = parts.path.removeprefix("/api/v1/")
        if path == "session":
            self.site.needs_login = True
        else:
            self.site.removed.append(f"{path} {parse_qs(parts.query)['name'][0]}")
        self.send_response(204)
        self.end_headers()

    def _stream(self, path: str, query: dict[str, list[str]]) -> None:
        after = self.headers.get("last-event-id") or query.get("after", ["0"])[0]
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(b"retry: 100\n\n: here\n\n")
            for number, event, data in self.site.follow(path, int(after)):
                self.wfile.write(f"event: {event}\nid: {number}\ndata: {data}\n\n".encode())
            self.wfile.write(b"event: runs\ndata: {cut off in the mid")

    def _answer(self, found: Json | None) -> None:
        if found is None:
            self._refuse(404, "Not found", f"nothing at {self.path}")
        else:
            self._send(200, json.dumps(found).encode(), "application/json")

    def _refuse(self, status: int, title: str, detail: str) -> None:
        body = {"title": title, "status": status, "detail": detail, "error": title, "hint": ""}
        self._send(status, json.dumps(body).encode(), "application/problem+json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": len(body), "content-security-policy": CSP}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that is left hangs up in the middle of an answer."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@contextmanager
def serve(site: Site) -> Iterator[Site]:
    """The site on a port of its own, until the end of the block."""
    server = _Server(("127.0.0.1", 0), type("_Bound", (_Handler,), {"site": site}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        site.cut()
        server.shutdown()
        thread.join()
        server.server_close()
