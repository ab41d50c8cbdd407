"""Errors as RFC 9457 problem documents: the error's class, what is wrong, where, and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from holdfast import errors
from holdfast.web.answers import encode

MEDIA_TYPE = "application/problem+json"

STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (errors.RunNotFound, 404),
    (errors.UnknownWorkflow, 404),
    (errors.BlobNotFound, 404),
    (errors.ScheduleNotFound, 404),
    (errors.LimitNotFound, 404),
    (errors.Conflict, 409),
    (errors.RunFinished, 409),
    (errors.UpdateRefused, 409),
    (errors.UpdateTimeout, 504),
    (errors.NotAllowedHere, 409),
    (errors.PayloadTooLarge, 413),
    (errors.InvalidInput, 422),
    (errors.StoreUnavailable, 503),
)
"""The first matching class gives the status; every other error of Holdfast is a 500."""


SAID = ("path", "run", "update", "id", "reason")
"""Attributes of an error that its document contains."""


class Problem(Exception):
    """An error answer."""

    def __init__(
        self, status: int, error: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.error = error
        self.detail = detail
        self.headers: dict[str, str] = dict(headers or {})
        self.more = more


def problem_of(error: Exception) -> Problem:
    """The HTTP problem for an error of a client."""
    if isinstance(error, Problem):
        return error
    name = type(error).__name__
    for kind, status in STATUSES:
        if isinstance(error, kind):
            headers = {"Retry-After": "1"} if status == 503 else {}
            more = {said: value for said in SAID if (value := getattr(error, said, ""))}
            return Problem(status, name, str(error), headers=headers, **more)
    if isinstance(error, errors.HoldfastError):
        return Problem(500, name, str(error))
    return Problem(500, "InternalError", "an internal error; the server's log says more")


def problem_document(problem: Problem, instance: str) -> dict[str, Any]:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", problem.error)
    return {
        "type": f"urn:holdfast:{problem.error}",
        "title": words[:1] + words[1:].lower(),
        "status": problem.status,
        "detail": problem.detail,
        "instance": instance,
        "error": problem.error,
        **problem.more,
    }


def problem_response(problem: Problem, instance: str) -> Response:
    """The whole answer."""
    body = encode(problem_document(problem, instance))
    return Response(body, problem.status, headers=problem.headers, media_type=MEDIA_TYPE)
