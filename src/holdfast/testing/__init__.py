"""For tests of workflows: the real engine on virtual time, and fakes instead of steps.

::

    def test_order(sim: Sim) -> None:          # the fixture comes with Holdfast
        sim.use(Fake(charge, lambda order: "pay-1"))
        run = sim.start(fulfil(Order("42", 999)))
        run.signal(approved, True)
        sim.advance("1h")                      # no test sleeps
        assert run.result() == "shipped"

    sim.py    the world of one test: memory store, worker, clock
    run.py    a run in it
    fake.py   what stands for a step, a resource, a workflow
    loop.py   an event loop that jumps instead of waiting
    sweep/    a crash at every point, for users' workflows
    replaying.py   recorded journals against today's code
    conformance/   for authors of stores: what every store owes
"""

from holdfast.testing.fake import Fake
from holdfast.testing.journal_replay import Problem, ReplayFailed, ReplayReport, replay
from holdfast.testing.sim import Sim
from holdfast.testing.sim_run import SimRun
from holdfast.testing.sweep import Finding, SweepFailed, SweepReport, crash_sweep

__all__ = [
    "Fake",
    "Finding",
    "Problem",
    "ReplayFailed",
    "ReplayReport",
    "Sim",
    "SimRun",
    "SweepFailed",
    "SweepReport",
    "crash_sweep",
    "replay",
]
