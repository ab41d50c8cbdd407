"""Rows about flows as they run, in our own words: those of Stepflow's and Stem's documents."""

from __future__ import annotations

ROWS: dict[str, str] = {
    "stem.S20": "two models side by side: declared steps are the plan, or the code is",
    "stem.S40": "a sleep records when it ends; the run is parked until then and resumes by itself",
    "stepflow.B3": "a flow is stored by the hash of its content, as a blob of its own kind",
    "stepflow.R21": "a recovered run executes the definition it began with, unchecked, on what it had completed",
    "stepflow.X2": "what only waits takes no slot: a parent waiting for its sub-flow never blocks it",
    "stepflow.X3": "a flow of no steps, or over no items, completes at once",
    "stepflow.X4": "steps that nothing needs never run, and need is decided as conditions are",
    "stepflow.X6": "a failed step fails the run or has a value instead; a skip passes to what needs the step",
    "stepflow.X10": "nothing running, nothing ready and no end is an error, never a hang",
}
