"""How a run is started, as one value: the options of `App.start` and its siblings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.authoring.script.channels import Channel
from holdfast.core.durations import Duration

IfExists: TypeAlias = Literal["return", "reject", "replace"]
"""The outcome of a start whose id, key or unique value a run has: `return`: that run, even if its input is different;
`reject`: a `Conflict`; `replace`, for a unique value: that run is cancelled and a new one takes its place."""


Given: TypeAlias = tuple[Channel[Any], Any] | tuple[Channel[Any], Any, str]
"""A signal that a start sends: the channel, the value and, so that a start that is repeated sends it once, an id."""


class Collected(msgspec.Struct, frozen=True, gc=False):
    """See `App.collect`: each call gives one item of the argument `into`."""

    into: str
    within: timedelta
    most: int


class StartOptions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """See `App.start`. With `connection` the run is made in that open transaction, and exists once the caller commits.
    `brings`: blobs that the arguments refer to, stored with the run; `needs`: the names of others, stored before.
    `by_hand`: the journal says who starts it. `signal`: a signal, its value and perhaps the id of the message, in the
    inbox of the run."""

    id: str | None = None
    key: str | None = None
    delay: Duration | None = None
    deadline: Duration | datetime | None = None
    queue: str = "default"
    priority: int = 0
    attributes: Mapping[str, str] | None = None
    connection: Any = None
    if_exists: IfExists | None = None
    unique: str | None = None
    share: str | None = None
    debounce: Duration | None = None
    max_wait: Duration | None = None
    collects: Collected | None = None
    brings: Mapping[str, bytes] | None = None
    needs: tuple[str, ...] = ()
    by_hand: bool = False
    signal: Given | None = None


DEFAULT = StartOptions()
