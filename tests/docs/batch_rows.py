"""Rows about manifests and batches, in our own words: those of Stepflow's and Stem's documents."""

from __future__ import annotations

ROWS: dict[str, str] = {
    "stem.S21": "the manifest has a typed entry for each workflow, and tells declared parts from observed checkpoints",
    "stem.S22": "an entry has a stable id, its kind, version and parts; the declared is never mixed with the seen",
}

DECISIONS: dict[str, str] = {}
