"""Where Holdfast does something other than its sources say: what they say, and what Holdfast does instead and why.

The sources are the documents of the systems it started from. Rows are named as in `specification`.
"""

from __future__ import annotations

from typing import NamedTuple


class Deviation(NamedTuple):
    """One statement that is not followed."""

    said: str
    """What the source says."""
    instead: str
    """What Holdfast does, and why."""


OPENWORKFLOW: dict[str, Deviation] = {
    "openworkflow.O10": Deviation(
        "a failed run loses its start time",
        "every ended run keeps its start and its end, so that its duration is known",
    ),
    "openworkflow.O14": Deviation(
        "the attempts of a run count its claims",
        "claims are counted apart, and only quarantine uses them: a crash or a sleep costs no retry",
    ),
    "openworkflow.O21": Deviation(
        "pending runs are claimed before running ones",
        "claims are fair by workflow, then by priority and due time: new runs do not starve woken ones (ADR 0048)",
    ),
    "openworkflow.O22": Deviation(
        "a run past its deadline is failed even under the lease of a live worker",
        "its holder fails it: a held run has one writer",
    ),
    "openworkflow.O25": Deviation(
        "a failed heartbeat is only logged",
        "it is repeated until the lease ends, and a worker that finds its claim gone drops the run at once: nothing "
        "that it writes would be accepted",
    ),
    "openworkflow.O31": Deviation(
        "an idle worker polls ever less often, every second at last",
        "it sleeps until the next due time or a hint from the store, at most `poll` (1 s): work starts without delay",
    ),
    "openworkflow.O33": Deviation(
        "stopping waits without limit, and a second signal is ignored",
        "stopping has a grace, and a second signal exits now: a body that hangs does not keep a deployment waiting",
    ),
    "openworkflow.O46": Deviation(
        "a wake time that cannot be read counts as elapsed",
        "the run is paused as undecodable: damage must not shorten a sleep",
    ),
    "openworkflow.O71": Deviation(
        "0 attempts mean no limit",
        "0 is refused, since it could mean two things: `None` is without limit, 1 is one try",
    ),
    "openworkflow.O72": Deviation(
        "an interval that cannot be read is 0 ms",
        "a wrong policy is refused when it is made: a tight loop of retries would be found too late",
    ),
    "openworkflow.O74": Deviation(
        "wrong values of a policy fall back to the defaults",
        "they are refused when the policy is made, so that the policy in force is the one that was written",
    ),
    "openworkflow.O77": Deviation(
        "the budget of a workflow counts claims, so sleeps and crashes use it up",
        "it counts passes that failed, and nothing else",
    ),
    "openworkflow.O78": Deviation(
        "the workflow sees the first failure of a step, and no retry follows",
        "it sees the last failure, after the retries, and the journal keeps it: `except` means that the step failed",
    ),
    "openworkflow.O79": Deviation(
        "a step whose failure was caught runs again on replay",
        "its failure is recorded like a result: a replay takes the same branch without running it",
    ),
    "openworkflow.O83": Deviation(
        "the deadline is checked at claims and failures only",
        "it is checked at every turn, so that no step begins after it",
    ),
    "openworkflow.O93": Deviation(
        "a start with a known key returns the existing run whatever its input",
        'different input is a `Conflict`, since it is a different request; `if_exists="return"` returns the run '
        "all the same (ADR 0062)",
    ),
    "openworkflow.O94": Deviation(
        "`result` checks its timeout before the status",
        "a finished run gives its result whatever the timeout",
    ),
    "openworkflow.O96": Deviation(
        "a worker that replays a renamed step fails the run",
        "the run is paused as diverged with both sides shown, and nothing is executed: a deployment can be taken back",
    ),
    "openworkflow.O99": Deviation(
        "a bare number is milliseconds, negative durations parse, units cannot be combined",
        "a bare number is seconds as everywhere in Python, negative durations are refused, and `1h 30m` is a duration",
    ),
    "openworkflow.O102": Deviation(
        "every row and query belongs to a namespace",
        "there are no namespaces: a store, or a schema of one PostgreSQL database, is what they would separate",
    ),
    "openworkflow.O111": Deviation(
        "a signal goes to all runs that wait for its name now, and is lost if there is none",
        "that is a `Topic`; a `Signal` goes to one run, which keeps it until it waits for it",
    ),
    "openworkflow.O114": Deviation(
        "a repeated signal may be delivered if its first send found no receiver",
        "the id of a message makes it one message for its run, whenever it is sent",
    ),
    "openworkflow.O116": Deviation(
        "a message of the wrong type fails the step that receives it",
        "it is refused where it is sent, so that one wrong message cannot fail a run (ADR 0060)",
    ),
    "openworkflow.O117": Deviation(
        "two steps that wait for one signal are an error",
        "each message goes to one wait, the earliest first: branches may share a signal",
    ),
    "openworkflow.O128": Deviation(
        "metrics need no authentication, and an ended run cannot be retried",
        "every route but the health paths needs a token, and `run.retry()` starts a new run from what had completed",
    ),
}

VECTORBEA: dict[str, Deviation] = {
    "vectorbea.V8": Deviation(
        "a run executes a fixed snapshot of its definition",
        "flows do; scripts are code, so they are pinned to their version, the hash of the code is recorded and shown, "
        "and replay decides whether a change matters",
    ),
    "vectorbea.V16": Deviation(
        "when a write for each step is the bottleneck, writes are batched later or go to a faster tier first",
        "turns that are ready together share one transaction and one fsync: nothing is acknowledged before it is "
        "durable (ADR 0005)",
    ),
    "vectorbea.V29": Deviation(
        "costs are estimated, and runs and workspaces have budgets",
        "Holdfast knows no prices: a run has a step limit, a deadline and `kill`",
    ),
    "vectorbea.V30": Deviation(
        "failures that are not transient may be corrected automatically, with the error fed back",
        "`Retry(on=…, never=…, when=…)` and `Permanent` tell failures apart; a correction is code of the workflow",
    ),
}

STEPFLOW: dict[str, Deviation] = {
    "stepflow.M3": Deviation(
        "a new run is running",
        "it is pending until a worker claims it, so that a start needs no worker",
    ),
    "stepflow.M7": Deviation(
        "any status may follow any other",
        "a status moves with a turn of the journal only, and a terminal one never moves",
    ),
    "stepflow.M8": Deviation(
        "a recovery that failed is a status, and so are the states of a step",
        "a flow has the statuses of every run; what its steps do is read from the journal (ADR 0024)",
    ),
    "stepflow.M14": Deviation(
        "the result of an item is recorded by a call",
        "it is the end of the item's own run, which only its worker writes (ADR 0025)",
    ),
    "stepflow.M16": Deviation(
        "the status of each step is a row of its own",
        "it is read from the journal, so that there is nothing to keep in step with it",
    ),
    "stepflow.M18": Deviation(
        "a read may ask for data at least as new as a sequence number",
        "rows and journal are written in one transaction, so every read is as new as the journal",
    ),
    "stepflow.M22": Deviation(
        "components are registered in the store",
        "a worker registers what it serves when it starts; `holdfast manifest` shows what an app can run",
    ),
    "stepflow.B2": Deviation(
        "an unknown blob is None",
        "it is `BlobNotFound`: its name comes from a journal, so the blob is lost. `blob_kind` of an unknown name is "
        "None",
    ),
    "stepflow.B4": Deviation(
        "step inputs and outputs are stored as blobs for inspection",
        "small ones are in the journal; definitions, large payloads and a step's own data are blobs, each of its kind",
    ),
    "stepflow.J16": Deviation(
        "a journal that numbers events and stores none may be configured",
        "there is no store without a journal: nothing could be recovered from it",
    ),
    "stepflow.L6": Deviation(
        "a release by another worker raises an error",
        "it is a value that names the owner: contention is expected",
    ),
    "stepflow.L7": Deviation(
        "a lease manager that cannot release everything at once does nothing",
        "it releases one grant after the other, so that others need not wait for expiry",
    ),
    "stepflow.L14": Deviation(
        "there may be no lease manager at all",
        "the store grants leases by default; `[leases]` names etcd or NATS, `App(leases=…)` any other (ADR 0068)",
    ),
    "stepflow.L16": Deviation(
        "the lease is taken when a run is submitted",
        "a run is pending until it is claimed; the lease ends when the run parks or ends",
    ),
    "stepflow.R6": Deviation(
        "only roots are claimed, and a tree runs in one process",
        "each run of a tree has its own lease, so that a tree runs on many workers",
    ),
    "stepflow.R9": Deviation(
        "a run that cannot be recovered is failed",
        "a missing definition puts it off, an undecodable journal pauses it with the reason: a deployment or a repair "
        "brings it back",
    ),
    "stepflow.R18": Deviation(
        "a failed heartbeat is only a warning",
        "it is repeated sooner than the next one is due, as in openworkflow.O25",
    ),
    "stepflow.C2": Deviation(
        "null stands for the default of every key",
        "a key that is left out has its default: the configuration is TOML, which has no null",
    ),
    "stepflow.C4": Deviation(
        "the lease manager is chosen by configuration: none or etcd",
        "the store, etcd or NATS by configuration, or any other with the app, as in stepflow.L14",
    ),
    "stepflow.C7": Deviation(
        "definitions should never change, and components should keep no state in the process",
        "versions are pinned and divergence is found (docs/guides/versions.md); steps own their idempotency",
    ),
    "stepflow.X5": Deviation(
        "errors of the transport and of the component have budgets of their own",
        "one budget for each step, as `Retry` says; attempts that were cut off cost none (openworkflow.O77)",
    ),
    "stepflow.X7": Deviation(
        "each task has a heartbeat, and a queue timeout of its own",
        "bodies run in the worker, whose one heartbeat keeps all of them; a step's timeout is its own",
    ),
    "stepflow.X8": Deviation(
        "cancel sets a status while the executor continues, and delete deletes nothing",
        "cancel reaches the worker (openworkflow.O84); delete refuses a live tree and removes an ended one (ADR 0074)",
    ),
    "stepflow.X11": Deviation(
        "an infrastructure error while a step runs fails the step",
        "only an error of its body does; a turn that the store does not accept leaves the run to its next holder "
        "(stepflow.J13)",
    ),
}

STEM: dict[str, Deviation] = {
    "stem.S1": Deviation(
        "workflows run on a task queue with a broker",
        "the table of runs is the queue: there is no broker, and a background task is a run of one step",
    ),
    "stem.S2": Deviation(
        "an app bundles runtime, store, event bus and task app",
        "`App` puts together definitions, a store with its inbox and topics, a client and workers",
    ),
    "stem.S8": Deviation(
        "a new run is running, and a waiting one is suspended",
        "a new run is pending; a waiting one is running, and what it waits for is shown beside the status",
    ),
    "stem.S12": Deviation(
        "a run whose definition is unknown fails",
        "it is put off until a worker brings the definition (openworkflow.O34)",
    ),
    "stem.S13": Deviation(
        "a start accepts a time to live and ignores it",
        "there is no such option: a deadline is kept",
    ),
    "stem.S14": Deviation(
        "waiting for the end returns a flag when the time is over",
        "`wait` returns None, `result` raises `ResultTimeout`: each caller chooses",
    ),
    "stem.S28": Deviation(
        "workflows are known by name, and the last registration wins",
        "they are known by name and version, and a second definition of both is refused",
    ),
    "stem.S29": Deviation(
        "an awaited child runs inside the worker that waits",
        "it is a run like any other, claimed by any worker: a parent that waits holds no slot",
    ),
    "stem.S31": Deviation(
        "annotated classes and generated code define workflows",
        "decorated functions and flow files do, and give the same manifest; no code is generated",
    ),
    "stem.S41": Deviation(
        "a resumed step asks for the data that it was resumed with",
        "`wait` returns the message: there is nothing to ask twice",
    ),
    "stem.S46": Deviation(
        "an event that no run waits for is lost in silence",
        "`publish` returns the runs that it woke; a signal is kept until its run waits for it",
    ),
    "stem.S47": Deviation(
        "a wait whose time is over looks like a first visit",
        "it raises `TimeoutError`, or returns its default",
    ),
    "stem.S49": Deviation(
        "policies cancel a run that lasts, or is suspended, too long",
        "a run has a deadline, which fails it; each wait has a timeout of its own",
    ),
    "stem.S51": Deviation(
        "a run can be rewound to an earlier step",
        "a journal only grows: `run.retry()` starts a new run that takes over what had completed",
    ),
    "stem.S64": Deviation(
        "a lease is renewed before and after each step",
        "the heartbeat thread of the worker renews it: a step longer than the lease keeps it",
    ),
    "stem.S66": Deviation(
        "a run whose step has spent its retries is never marked failed",
        "spent retries fail the run, with the last error",
    ),
    "stem.S67": Deviation(
        "a checkpoint that holds null is executed again",
        "None is a result like any other",
    ),
}

CANO: dict[str, Deviation] = {
    "cano.K5": Deviation(
        "the version of a row is a number, 0 if there is none",
        "it is text as for all workflows, empty if there is none; a row also says which visit it belongs to (ADR 0019)",
    ),
    "cano.K6": Deviation(
        "there are three kinds of row",
        "there are two more, the beginning of a rollback and each finished undo: a rollback survives a crash. Unknown "
        "kinds are refused",
    ),
    "cano.K7": Deviation(
        "an embedded store of its own, or PostgreSQL",
        "`app.logs()` puts a standalone machine on any Holdfast store; the embedded one is SQLite",
    ),
    "cano.F12": Deviation(
        "of two racing runs the loser fails, and undoes what it did",
        "it undoes nothing: the winner continues with what both have done",
    ),
    "cano.Z7": Deviation(
        "what the resumed state had completed is left out of the rollback",
        "it is replaced when the state completes again; if the state fails this time, what the log holds is still "
        "undone (ADR 0019)",
    ),
    "cano.S3": Deviation(
        "each undo is tried once",
        "each has its own policy, else the machine's, else ten attempts: an undo matters more than a step",
    ),
    "cano.S7": Deviation(
        "a state that fails after it has acted leaves no trace",
        "it is not undone either, but the error and `holdfast show` name it as one that may have acted",
    ),
    "cano.S8": Deviation(
        "an undo is found by the name of the task, so that two states may share one",
        "an undo belongs to its state",
    ),
    "cano.T1": Deviation(
        "three retries by default, and an error of its own for spent retries",
        "one policy for steps and states: ten attempts by default; `StateFailed` says at which attempt it failed",
    ),
    "cano.T8": Deviation(
        "a resumed timer sleeps the full time again",
        "it waits only the rest",
    ),
    "cano.T9": Deviation(
        "a resumed batch runs every item again, and an error of load or finish repeats the whole cycle",
        "finished items keep their result; load and finish are tried each under the policy of the state",
    ),
    "cano.T11": Deviation(
        "errors of a stream concern single items",
        "they concern a window: a window is what takes effect",
    ),
    "cano.T12": Deviation(
        "partial(n) and quorum(n) follow rules of their own",
        "both need n successes",
    ),
    "cano.T16": Deviation(
        "a scheduler backs off after failures and stops a flow that fails too often",
        "a schedule starts a run for each slot, whatever became of the last one; `overlap` and `pause` hold it "
        "(docs/guides/schedules.md, ADR 0064)",
    ),
    "cano.T17": Deviation(
        "scheduled runs share one log, so that one kept log blocks the next run",
        "each slot is a run with an id of its own (ADR 0064)",
    ),
    "cano.T18": Deviation(
        "errors have a category, and a wrapper with the state",
        "errors are a tree of exceptions (docs/reference): `StateFailed` wraps, and its `__cause__` is the error",
    ),
    "cano.T20": Deviation(
        "a machine is built with method calls, and a second handler replaces the first",
        "decorators declare it, and a second handler of a state is an error",
    ),
    "cano.T21": Deviation(
        "rate limiters count in windows or in tiers, in one process",
        "a `Limit` counts over all workers of a store, by one rule: a rate with a burst, or a number at once "
        "(docs/guides/limits.md)",
    ),
}

DEVIATIONS: dict[str, Deviation] = {**OPENWORKFLOW, **VECTORBEA, **STEPFLOW, **STEM, **CANO}
