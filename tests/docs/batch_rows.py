"""Rows about manifests and batches, in our own words: those of Stepflow's and Stem's documents."""

from __future__ import annotations

ROWS: dict[str, str] = {
    "stem.S21": "the manifest has a typed entry for each workflow, and tells declared parts from observed checkpoints",
    "stem.S22": "an entry has a stable id, its kind, version and parts; the declared is never mixed with the seen",
    "stepflow.M2": "the same id with the same inputs is the same batch; with different ones it is a conflict",
    "stepflow.M3": "a new batch is pending, its total known, no item begun; an empty one completes",
    "stepflow.M12": "each item's outcome is recorded by itself, in any order, before the batch ends",
    "stepflow.M13": "when the last item has ended the batch has: completed, or failed if any item failed",
    "stepflow.M15": "items are read by index, or in the order in which they ended",
    "stepflow.M21": "how many items are completed, failed, cancelled and running is kept with every turn",
    "stepflow.X1": "one run, N items; the failure of one touches no other; an empty batch completes",
    "stepflow.X9": "depth-first: an item keeps its place until it has ended; breadth-first: grouped by step (ADR 0030)",
}
