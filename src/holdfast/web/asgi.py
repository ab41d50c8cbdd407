"""The ASGI application: gate, then route, then answer. It mounts anywhere, and opens the store with the first request
that needs it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.app import App
from holdfast.core.given_json import check_keys
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.web import static
from holdfast.web.access_gate import LOOPBACK, METHODS, SAFE, Authorize, Gate, check_unsafe, cookie_name
from holdfast.web.answers import json_response
from holdfast.web.handler_call import Call
from holdfast.web.identity import Identity
from holdfast.web.login_routes import SignIn, session_json
from holdfast.web.login_sessions import Codes, Sessions
from holdfast.web.problems import Problem, problem_of, problem_response
from holdfast.web.queries import Query
from holdfast.web.routes import BASE, Route, Router
from holdfast.web.service import Service
from holdfast.web.table import ROUTES
from holdfast.web.tokens import GivenTokens, JoinedTokens, TokenFile, Tokens, allows

LOG = logging.getLogger("holdfast.http")

MOST_BODY = 16 * 1024 * 1024
SESSION = f"{BASE}/session"
OPEN = frozenset({"/health", "/ready"})
"""Paths that need no credential, besides the page and signing in."""


def asgi(
    app: App,
    *,
    tokens: Tokens | Path | str | None = None,
    authorize: Authorize | None = None,
    allowed_hosts: Iterable[str] | None = None,
    prefix: str = "",
) -> Server:
    """The application of `App.asgi`."""
    return Server(app, tokens=tokens, authorize=authorize, allowed_hosts=allowed_hosts, prefix=prefix)


_ALLOW = {"Allow": "GET, HEAD, POST, DELETE"}


def _now() -> datetime:
    return datetime.now(UTC)


class Server:
    """An ASGI application. It denies everything that no token, session or `authorize` allows."""

    def __init__(
        self,
        app: App,
        *,
        tokens: Tokens | Path | str | None = None,
        authorize: Authorize | None = None,
        allowed_hosts: Iterable[str] | None = None,
        prefix: str = "",
        secret: str = "",
        routes: tuple[Route, ...] = ROUTES,
        has_page: bool = True,
    ) -> None:
        if prefix and (not prefix.startswith("/") or prefix.endswith("/")):
            raise InvalidInput(
                f"prefix={prefix!r}: it begins with a slash and does not end with one, such as /holdfast"
            )
        if isinstance(allowed_hosts, str):
            raise InvalidInput(f"allowed_hosts={allowed_hosts!r}: give a list of hosts, such as ['shop.example.org']")
        given = TokenFile(tokens) if isinstance(tokens, str | Path) else tokens
        self.own: GivenTokens = GivenTokens()
        gate = Gate(
            tokens=JoinedTokens(self.own, *([given] if given is not None else [])),
            authorize=authorize,
            allowed_hosts=LOOPBACK if allowed_hosts is None else allowed_hosts,
            sessions=Sessions(secret, clock=_now),
            codes=Codes(clock=_now),
            clock=_now,
        )
        self.service: Service = Service(app, gate)
        self._router = Router(routes)
        self._prefix = prefix
        self._has_page = has_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI. Web sockets are refused, and a lifespan has nothing to do."""
        if scope["type"] == "http":
            response = await self._answered(scope, receive)
            await response(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "lifespan":
            await _lifespan(receive, send)

    async def _answered(self, scope: Scope, receive: Receive) -> Response:
        path = raw_path(scope)
        try:
            response = await self._passed(scope, receive, path)
        except Exception as error:
            problem = problem_of(error)
            if problem.status >= 500 and not isinstance(error, HoldfastError | Problem):
                LOG.exception("%s %s failed", scope["method"], path)
            response = problem_response(problem, path)
        for name, value in static.HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    async def _passed(self, scope: Scope, receive: Receive, path: str) -> Response:
        headers = _headers(scope)
        gate, method = self.service.gate, scope["method"]
        host = gate.check_host(headers)
        if self._prefix:
            if not path.startswith(f"{self._prefix}/") and path != self._prefix:
                raise Problem(404, "NotFound", f"there is nothing at {path[:200]}")
            path = path.removeprefix(self._prefix) or "/"
        if method not in METHODS:
            raise Problem(405, "MethodNotAllowed", f"no {method[:20]} here", headers=_ALLOW)
        if method in SAFE and self._has_page and static.is_page(path):
            return static.page_response(path, headers.get("if-none-match", ""))
        if method in SAFE and path in OPEN:
            return await self._health(path)
        if self.service.stopping.is_set():
            raise Problem(503, "Stopping", "the server is stopping", headers={"Retry-After": "3"})
        data = b"" if method in SAFE else await _body(receive, headers)
        if path == SESSION and method == "POST":
            check_unsafe(headers, scope["scheme"], host, is_ambient=False, has_body=True)
            return await self._sign_in(scope, headers, data)
        who = await gate.identify(scope, headers)
        if method not in SAFE:
            check_unsafe(headers, scope["scheme"], host, is_ambient=who.is_ambient, has_body=bool(data))
        if path == SESSION and method == "DELETE":
            return _signed_out(scope, headers, self._cookie_path(scope))
        return await self._routed(scope, headers, method, path, who, data)

    async def _routed(
        self, scope: Scope, headers: dict[str, str], method: str, path: str, who: Identity, data: bytes
    ) -> Response:
        query = Query(scope.get("query_string", b""))
        plain: dict[str, str] = {name: query.text(name) for name in ("id", "key", "name") if name in query.names()}
        route, given = self._router.find(method, path, plain)
        if not allows(who.role, route.role):
            raise Problem(403, "Forbidden", f"this needs the role {route.role}; {who.name} has {who.role}")
        unknown = query.names() - {*route.query, *(route.parameters if path == route.plain_path else ())}
        if unknown:
            raise Problem(400, "BadRequest", f"no parameter {min(unknown)!r} here; there are {', '.join(route.query)}")
        client = (await self.service.client()).acting_as(who.name)
        call = Call(self.service, client, who, query, given, _read(route, data), headers.get("last-event-id", ""))
        answer = await route.handler(call)
        return answer if isinstance(answer, Response) else json_response(answer, route.statuses[0])

    async def _health(self, path: str) -> Response:
        if path == "/health":
            return json_response({"ok": True})
        if self.service.stopping.is_set():
            return json_response({"ok": False, "store": "stopping"}, 503)
        try:
            client = await self.service.client()
            await self.service.kept("ready", client.store.final_seq, 1.0)
        except HoldfastError:
            return json_response({"ok": False, "store": "out of reach"}, 503)
        return json_response({"ok": True, "store": "ok"})

    async def _sign_in(self, scope: Scope, headers: dict[str, str], data: bytes) -> Response:
        given: SignIn = _decoded(data, SignIn)
        if (given.token is None) == (given.code is None):
            raise InvalidInput("give either token or code")
        token = self.service.gate.sign_in(scope, token=given.token, code=given.code)
        cookie, expires = self.service.gate.sessions.open(token)
        who = Identity(token.name, token.role, is_ambient=True, token=token.id, expires_at=expires)
        response = json_response(await session_json(self.service, who))
        response.set_cookie(
            cookie_name(headers),
            cookie,
            expires=expires,
            path=self._cookie_path(scope),
            secure=scope["scheme"] == "https",
            httponly=True,
            samesite="strict",
        )
        return response

    def _cookie_path(self, scope: Scope) -> str:
        return f"{scope.get('root_path', '')}{self._prefix}/"


def _signed_out(scope: Scope, headers: dict[str, str], path: str) -> Response:
    response = Response(status_code=204)
    response.delete_cookie(
        cookie_name(headers), path=path, secure=scope["scheme"] == "https", httponly=True, samesite="strict"
    )
    return response


def raw_path(scope: Scope) -> str:
    """The path as it was sent, without the mount point. If the server does not provide it, the decoded path is encoded
    again; ids with a slash then go in the query."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"], safe="/%").encode()
    path = raw.partition(b"?")[0].decode("ascii", "replace")
    root = scope.get("root_path", "")
    return (path.removeprefix(root) or "/") if root else path


def _headers(scope: Scope) -> dict[str, str]:
    """Headers by name. A duplicate of one that must be single is refused."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in found and key in {"host", "origin", "authorization", "content-type", "content-length"}:
            raise Problem(400, "BadRequest", f"the header {key} is given twice")
        text = value.decode("latin-1")
        found[key] = f"{found[key]}; {text}" if key == "cookie" and key in found else text
    return found


async def _body(receive: Receive, headers: dict[str, str]) -> bytes:
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > MOST_BODY:
        raise Problem(413, "PayloadTooLarge", f"the body is larger than {MOST_BODY} bytes")
    data = bytearray()
    while True:
        part = await receive()
        if part["type"] == "http.disconnect":
            raise Problem(400, "BadRequest", "the client disconnected")
        data += part.get("body", b"")
        if len(data) > MOST_BODY:
            raise Problem(413, "PayloadTooLarge", f"the body is larger than {MOST_BODY} bytes")
        if not part.get("more_body"):
            return bytes(data)


def _read(route: Route, data: bytes) -> Any:
    if route.body is None:
        if data:
            raise Problem(400, "BadRequest", "a body is not expected here")
        return None
    return _decoded(data or b"{}", route.body)


def _decoded(data: bytes, kind: type[Any]) -> Any:
    try:
        body = msgspec.json.decode(data, type=kind)
        check_keys(data, "the body")
    except InvalidInput as error:
        raise Problem(422, "InvalidInput", str(error)) from None
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$")
        path = where.rstrip("`").lstrip(".")
        raise Problem(422, "InvalidInput", text, path=path) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "BadRequest", f"the body is not JSON: {error}") from None
    return body


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        told = await receive()
        await send({"type": f"{told['type']}.complete"})
        if told["type"] == "lifespan.shutdown":
            return


__all__ = ["Server", "asgi"]
