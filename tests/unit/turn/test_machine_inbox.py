"""What a machine does with messages that two reads of its inbox bring: each counts once."""

from __future__ import annotations

import msgspec

from holdfast.core import events as e
from holdfast.ports.journal import Committed, Unread
from holdfast.turn import effects as f
from holdfast.turn import inputs as i
from tests.unit.turn.machines import Bench, run_step

SIGNAL = e.SignalReceived(message="m1", name="go")
OTHER = e.SignalReceived(message="m2", name="go")


def signals(bench: Bench) -> list[str]:
    """The messages in the turn that was submitted."""
    return [x.message for x in bench.written if isinstance(x, e.SignalReceived)]


def test_what_two_reads_bring_is_taken_once() -> None:
    """Promise: of a read that began before an earlier one was handed over nothing is taken; the inbox is read again."""
    bench = Bench([run_step("a")], [], [])
    bench.open()
    bench.said()
    bench.take(i.Messages(bench.later(), [SIGNAL], 1, after=0))
    assert signals(bench) == ["m1"]
    bench.said(Committed(1, 1))
    bench.take(i.Messages(bench.later(), [SIGNAL, OTHER], 2, after=0))
    assert bench.machine.seen == 1
    assert bench.only(f.LookInbox)
    assert not bench.all(f.Submit)
    bench.take(i.Messages(bench.later(), [OTHER], 2, after=1))
    assert signals(bench) == ["m2"]


def test_a_refused_turn_takes_messages_once() -> None:
    """Promise: after a refusal the inbox is read with the journal. A read that was under way may bring the same
    messages before."""
    bench = Bench([run_step("a")], [], [])
    bench.open()
    bench.said()
    bench.lands("a")
    bench.said(Unread(1))
    bench.take(i.Messages(bench.later(), [SIGNAL], 1, after=0))
    bench.take(msgspec.structs.replace(bench.opened_again([], [SIGNAL], 1), after=0))
    assert signals(bench) == ["m1"]
    assert bench.machine.seen == 1


def test_a_late_read_after_a_refused_turn_brings_nothing_twice() -> None:
    """Promise: the same in the other order."""
    bench = Bench([run_step("a")], [run_step("b")], [])
    bench.open()
    bench.said()
    bench.lands("a")
    bench.said(Unread(1))
    bench.take(msgspec.structs.replace(bench.opened_again([], [SIGNAL], 1), after=0))
    assert signals(bench) == ["m1"]
    bench.take(i.Messages(bench.later(), [SIGNAL], 1, after=0))
    assert not bench.effects
    bench.said(Committed(1, 1))
    assert not bench.all(f.Submit)
    assert bench.machine.seen == 1
