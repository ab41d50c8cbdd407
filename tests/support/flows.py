"""Flows for tests, from the plain values a file would have."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.authoring.flow.format import definition_from
from holdfast.authoring.flow.workflow import Flow


def flow(
    name: str, steps: dict[str, Any], output: Any = None, *, brings: tuple[Any, ...] = (), **more: Any
) -> Flow[Any, Any]:
    """A flow of these steps."""
    whole = {"holdfast": 1, "name": name, **more, "steps": steps, "output": output}
    return Flow(definition_from(msgspec.json.encode(whole)), where=f"{name}.json", brings=brings)
