"""The root of the tree."""

from __future__ import annotations


class HoldfastError(Exception):
    """The root of everything Holdfast raises."""
