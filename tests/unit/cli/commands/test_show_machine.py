"""`show` and `compensate` for the runs of machines."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import Cli

PARCEL = """
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast import App, Machine, Retry, Signal

go = Signal[bool]("go")


@dataclass
class Reserve:
    order: str


@dataclass
class Asking:
    shelf: str


@dataclass
class Pay:
    cents: int


@dataclass
class Delivered:
    label: str


parcel = Machine[Reserve, Delivered]("parcel", retry=Retry.none)


@parcel.state
async def reserve(s: Reserve) -> Asking:
    return Asking("B7")


@reserve.undo
async def release(left: Asking, s: Reserve) -> None:
    if not Path("mended").exists():
        raise ValueError("the shelf is stuck")


@parcel.script
async def ask(s: Asking) -> Pay:
    return Pay(5 if await go.wait() else 0)


@parcel.state
async def pay(s: Pay) -> Delivered:
    if not s.cents:
        raise ValueError("no money")
    return Delivered("done")


@pay.undo
async def refund(left: Delivered, s: Pay) -> None: ...


app = App(workflows=[parcel])
"""


@pytest.fixture
def parcel(cli: Cli) -> Cli:
    (cli.folder / "shop.py").write_text(PARCEL)
    return cli


def test_show_tells_the_path_the_state_and_what_would_be_undone(parcel: Cli) -> None:
    """Contract: from the journal alone, for people and for programs."""
    parcel.start("parcel", 'state={"order": "42"}', "--id", "r")
    parcel.until_waiting("r", "signal go")
    shown = parcel.ok("show", "r")
    assert "Reserve → Asking" in shown
    assert "would be undone" in shown
    machine = parcel("show", "r", "--json").json["machine"]
    assert machine == {
        "path": [{"key": "Reserve", "state": "Reserve"}, {"key": "Asking", "state": "Asking"}],
        "state": "Asking",
        "undoable": ["Reserve"],
        "suspects": [],
    }


def test_a_dirty_rollback_is_shown_and_finished_by_hand(parcel: Cli) -> None:
    """Contract: show names what is left and the command; compensate undoes it once, and again says the same."""
    parcel.start("parcel", 'state={"order": "42"}', "--id", "r")
    parcel.until_waiting("r", "signal go")
    parcel.ok("signal", "r", "go", "false", "--app", "shop:app")
    parcel.finish("r")
    shown = parcel.ok("show", "r")
    for words in ("Reserve → Asking → Pay", "not undone", "may have acted, not undone  Pay", "holdfast compensate r"):
        assert words in shown, shown
    refused = parcel("compensate", "r", "--app", "shop:app")
    assert refused.code == 1
    assert "the shelf is stuck" in refused.err
    (parcel.folder / "mended").touch()
    assert parcel.ok("compensate", "r", "--app", "shop:app") == "undone: Reserve (run r~undo2)\n"
    assert parcel("compensate", "r", "--app", "shop:app", "--json").json == {
        "run": "r",
        "by": "r~undo2",
        "undone": ["Reserve"],
    }


def test_compensate_refuses_what_has_nothing_to_undo(parcel: Cli) -> None:
    """Contract: one sentence, and nothing is started."""
    parcel.start("parcel", 'state={"order": "42"}', "--id", "r")
    assert "only a run that has ended" in parcel("compensate", "r", "--app", "shop:app").error
    assert "no run 'x'" in parcel("compensate", "x", "--app", "shop:app").error


def test_a_script_has_no_machine(cli: Cli) -> None:
    """Contract: for other runs nothing is said about machines."""
    cli.start("hello", "name=x", "--id", "r")
    cli.finish("r")
    assert "machine" not in cli.ok("show", "r")
    assert cli("show", "r", "--json").json["machine"] is None
