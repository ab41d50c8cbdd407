"""What a worker may be asked to be."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import InvalidInput
from holdfast.worker.worker_options import worker_options


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"concurrency": 0}, "at least one slot"),
        ({"concurrency": -1}, "at least one slot"),
        ({"concurrency": True}, "at least one slot"),
        ({"concurrency": "10"}, "at least one slot"),
        ({"queues": []}, "at least one queue"),
        ({"queues": "slow"}, r"a list of names, such as \['slow'\]"),
        ({"queues": ["a", ""]}, "queue"),
        ({"queues": ["a\nb"]}, "queue"),
        ({"poll": 0}, "no room"),
        ({"ttl": "1s", "poll": "1s"}, "no room for two polls"),
        ({"ttl": 0}, "no room"),
        ({"ttl": "soon"}, "ttl"),
        ({"poll": -1}, "poll"),
        ({"grace": -1}, "grace"),
        ({"id": ""}, "worker id"),
        ({"id": "a\x00b"}, "worker id"),
    ],
)
@pytest.mark.spec("stem.S61")
def test_bad_options_are_refused_by_name(given: dict[str, Any], says: str) -> None:
    """Promise: an option that cannot be is refused before anything is opened, and the message names it."""
    with pytest.raises(InvalidInput, match=says):
        worker_options(**given)


def test_what_a_worker_is_by_default() -> None:
    """Promise: lease 15 s, two polls fit into it, an id that names host and process, an instance of its own."""
    one, other = worker_options(), worker_options()
    assert one.id == f"{socket.gethostname()}-{os.getpid()}"
    assert not one.is_configured
    assert one.instance != other.instance
    assert (one.concurrency, one.queues, one.ttl) == (100, ("default",), timedelta(seconds=15))
    assert one.poll * 2 <= one.ttl


def test_a_configured_id_is_a_promise() -> None:
    """Promise: a given id is remembered as given."""
    assert worker_options(id="w", queues=["a", "b"]).is_configured
    assert worker_options(id="w", queues=["a", "b"]).queues == ("a", "b")
