"""Crash sweeps: does a user's workflow survive a crash at every point?

::

    sweeping     crash_sweep: perform once, then once for every point passed
    performing   one performance: workers come and go, the story is told to its end
    actors       a worker whose store and bodies obey the stage
    joining      steps with tx=True: what they write is there with their outcome, or not at all
    stage        the world of a performance, and what is ordered to happen in it
    points       where a run can be disturbed
    memory       what code keeps outside the journal, put back before each performance
    watching     what workflow code asks that it must not: clocks, chance, files
    reaching     the author's functions that a run may come to, whatever its style
    elsewhere    the journal replayed in other processes, with other hashes
    ending       what is compared
    judging      what is wrong
    report       how it is said
"""

from holdfast.testing.sweep.crash_sweep import crash_sweep
from holdfast.testing.sweep.sweep_report import Finding, SweepFailed, SweepReport

__all__ = ["Finding", "SweepFailed", "SweepReport", "crash_sweep"]
