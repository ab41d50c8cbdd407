"""Machines without an app: an imperative shell around a declared machine, with a clock, threads and a log.

::

    machine ── Machine.run, resume ──▶ run ── one state after the other ──▶ states    what each kind of state does
                                        ├─ journey     where a run is, and its log      └─ attempt    one body, retried
                                        ├─ end         what a failure comes to
                                        └─ rollback    undoing what was completed

It builds on `authoring`, which declares and checks machines and knows nothing of this package.
"""
