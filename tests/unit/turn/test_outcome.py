"""What an exception that leaves a body means: tried again, or not."""

from __future__ import annotations

import functools
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import RetryAfter, step
from holdfast.core.failure import Failure
from holdfast.core.redaction import Redaction
from holdfast.turn.outcome import Broke, classify
from holdfast.turn.rules import redacted


def raised(function: Callable[..., Any], *args: Any) -> BaseException:
    """What a call of it raises."""
    try:
        function(*args)
    except BaseException as error:  # noqa: BLE001 it is what the test is about
        return error
    raise AssertionError("it raised nothing")


def body(kind: str) -> None:
    """Fails in that way."""
    match kind:
        case "name":
            print(customr)  # type: ignore[name-defined]  # noqa: F821, T201
        case "unbound":
            late = 1
            del late
            print(late)  # type: ignore[misc]  # noqa: T201
        case "import":
            import no_such_module_at_all  # type: ignore[import-not-found]  # noqa: F401
        case "from":
            from holdfast import no_such_name  # type: ignore[attr-defined]  # noqa: F401
        case "syntax":
            compile("a b", "shop.py", "exec")
        case "indentation":
            compile("  a\n b", "shop.py", "exec")
        case "parse":
            ET.fromstring("<a>")  # noqa: S314
        case "attribute":
            None.total  # type: ignore[attr-defined]  # noqa: B018
        case "type":
            len(3)  # type: ignore[arg-type]
        case "inner call":
            body()  # type: ignore[call-arg]
        case "value":
            int("x")
        case "retry after":
            raise RetryAfter("3s")
        case _:
            raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["name", "unbound", "import", "from", "syntax", "indentation"])
def test_a_mistake_is_not_tried_again(kind: str) -> None:
    """Promise: code that is wrong as it is written fails at once."""
    assert classify(raised(body, kind), step(body).spec).is_final


@pytest.mark.parametrize("kind", ["parse", "attribute", "type", "inner call", "value", "retry after"])
def test_what_may_come_from_data_is_tried_again(kind: str) -> None:
    """Promise: `AttributeError`, a `TypeError` of the body's own, and a parser's subclass of `SyntaxError`."""
    assert not classify(raised(body, kind), step(body).spec).is_final


def test_a_call_that_does_not_fit_is_not_tried_again() -> None:
    """Promise: a `TypeError` of a call that never entered the body; also if a decorator made the call."""

    @functools.wraps(body)
    def decorated(*args: Any) -> None:
        body(*args, "one too many")  # type: ignore[call-arg]

    assert classify(raised(body), step(body).spec).is_final
    assert classify(raised(decorated, "value"), step(decorated).spec).is_final


def test_the_error_itself_goes_along_but_not_of_a_run_with_secrets() -> None:
    """Promise: listeners get the exception; what a run keeps secret is in none of it."""
    error = raised(body, "value")
    broke = classify(error, step(body).spec)
    assert broke.error is error
    hidden = redacted(broke, Redaction(["x"]))
    assert isinstance(hidden, Broke)
    assert hidden.error is None
    assert redacted(Broke(Failure("E", "m"), error=error), Redaction([])) == Broke(Failure("E", "m"), error=error)
