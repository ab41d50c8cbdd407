"""The claim loop: takes due runs in batches while slots are free, and sleeps until a hint or the next due time.

A heartbeat that finds nothing due in the worker's queues counts as a pass, and delays the next one. The loop begins
with the runs of the worker's earlier instance. The lease always comes first: a run is loaded only once it is ours.

Which runs a claim takes, and in which order, is the store's to say (`Leases.claim`): it is fair by share, so ten
thousand children that are started in one turn do not keep everything else waiting. `worker.admission` says how many.
"""

from __future__ import annotations

import asyncio
import random
from datetime import datetime

from holdfast.errors import StoreError
from holdfast.ports.facts import Trouble
from holdfast.ports.leases import Claims
from holdfast.worker.failures import Failures
from holdfast.worker.seat import Seat

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


async def claim_until_stopped(worker: Seat) -> None:
    """The only claimer of a worker. Passes follow each other without waiting while slots are free and work is left."""
    pause, failures = FIRST_PAUSE, Failures()
    while not worker.is_stopping:
        worker.work_hinted.clear()
        looked_at = worker.store.clock.now()
        wait = worker.options.poll.total_seconds()
        limit = worker.admission.limit(worker.engine.busy)
        if limit > 0:
            is_recovery = bool(worker.own_runs)
            try:
                claims = await _pass(worker, limit)
            except StoreError as error:
                what = f"claiming failed, retrying in {pause:.1f} s"
                worker.telemetry.tell(Trouble(what, error, failures=failures.again(error)))
                worker.engine.doubt()
                await asyncio.sleep(pause * random.uniform(0.5, 1))
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            except Exception as error:  # noqa: BLE001 the loop must not end
                what = f"claiming failed unexpectedly, retrying in {LONGEST_PAUSE:.1f} s"
                told = Trouble(what, error, is_known=False, is_bug=True, failures=failures.again(error))
                worker.telemetry.tell(told)
                worker.engine.doubt()
                await asyncio.sleep(LONGEST_PAUSE)
                continue
            pause = FIRST_PAUSE
            failures.end()
            worker.admission.passed(len(claims.runs), limit, is_held_back=claims.is_held_back)
            if worker.admission.has_line or is_recovery:  # what else is due was not asked for
                await asyncio.sleep(0)
                continue
            if claims.next_due is not None:
                due = (claims.next_due - worker.store.clock.now()).total_seconds()
                wait = min(wait, max(due, 0.001))
        await _hint_or(worker.work_hinted, wait)
        await _hint_or(worker.work_hinted, quiet_seconds(worker, looked_at))


def quiet_seconds(worker: Seat, looked_at: datetime) -> float:
    """How long there is nothing to claim, by a heartbeat after the last pass. The next pass then comes a poll after it
    plus a twentieth, so that the next heartbeat comes first and can spare it."""
    beat, poll = worker.last_beat, worker.options.poll
    if beat is None or beat.quiet_until is None or beat.now <= looked_at:
        return 0.0
    left = min(beat.now + poll * 1.05, beat.quiet_until) - worker.store.clock.now()
    return min(left, poll).total_seconds()  # the store's clock may have been set back


async def _pass(worker: Seat, limit: int) -> Claims:
    """One claim: of the worker's own runs as long as there are any, then of everything that is due."""
    try:
        return await _claim_and_take_on(worker, limit)
    finally:
        if worker.granted is not None:
            worker.granted.passed()


async def _claim_and_take_on(worker: Seat, limit: int) -> Claims:
    own, worker.own_runs = worker.own_runs[:limit], worker.own_runs[limit:]
    try:
        claims = await worker.claim(limit, own)
    except BaseException:
        worker.own_runs = [*own, *worker.own_runs]
        raise
    for run, why in claims.put_off:
        if not await worker.learn_flow_of(run):
            worker.met("missing definition", run, why)
    if claims.runs:
        await worker.engine.take_on(claims.runs)
    if own:
        taken = {run.id for run in claims.runs}
        await worker.recovered(own, taken)
    return claims


async def _hint_or(hint: asyncio.Event, seconds: float) -> None:
    if hint.is_set() or seconds <= 0:
        return
    try:
        async with asyncio.timeout(seconds):
            await hint.wait()
    except TimeoutError:
        return
