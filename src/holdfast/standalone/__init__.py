"""Machines without an app: an imperative shell around a declared machine, with a clock, threads and a log.

::

    machine ── Machine.run, resume ──▶ alone ── one state after the other ──▶ state_kinds   what each kind does
                                         ├─ journey     where a run is, and its log         └─ attempt   a body, retried
                                         ├─ end         what a failure becomes
                                         └─ rollback    undoing what was completed

It builds on `authoring`, which declares and checks machines and knows nothing of this package. What each kind of state
means is decided in `authoring.machine.interpretation`, for machines under an app too.
"""
