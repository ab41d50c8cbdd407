"""Rows about stores, leases and recovery, in our own words: those of Stepflow's and Stem's documents.

Their orchestrator is our worker, their metadata store our runs, their lease manager our leases or grants.
"""

from __future__ import annotations

ROWS: dict[str, str] = {
    "stepflow.M1": "a run is stored with its status, its facts and the worker that has it",
    "stepflow.M4": "an unknown run is None, not an error",
    "stepflow.M5": "runs are listed by status and worker through an index: the cost is the worker's, not the store's",
    "stepflow.M7": "a status moves with a turn only, and a terminal one never",
    "stepflow.M9": "a run without a holder keeps its last worker's name, and is claimable",
    "stepflow.M10": "the runs of silent workers are freed, so many a pass; ended and unheld ones are untouched",
    "stepflow.M11": "who is thought live may be wrong in both directions: both converge",
    "stepflow.M19": "a child's root is the top of its tree, its parent the run that started it",
    "stepflow.J1": "each row gets a seq greater than all earlier ones of its tree",
    "stepflow.J2": "a tree shares one journal and one order; trees are independent",
    "stepflow.J3": "a row says which run, which root, when, and what",
    "stepflow.J4": "reading is inclusive, ascending and limited; an unknown root has no rows",
    "stepflow.J5": "the newest seq of a tree, or None",
    "stepflow.J8": "trees with something left to do are listed with their newest seq and their rows",
    "stepflow.J9": "the journal holds changes of state and nothing else",
    "stepflow.J11": "every event survives store and load; what cannot be read is named, never skipped",
    "stepflow.J15": "a bounded read ends; following gives the past, then what is new",
    "stepflow.L2": "a free run is given, with an expiry ahead",
    "stepflow.L3": "contention is a value that names the owner and its expiry; nothing changes",
    "stepflow.L4": "the owner acquires again: idempotent, renewed",
    "stepflow.L5": "what has expired is anybody's",
    "stepflow.L6": "whoever is not the owner releases nothing; what nobody has is released without error",
    "stepflow.L7": "everything of one worker is given back at once, and nobody else's",
    "stepflow.L8": "who has a run, since when and until when; None when absent or expired",
    "stepflow.L9": "one heartbeat keeps all runs of a worker; silence ends them",
    "stepflow.L10": "workers are listed live or stale, with what each holds and when it was heard of",
    "stepflow.L11": "orphans are told of as they come, or looked for",
    "stepflow.L12": "acquiring is atomic; the expiry that others see follows the heartbeats",
    "stepflow.R1": "at its start a worker takes its own runs back",
    "stepflow.R2": "periodically the runs of dead workers are claimed",
    "stepflow.R3": "the lease comes before the loading",
    "stepflow.R4": "self-healing: who gets a run writes itself into its row; who is told of an owner writes that one",
    "stepflow.R5": "the lease is the truth; the worker in a run's row is an index and may be stale",
    "stepflow.R12": "what other runs of a tree do never alters a run's state",
    "stepflow.R18": "heartbeat every third of the lease; what it could not say is said again",
    "stepflow.R20": "a worker of another id finds nothing of its own at its start",
    "stepflow.C1": "the settings of recovery, each with its effect",
    "stepflow.C5": "a stopping worker gives everything back; others go on at once",
    "stem.S60": "runs are leased for a finite time, renewed while active, taken over after it",
}

DECISIONS: dict[str, str] = {}
