"""`cancel`, `kill`, `pause`, `resume`, `retry`, `signal`, `publish`, `follow`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from holdfast import App
from holdfast.ports.leases import ClaimRequest, WorkerRow
from tests.unit.cli.conftest import Cli

ON_A_RUN = [["cancel"], ["kill"], ["pause"], ["resume"], ["retry"], ["follow"], ["signal", "approved", "true"]]


def test_a_run_that_has_not_begun_is_cancelled_at_once(cli: Cli) -> None:
    """Contract: the answer says how the run stands now; the reason is kept; again is no error."""
    cli.start("hello", "name=x", "--id", "r")
    assert cli.ok("cancel", "r", "--reason", "customer left") == "run r cancelled\n"
    assert cli.ok("cancel", "r") == "run r cancelled (it was already cancelled)\n"
    assert "customer left" in cli.ok("show", "r")


def test_a_parked_run_is_asked_to_stop(cli: Cli) -> None:
    cli.start("approval", "name=x", "--id", "r")
    cli.until_waiting("r", "signal approved")
    assert "cancelling; it ends after its clean-up" in cli.ok("cancel", "r")
    cli.finish("r")
    assert cli("show", "r", "--json").json["status"] == "cancelled"


def test_kill_ends_a_run_without_its_code(cli: Cli) -> None:
    """Contract: terminal at once; with --json the run's row."""
    cli.start("approval", "name=x", "--id", "r")
    cli.until_waiting("r", "signal approved")
    assert cli("kill", "r", "--reason", "stuck", "--json").json["status"] == "cancelled"
    assert "run r cancelled (killed) after" in cli.ok("show", "r")
    again = cli("kill", "r")
    assert again.code == 0


def test_pause_and_resume(cli: Cli) -> None:
    """Contract: a paused run stands still with its reason, and goes on when it is resumed."""
    cli.start("hello", "name=x", "--id", "r")
    assert cli.ok("pause", "r", "--reason", "let me look") == "run r paused (operator): let me look\n"
    assert cli.ok("pause", "r").endswith("(it was already paused)\n")
    assert "let me look" in cli.ok("runs", "--status", "paused")
    assert cli.ok("resume", "r").startswith("run r pending")
    assert cli.ok("resume", "r").endswith("(it was not paused: nothing changed)\n")
    cli.finish("r")
    assert '"hello x"' in cli.ok("show", "r")
    assert cli("resume", "r").error.endswith("or holdfast retry r")


def test_a_diverged_run_goes_on_once_its_code_is_mended(cli: Cli) -> None:
    """Contract: `show` names both sides; with the old code a resumed run goes on, with the new it diverges again."""
    cli.start("approval", "name=x", "--id", "r")
    cli.until_waiting("r", "signal approved")
    asked = 'progress.set("asked")'
    cli.deploy(f"await greet(name)\n    {asked}", asked)
    cli.ok("signal", "r", "approved", "true")
    cli.until_waiting("r", "paused (diverged)")
    assert "greet" in cli.ok("show", "r")
    assert cli.ok("resume", "r").startswith("run r running")
    cli.until_waiting("r", "paused (diverged)")
    cli.deploy(asked, asked)
    cli.ok("resume", "r")
    cli.finish("r")
    assert '"x: True"' in cli.ok("show", "r")


def test_a_quarantined_run_goes_on_when_resumed(cli: Cli) -> None:
    """Contract: a run whose workers died, twice while it ran alone, stands still until it is resumed."""
    cli.start("hello", "name=x", "--id", "r")

    async def claim_and_die(app: App) -> None:
        async with app:
            store = (await app.client()).store
            for count in range(4):  # each ends the one before it
                worker = WorkerRow(
                    instance=f"gone-{count}",
                    worker="gone",
                    queues=("default",),
                    definitions=app.registry.held,
                    pid=1,
                    host="elsewhere",
                    started_at=store.clock.now(),
                )
                await store.register(worker, timedelta(minutes=1), takes_over="all")
                if count < 3:
                    assert (await store.claim(ClaimRequest(worker=worker, limit=1, max_claims=99))).runs

    asyncio.run(claim_and_die(cli.app))
    cli.until_waiting("r", "paused (quarantined)")
    assert "died twice while it ran alone" in cli.ok("show", "r")
    cli.ok("resume", "r")
    cli.finish("r")
    assert '"hello x"' in cli.ok("show", "r")


def test_a_retry_takes_over_what_was_completed(cli: Cli) -> None:
    """Contract: a new run; the completed prefix is adopted, not done again; a run that goes on is refused."""
    cli.start("fails", "text=boo", "--id", "bad")
    assert "only a run that has ended" in cli("retry", "bad").error
    cli.finish("bad")
    assert cli.ok("retry", "bad", "--id", "again") == "again\n"
    assert cli("retry", "bad", "--json").json["retried_from"] == "bad"
    shown = cli.ok("show", "again")
    assert "retry of  bad" in shown
    assert "adopted: greet" in shown
    assert "in use" in cli("retry", "bad", "--id", "again").error


def test_a_signal_reaches_its_run(cli: Cli) -> None:
    """Contract: the value is JSON; a name nobody waits for is kept, and said."""
    cli.start("approval", "name=x", "--id", "r")
    cli.until_waiting("r", "signal approved")
    assert "kept until the run waits for it. Did you mean approved?" in cli.ok("signal", "r", "aproved", "true")
    assert cli.ok("signal", "r", "approved", "true", "--id", "m1") == "run r: signal approved sent\n"
    assert cli("signal", "r", "approved", "true", "--id", "m1", "--json").json["awaited"] is True
    cli.finish("r")
    assert '"x: True"' in cli.ok("show", "r")
    assert "has completed" in cli("signal", "r", "approved", "true").error


def test_an_id_is_for_one_message(cli: Cli) -> None:
    """Promise: the same signal or publication again is a repeat; another value under its id is refused with code 1,
    and the sentence says what next."""
    cli.start("approval", "name=x", "--id", "r")
    for _ in range(2):
        cli.ok("signal", "r", "approved", "true", "--id", "m1")
    refused = cli("signal", "r", "approved", "false", "--id", "m1")
    assert (refused.code, "id 'm1' was used for signal approved with another value" in refused.error) == (1, True)
    assert "Use a different id" in refused.error
    cli.start("payment", "--id", "p")
    cli.until_waiting("p", "topic paid")
    assert cli.ok("publish", "paid", '"one"', "--id", "m2") == "p\n"
    refused = cli("publish", "paid", '"two"', "--id", "m2")
    assert (refused.code, "id 'm2' was used for topic paid with another value" in refused.error) == (1, True)


def test_a_signal_that_is_sent_before_the_run_waits_is_compared_with_the_code(cli: Cli) -> None:
    """Promise: the name of a signal that the code names is not doubted, and a similar one is, before a worker came."""
    cli.start("approval", "name=x", "--id", "r")
    told, kept = ("signal", "--app", "shop:app"), "it is kept until the run waits for it."
    assert cli.ok(*told, "r", "aproved", "true") == f"run r: signal aproved sent; {kept} Did you mean approved?\n"
    assert cli.ok(*told, "r", "approved", "true") == f"run r: signal approved sent; {kept}\n"


def test_a_person_is_told_that_no_worker_serves_a_retry(cli: Cli, on_a_terminal: Callable[[], None]) -> None:
    """Promise: a run retried by hand does not wait in silence for a worker that is not there."""
    cli.start("fails", "text=boo", "--id", "bad")
    cli.finish("bad")
    assert not cli("retry", "bad", "--id", "one").err
    on_a_terminal()
    answer = cli("retry", "bad", "--app", "shop:app")
    words = " ".join(answer.err.split())
    assert words == f"run {answer.out.strip()}: no worker serves it at the moment. Start one: holdfast worker shop:app"


def test_a_publication_names_whom_it_woke(cli: Cli) -> None:
    cli.start("payment", "--id", "r")
    assert cli.ok("publish", "paid", '"early"') == ""
    cli.until_waiting("r", "topic paid")
    cli.start("hello", "name=x", "--id", "other")
    listed = [line.split("\t")[0] for line in cli.ok("runs", "--topic", "paid").splitlines()]
    assert listed == ["r"], "who waits is listed before"
    assert cli.ok("runs", "--topic", "unpaid") == ""
    assert cli.ok("publish", "paid", '"now"') == "r\n"
    cli.finish("r")
    assert '"now"' in cli.ok("show", "r")
    assert cli("publish", "paid", "1", "--json").json == {"topic": "paid", "woken": []}


def test_follow_tells_a_run_to_its_end(cli: Cli) -> None:
    """Contract: one line for what begins or ends, one object for each event with --json, from any seq on."""
    cli.start("hello", "name=x", "--id", "r")
    cli.finish("r")
    lines = cli.ok("follow", "r").splitlines()
    assert any("started hello (by " in line for line in lines)
    assert any("step greet" in line and "completed" in line for line in lines)
    assert lines[-1].endswith("completed")
    events = [json.loads(line) for line in cli.ok("follow", "r", "--json").splitlines()]
    assert [events[0]["type"], events[-1]["type"]] == ["started", "completed"]
    seq = events[0]["seq"]
    rest = [json.loads(line) for line in cli.ok("follow", "r", "--json", "--after", str(seq)).splitlines()]
    assert rest == [event for event in events if event["seq"] > seq]


@pytest.mark.parametrize("words", ON_A_RUN, ids=lambda words: words[0])
def test_an_unknown_run_gets_a_hint(cli: Cli, words: list[str]) -> None:
    """Contract: every command on a run says which one was perhaps meant, and exits with 1."""
    cli.start("hello", "name=x", "--id", "order-42")
    answer = cli(words[0], "order-24", *words[1:])
    assert answer.code == 1
    assert "no run 'order-24'" in answer.error
    assert "Did you mean order-42?" in answer.error
    wrong = cli(words[0], "a\nb", *words[1:])
    assert wrong.code == 2
    assert "control character" in wrong.error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["signal", "r", "approved", "yes"], ["not JSON", "'\"hello\"'"]),
        (["signal", "r", "approved", "@nowhere"], ["nowhere", "No such file"]),
        (["signal", "r", "", "1"], ["name of a Signal", "empty"]),
        (["publish", "a\nb", "1"], ["name of a Topic"]),
        (["publish", "paid", "{"], ["not JSON"]),
        (["follow", "r", "--after", "-1"], ["--after"]),
        (["cancel"], ["which runs?", "--filter"]),
        (["cancel", "r", "--filter", "status=failed"], ["which runs?"]),
        (["show", "r", "shop:app"], ["unexpected extra argument", "--app shop:app"]),
        (["cancel", "r", "--app", "shop:app", "--url", "memory://"], ["not both"]),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)  # fmt: skip
def test_wrong_usage_is_named_before_anything_is_sent(cli: Cli, words: list[str], said: list[str]) -> None:
    cli.start("approval", "name=x", "--id", "r")
    answer = cli(*words)
    assert answer.code == 2
    assert all(word in answer.error for word in said), answer.error
    assert "pending" in cli.ok("runs")


@pytest.mark.parametrize("door", [["--app", "shop:app"], []])
def test_a_signal_of_the_wrong_type_is_refused(cli: Cli, door: list[str]) -> None:
    """Promise: also where the store alone is named, if the configuration says which app it is."""
    (cli.folder / "holdfast.toml").write_text('app = "shop:app"\n')
    cli.start("approval", "name=x", "--id", "r")
    answer = cli("signal", "r", "approved", '"yes please"', *door)
    assert answer.code == 1
    assert "signal approved: Expected `bool`, got `str`" in answer.error
    assert cli("messages", "r", "--json").json == {"run": "r", "messages": []}


def test_a_stored_message_is_listed_replaced_and_dropped(cli: Cli) -> None:
    """Promise: `messages RUN` says what is wrong, and both cures work from the command line."""
    cli.start("approval", "name=x", "--id", "r")
    cli.ok("signal", "r", "approved", '"yes"', "--id", "m1")
    cli.ok("signal", "r", "approved", "true", "--id", "m2")
    shown = cli.ok("messages", "r", "--app", "shop:app")
    assert all(word in shown for word in ("signal", "approved", "yes", "Expected `bool`")), shown
    assert "Pause the run first" in cli("messages", "replace", "r", "m1", "true").error
    cli.ok("pause", "r")
    assert cli("messages", "replace", "r", "m1", '"no"', "--app", "shop:app").code == 1
    assert "message 1 replaced; holdfast resume r" in cli.ok(
        "messages", "replace", "r", "1", "false", "--app", "shop:app"
    )
    assert cli("messages", "drop", "r", "m2", "--json").json == {"run": "r", "message": "m2", "told_again": False}
    cli.ok("resume", "r")
    cli.finish("r")
    assert "x: False" in cli.ok("show", "r")
