"""Definitions of flows, as bytes."""

from __future__ import annotations


class DefinitionBytes(bytes):
    """The canonical JSON of a flow. Among the blobs of a run or a turn it is stored as a definition, not as a payload;
    like that of any blob, its name is its SHA-256."""
