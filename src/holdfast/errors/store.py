"""What the store could not do."""

from __future__ import annotations

from holdfast.errors.holdfast_error import HoldfastError


class StoreError(HoldfastError):
    """The store could not carry out the request."""


class StoreUnavailable(StoreError):
    """The store is busy, locked or out of reach; the same call may succeed later."""


class StoreContended(StoreUnavailable):
    """Another transaction holds a lock that this write needs. Nothing was written; writes of other runs may succeed."""


class StoreRefused(StoreError):
    """The store cannot be used as it is: no permission, not a database, newer schema, network filesystem, …"""


class DiskFull(StoreError):
    """No space left for the store; nothing of the failed write was kept."""


class CorruptJournal(StoreError):
    """A checksum or a stored payload does not match; the run is paused, never silently repaired."""
