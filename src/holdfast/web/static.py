"""The page: files of one flat folder, and the addresses that are answered with its index."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from starlette.responses import Response

from holdfast.web.problems import Problem

FOLDER = Path(__file__).parent / "static"

PAGES = frozenset({
    "/", "/runs", "/run", "/workflows", "/workflow", "/workers", "/queues", "/limits", "/schedules", "/batches",
    "/batch", "/login",
})  # fmt: skip
"""Files that hold no data and need no credential."""

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".map": "application/json",
    ".webmanifest": "application/manifest+json",
}
_NAME = re.compile(r"/static/([A-Za-z0-9_-][A-Za-z0-9._-]*)")

_EMPTY = (
    b"<!doctype html><meta charset=utf-8><title>Holdfast</title><p>This copy of Holdfast was built without its page. "
    b"The API is under api/v1.\n"
)


def is_page(path: str) -> bool:
    """Whether a path belongs to the page, which needs no credential."""
    return path in PAGES or _NAME.fullmatch(path) is not None


def page_response(path: str, etag: str) -> Response:
    """The file of a path."""
    match = _NAME.fullmatch(path)
    name = match[1] if match is not None else "index.html"
    found = _file(name)
    if found is None:
        if match is not None:
            raise Problem(404, "NotFound", f"there is no file {name!r}")
        found = (_EMPTY, hashlib.sha256(_EMPTY).hexdigest())
    data, digest = found
    headers = {"ETag": f'"{digest[:32]}"', "Cache-Control": "no-cache"}
    if etag == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type=TYPES.get(Path(name).suffix, "application/octet-stream"))


def _file(name: str) -> tuple[bytes, str] | None:
    path = FOLDER / name
    try:
        found = path.stat()
    except OSError:
        return None
    return _read(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=64)
def _read(path: Path, *_: int) -> tuple[bytes, str]:
    data = path.read_bytes()
    return data, hashlib.sha256(data).hexdigest()
