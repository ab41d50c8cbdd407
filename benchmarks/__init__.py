"""How fast Holdfast is, beside what the disk allows. `python3 dev.py bench` runs all of it.

::

    __main__ ── every round of a workload in a process of its own ──▶ cell ──▶ throughput · latency · recovery · parked
        │                                                              └─▶ raw: the limits, taken before and after
        └─▶ report: table, results.json, results.md            profiling: where a step's time goes

Workloads W1–W8 are those of PERFORMANCE.md. The machine is assumed to be noisy: what counts is a ratio of two
figures taken side by side, and how often things were done.
"""
