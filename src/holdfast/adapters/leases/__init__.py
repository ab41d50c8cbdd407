"""What lease managers outside the store have in common: how to reach them, what they keep, and the stream of orphans.

Knows no manager. Each speaks to its servers on threads of its own; nothing here runs on the worker's event loop except
the reading end of the stream.
"""

from holdfast.adapters.leases.endpoints import Endpoints, read_secret
from holdfast.adapters.leases.known_workers import standing_of
from holdfast.adapters.leases.orphans import Orphans

__all__ = ["Endpoints", "Orphans", "read_secret", "standing_of"]
