"""Which blobs a stored body may refer to.

Careful rather than exact: every JSON string that could be the name of a blob counts. A blob kept too long costs room, a
blob removed too early costs a run.
"""

from __future__ import annotations

import re

_NAMED = re.compile(rb'"([0-9a-f]{64})"')


def names_in(data: bytes) -> set[str]:
    """The names of blobs that occur in JSON text, however deep."""
    return {name.decode() for name in _NAMED.findall(data)}
