"""Paths, matched on the raw path: a parameter is one percent-encoded segment, so that ids may hold a slash; everything
else must match literally. Each path with an id has a second form with the id in the query (`run/story?id=…`), for
proxies that decode paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from starlette.responses import Response

from holdfast.web.handler_call import Call
from holdfast.web.problems import Problem
from holdfast.web.tokens import Role

Handler: TypeAlias = Callable[[Call], Awaitable[Response | dict[str, Any]]]
Method: TypeAlias = Literal["GET", "POST", "DELETE"]

BASE = "/api/v1"
_SINGULAR = {"runs": "run", "batches": "batch", "schedules": "schedule", "limits": "limit", "queues": "queue"}


@dataclass(frozen=True)
class Route:
    """One path and method. `body` is the type of its JSON body, `query` the parameters it takes, `answer` the fields
    that are always in its answer, `statuses` its successful statuses."""

    method: Method
    path: str
    role: Role
    handler: Handler
    summary: str
    body: type[Any] | None = None
    query: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    statuses: tuple[int, ...] = (200,)
    media_type: str = "application/json"
    events: tuple[tuple[str, type[Any]], ...] = ()
    """For server-sent events: the type of the data of each."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names in the path."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))

    @property
    def plain_path(self) -> str:
        """The form in which its parameters are in the query."""
        parts = [part for part in self.path.split("/") if not part.startswith("{")]
        return "/".join(_SINGULAR.get(part, part) if self.parameters else part for part in parts)


class Router:
    """Finds the route of a raw path."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self.routes = routes
        self._exact: dict[str, dict[str, Route]] = {}
        self._plain: dict[str, dict[str, Route]] = {}
        self._patterns: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in routes:
            if route.parameters:
                self._patterns.setdefault(tuple(route.path.split("/")), {})[route.method] = route
                self._plain.setdefault(route.plain_path, {})[route.method] = route
            else:
                self._exact.setdefault(route.path, {})[route.method] = route

    def find(self, method: str, path: str, query: Mapping[str, str]) -> tuple[Route, dict[str, str]]:
        """The route of a path (without prefix, as it was sent) and the parameters in it."""
        methods, given = self._methods(path, query)
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            known = sorted({*methods, *({"HEAD"} if "GET" in methods else ())})
            raise Problem(
                405, "MethodNotAllowed", f"{method[:20]} is not for {path[:200]}", headers={"Allow": ", ".join(known)}
            )
        return route, given

    def _methods(self, path: str, query: Mapping[str, str]) -> tuple[dict[str, Route], dict[str, str]]:
        if path in self._exact:
            return self._exact[path], {}
        if path in self._plain:
            methods = self._plain[path]
            names = next(iter(methods.values())).parameters
            missing = [name for name in names if not query.get(name)]
            if missing:
                raise Problem(400, "BadRequest", f"{' and '.join(missing)} must be in the query: ?{missing[0]}=…")
            return methods, {name: query[name] for name in names}
        parts = path.split("/")
        for pattern, methods in self._patterns.items():
            if len(pattern) == len(parts):
                given = _matched(pattern, parts)
                if given is not None:
                    return methods, given
        raise Problem(404, "NotFound", f"there is nothing at {path[:200]}")


def _matched(pattern: tuple[str, ...], parts: list[str]) -> dict[str, str] | None:
    given: dict[str, str] = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            if not part:
                return None
            given[wanted[1:-1]] = _decoded(part)
        elif wanted != part:
            return None
    return given


def _decoded(segment: str) -> str:
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise Problem(400, "BadRequest", f"{segment[:100]!r} is not UTF-8 when it is decoded") from None
