"""The OpenAPI document, generated from the routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.web.handler_call import Call
from holdfast.web.login_routes import SignIn, own_version, shown
from holdfast.web.problems import MEDIA_TYPE

if TYPE_CHECKING:
    from holdfast.web.routes import Route

REF = "#/components/schemas/{name}"
PROBLEM: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "error"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "error": {"type": "string"},
    },
}
_REPEATED = {"status", "attribute"}
_NUMBERS = {"limit": (1, 1000), "buckets": (1, 200)}
_FLAGS = {"all", "raw"}


async def document(call: Call) -> dict[str, Any]:
    """`GET openapi.json`."""
    from holdfast.web.table import ROUTES

    return openapi(ROUTES)


def openapi(routes: tuple[Route, ...]) -> dict[str, Any]:
    """The whole document."""
    routes = (*routes, *session_routes())
    bodies = {route.body for route in routes if route.body is not None}
    bodies |= {kind for route in routes for _, kind in route.events}
    _, schemas = msgspec.json.schema_components(sorted(bodies, key=lambda x: x.__name__), ref_template=REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": own_version() or "0", "description": "Durable workflows over HTTP."},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Problem": PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def session_routes() -> tuple[Route, ...]:
    """Signing in and out, which the gate answers itself, before routing."""
    from holdfast.web.routes import BASE, Route

    place = f"{BASE}/session"
    return (
        Route("POST", place, "read", shown, "Sign in.", body=SignIn, answer=("actor", "role")),
        Route("DELETE", place, "read", shown, "Sign out.", statuses=(204,)),
    )


def _operation(route: Route) -> dict[str, Any]:
    name = route.path.replace("/api/v1/", "").replace("{", "").replace("}", "").replace("/", "_").replace(".", "_")
    found: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{name.strip('_')}",
        "summary": route.summary,
        "x-role": route.role,
        "parameters": [*(_in_path(name) for name in route.parameters), *(_in_query(name) for name in route.query)],
        "responses": {
            **{str(status): _answer(route) for status in route.statuses},
            **{str(status): _problem(text) for status, text in _problems(route).items()},
        },
    }
    if route.path.endswith("/session") and route.method == "POST":
        found["security"] = []
    if route.body is not None:
        schema = {"$ref": REF.format(name=route.body.__name__)}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return found


def _answer(route: Route) -> dict[str, Any]:
    if 204 in route.statuses:
        return {"description": route.summary}
    if route.media_type == "application/json":
        required = {"required": list(route.answer)} if route.answer else {}
        schema: dict[str, Any] = {"type": "object", **required} if route.answer else {}
    else:
        schema = {"type": "string"}
        if route.events:
            data = {event: {"$ref": REF.format(name=kind.__name__)} for event, kind in route.events}
            schema["x-events"] = data
    content = {route.media_type: {"schema": schema}}
    if route.path.endswith("/blob"):
        content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    if route.path.endswith("/bulk"):
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": route.summary, "content": content}


def _problem(text: str) -> dict[str, Any]:
    return {"description": text, "content": {MEDIA_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}}}


def _problems(route: Route) -> dict[int, str]:
    found = {
        400: "The request cannot be read.",
        401: "The credentials are missing or not valid.",
        403: "The role does not allow this, or the host or origin is not allowed.",
        405: "No such method here.",
        422: "A value is not valid.",
        429: "Too many failed attempts.",
        503: "The store cannot be reached.",
    }
    if route.parameters or route.body is not None:
        found[404] = "Not found."
    if route.body is not None:
        found |= {504: "The run has not answered yet."} if route.path.endswith("/update") else {}
        found |= {409: "It conflicts with something that exists.", 413: "Too large.", 415: "Not JSON."}
    return found


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _in_query(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if name in _REPEATED:
        schema = {"type": "array", "items": {"type": "string"}}
    elif name in _NUMBERS:
        least, most = _NUMBERS[name]
        schema = {"type": "integer", "minimum": least, "maximum": most}
    elif name in _FLAGS:
        schema = {"type": "boolean"}
    return {"name": name, "in": "query", "schema": schema, "explode": True}
