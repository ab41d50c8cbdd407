"""Values that were rejected before anything was written."""

from __future__ import annotations

from holdfast.errors.holdfast_error import HoldfastError


class InvalidInput(HoldfastError, ValueError):
    """A value was rejected; nothing was written."""


class InvalidDuration(InvalidInput):
    """A duration that does not parse, is negative, or is not finite."""


class InvalidId(InvalidInput):
    """An id that is empty, too long, or holds control characters."""


class InvalidRetry(InvalidInput):
    """An invalid retry policy."""


class InvalidSchedule(InvalidInput):
    """An invalid schedule: a cron expression that never occurs, an unknown zone, a period of zero."""


class InvalidQueue(InvalidInput):
    """An invalid queue: no place at once, a weight of zero, an unreadable rate."""


class InvalidArguments(InvalidInput):
    """Arguments that do not match the signature of a step or workflow."""


class InvalidExpression(InvalidInput):
    """An expression of a flow that does not parse; `offset` is the character, from 0, of the error."""

    def __init__(self, message: str, *, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class InvalidItem(InvalidInput):
    """An input of a batch was rejected, and nothing was started. `index` says which, `path` where in it."""

    def __init__(self, text: str, *, index: int, path: str = "") -> None:
        super().__init__(text)
        self.index = index
        self.path = path


class InvalidConfig(InvalidInput):
    """A configuration that cannot be used; the message names the file or variable, and the key."""


class NotEncodable(InvalidInput):
    """A value that cannot be stored, or would not decode to an equal value; `path` names the place."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class NotDecodable(InvalidInput):
    """Stored data that does not match the annotation it is read with; `path` names the place."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class PayloadTooLarge(InvalidInput):
    """A payload above `max_payload`; carries the limit and its size, as far as it was measured."""

    def __init__(self, message: str, *, size: int, limit: int) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit
