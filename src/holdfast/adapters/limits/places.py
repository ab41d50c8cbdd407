"""Taking, freeing and waiting for places: the contract of `ports.limits`, over the desk of a store."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.adapters.limits.desk import Desk, Waiter
from holdfast.core.limit import Demand, Setting, has_spare, tat_after, token_at, wake_times
from holdfast.core.turn import micros
from holdfast.ports.limits import HORIZON, LAPSE, MOST_WOKEN, PlaceAnswer, PlaceAsk, PlaceMove

Rules = dict[str, Setting]


def move_places(desk: Desk, moves: Sequence[PlaceMove]) -> list[PlaceAnswer]:
    """See `ports.limits`. Moves that come together share the locks, and the look at who can be woken."""
    lines = {demand.line for move in moves for ask in move.asks for demand in ask.demands}
    lines |= {(hold.name, hold.key) for move in moves for hold in move.holds}
    lines |= desk.lines_of({(move.no, step) for move in moves for step in _steps(move)})
    desk.lock(sorted(lines))
    desk.meet({move.no for move in moves})
    answers = [_moved(desk, move) for move in moves]
    for name, key in sorted(lines):
        promote(desk, name, key)
    for move in moves:
        if move.is_parked and (woken := desk.woken(move.no)) is not None:
            desk.due(move.no, woken)
    return answers


def _steps(move: PlaceMove) -> tuple[str, ...]:
    return (*move.drops, *(ask.step for ask in move.asks))


def _moved(desk: Desk, move: PlaceMove) -> PlaceAnswer:
    for step in move.drops if move.drops and desk.is_current(move.no, move.epoch) else ():
        desk.drop(move.no, step)
    for hold in move.holds:
        tat, quiet_until = desk.line(hold.name, hold.key)
        desk.put_line(hold.name, hold.key, tat, max(quiet_until, micros(hold.until)))
    is_ours = desk.is_held(move.no, move.epoch) if move.asks else True
    rules = _rules(desk, move.asks)
    granted = [ask.step for ask in move.asks if is_ours and _takes(desk, move, ask, rules)]
    return PlaceAnswer(tuple(granted), is_ours)


def tend(desk: Desk, most: int) -> bool:
    """See `ports.limits`."""
    lines = sorted(desk.waited_lines(most))
    desk.lock(lines)
    for name, key in lines:
        desk.forget_ended(name, key)
        desk.wake_again(name, key, desk.now - LAPSE)
        promote(desk, name, key)
    return bool(lines)


def promote(desk: Desk, name: str, key: str) -> None:
    """Wakes the waiters of a line that will find a place."""
    known = desk.setting(name)
    if known is None or known[1]:
        return
    rule = known[0]
    tat, quiet_until = desk.line(name, key)
    held = 0 if rule.at_once is None else len(desk.slots(name, key))
    awake = desk.awake(name, key, desk.now - LAPSE)
    begin = max(desk.now, quiet_until)
    times = wake_times(rule, tat, begin, awake=awake, held=held, horizon=HORIZON, most=MOST_WOKEN)
    if times:
        for waiter, at in zip(desk.sleepers(name, key, len(times)), times, strict=False):
            desk.wake(waiter, at)


def _rules(desk: Desk, asks: Collection[PlaceAsk]) -> Rules:
    """The rules of every limit that is asked for. A limit that the store does not know gets those of its definition."""
    found: Rules = {}
    for demand in (demand for ask in asks for demand in ask.demands):
        if demand.name not in found:
            known = desk.setting(demand.name)
            if known is None:
                desk.declare(demand.name, demand.rule)
            found[demand.name] = known or (demand.rule, False)
    return found


def _takes(desk: Desk, move: PlaceMove, ask: PlaceAsk, rules: Rules) -> bool:
    """Takes all places of the step, or puts it into a line."""
    counted = {demand.line for demand in ask.demands if rules[demand.name][0].at_once is not None}
    if counted and counted <= desk.places(move.no, ask.step, move.epoch):
        return True  # the answer to this very move was lost
    waiter = desk.waiter(move.no, ask.step)
    past = _past(ask, waiter)
    for demand in ask.demands:
        is_next = demand.line in past
        if not _may_begin(desk, move, ask.step, demand, rules[demand.name], waiter, is_next=is_next):
            since = desk.now if waiter is None else waiter.since
            if waiter is None:
                desk.hurry(*demand.line)  # it was claimed before them
            desk.put_waiter(Waiter(demand.name, demand.key, since, move.no, ask.step))
            return False
    for demand in ask.demands:
        rule = rules[demand.name][0]
        tat, quiet_until = desk.line(*demand.line)
        if rule.interval is not None:
            desk.put_line(*demand.line, tat_after(rule, tat, desk.now), quiet_until)
        if rule.at_once is not None:
            slot = _free_slot(desk.slots(*demand.line))
            desk.add_place(*demand.line, slot, move.no, ask.step, move.epoch)
    if waiter is not None:
        desk.drop_waiter(move.no, ask.step)
    return True


def _past(ask: PlaceAsk, waiter: Waiter | None) -> Collection[tuple[str, str]]:
    """The lines in which a step that was woken had its turn: its own, and those before it. It does not wait there again
    behind others, or a place of its own line would stay free meanwhile."""
    lines = [demand.line for demand in ask.demands]
    if waiter is None or waiter.woken_at is None or (waiter.name, waiter.key) not in lines:
        return ()
    return lines[: lines.index((waiter.name, waiter.key)) + 1]


def _may_begin(
    desk: Desk,
    move: PlaceMove,
    step: str,
    demand: Demand,
    setting: Setting,
    waiter: Waiter | None,
    *,
    is_next: bool,
) -> bool:
    rule, is_paused = setting
    tat, quiet_until = desk.line(*demand.line)
    if is_paused or quiet_until > desk.now or token_at(rule, tat) > desk.now:
        return False
    if rule.at_once is not None and len(desk.slots(*demand.line)) >= rule.at_once:
        return False
    if is_next or (rule.at_once is None and has_spare(rule, tat, desk.now)):
        return True
    since, seq = (desk.now, None) if waiter is None else (waiter.since, waiter.seq)
    return not desk.has_ahead(Waiter(*demand.line, since, move.no, step, seq=seq), desk.now - LAPSE)


def _free_slot(taken: set[int]) -> int:
    slot = 0
    while slot in taken:
        slot += 1
    return slot
