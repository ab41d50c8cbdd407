"""Definitions of flows, as bytes."""

from __future__ import annotations


class DefinitionBytes(bytes):
    """The canonical JSON of a flow. Stored among the blobs of a run or a turn, it is kept as a definition, not
    as a payload; its name, like that of any blob, is its SHA-256."""
